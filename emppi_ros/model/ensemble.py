"""
M models x K rollouts in one physics batch: the only caller of `mujoco.batch`.

Simulation m * K + k is rollout k of model m. Arrays that leave this module are
(M, K, ...) or (M, ...), never flat.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
from mujoco.batch import Batch
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ParameterError
from emppi_ros.model import parameters as registry
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]


class State(NamedTuple):
    """Positions (..., nq) and velocities (..., nv) of everything in a model."""

    qpos: Array
    qvel: Array


class Records(NamedTuple):
    """What rollouts went through: MjData fields (M, K, substeps, ...), and who diverged."""

    fields: dict[str, npt.NDArray]
    diverged: npt.NDArray[np.bool_]  # (M, K)


class Ensemble:
    """Models that differ in a few parameters, stepped together on all cores."""

    def __init__(
        self,
        model: mujoco.MjModel,
        parameters: Sequence[Parameter],
        models: int,
        rollouts: int = 1,
        threads: int = 0,
    ) -> None:
        """Make M x K simulations; `threads` = 0 uses every core."""
        registry.check(parameters, model)
        self.model, self.parameters = model, tuple(parameters)
        self.models, self.rollouts = models, rollouts
        self._batch = Batch(model, models * rollouts, threads)
        self._timesteps = self._batch.expand('opt.timestep')
        self._theta = np.full((models, len(self.parameters)), np.nan)
        self._buffers: dict[str, npt.NDArray] = {}  # of the last size only
        self._size: tuple[int, tuple[str, ...]] = 0, ()
        self._world = mujoco.MjData(model)  # what no rollout changes: targets, grasps
        self._take_world()

    @property
    def batch(self) -> Batch:
        """The physics batch itself, for benchmarks that step it bare."""
        return self._batch

    @property
    def theta(self) -> Array:
        """The parameters (M, P) last written."""
        return self._theta.copy()

    def joint(self, index: int) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
        """Return each model's axis and place of a joint (M, 3), and whether it is a hinge (M,)."""
        rows = slice(None, None, self.rollouts)
        axis, place, kind = (
            self._batch.expand(f)[rows, index] for f in ('jnt_axis', 'jnt_pos', 'jnt_type')
        )
        return axis, place, kind == mujoco.mjtJoint.mjJNT_HINGE.value

    def hold(self, equalities: Sequence[int]) -> None:
        """Make these equality constraints hold from now on, and the others as the scene says."""
        self._world.eq_active[:] = self.model.eq_active0
        self._world.eq_active[list(equalities)] = 1
        self._take_world()

    def aim(self, mocap: int, quaternion: Array) -> None:
        """Turn a mocap body, such as a target, to a quaternion (4,)."""
        self._world.mocap_quat[mocap] = quaternion
        self._take_world()

    def _take_world(self) -> None:
        spec = mujoco.mjtState.mjSTATE_INTEGRATION.value
        self._rest = np.empty(mujoco.mj_stateSize(self.model, spec))
        mujoco.mj_getState(self.model, self._world, self._rest, spec)

    def write(self, theta: Array) -> None:
        """Give model m the parameters theta[m]; only models that change are re-derived."""
        if theta.shape != self._theta.shape:
            raise ParameterError(
                f'parameters of shape {theta.shape}; this ensemble has {self._theta.shape}: '
                f'{self.models} models of {", ".join(p.name for p in self.parameters)}'
            )
        changed = np.any(theta != self._theta, axis=1)
        if not np.any(changed):
            return
        rows = np.repeat(theta, self.rollouts, axis=0)
        registry.write(self._batch.expand, self.model, self.parameters, rows)
        self._batch.set_const(np.flatnonzero(np.repeat(changed, self.rollouts)))
        self._theta = theta.copy()

    def rollout(self, start: State, controls: Array, record: Sequence[str]) -> Records:
        """
        Step every rollout through its controls and record fields after each substep.

        Parameters
        ----------
        start : State
            Where rollouts begin: (nq,) for all, (M, nq) for each model, or (M, K, nq).
        controls : (M, K, substeps, nu) array
            One control for each physics step.
        record : sequence of str
            MjData fields. As in `mj_step`, derived fields (xpos, sensordata, ...) describe
            the state before their substep; qpos and qvel the state after it.

        Returns
        -------
        Records
            Its arrays are reused by the next call of the same size.

        """
        flat = controls.reshape(self.models * self.rollouts, *controls.shape[2:])
        if self._size != (size := (flat.shape[1], tuple(record))):
            self._size, self._buffers = size, {}
        diverged = self._run(start, flat, self.rollouts, record)
        shape = (self.models, self.rollouts)
        fields = {k: v.reshape(*shape, *v.shape[1:]) for k, v in self._buffers.items()}
        return Records(fields, diverged)

    def predict(self, start: State, controls: Array, substep_s: float) -> State:
        """
        Return where each model ends, (M, nq) and (M, nv), after controls (substeps, nu).

        A model that diverges on the way ends nowhere: at NaN, not where it stopped.
        """
        if len(controls) == 0:
            return State(
                np.broadcast_to(start.qpos, (self.models, self.model.nq)).copy(),
                np.broadcast_to(start.qvel, (self.models, self.model.nv)).copy(),
            )
        flat = np.broadcast_to(controls, (self.models, *controls.shape))
        self._timesteps[:] = substep_s
        try:
            diverged = self._run(start, flat, 1)
        finally:
            self._timesteps[:] = self.model.opt.timestep
        ends = (self._batch.bind(name)[:: self.rollouts] for name in State._fields)
        return State(*(np.where(diverged, np.nan, end) for end in ends))

    def _run(
        self, start: State, controls: Array, rollouts: int, record: Sequence[str] = ()
    ) -> npt.NDArray[np.bool_]:
        """Run the first `rollouts` simulations of every model; return who diverged."""
        batch = self._batch
        ids = None if rollouts == self.rollouts else np.arange(0, batch.nsim, self.rollouts)
        rows = slice(None) if ids is None else ids
        self._place(start, rollouts, rows)
        with np.errstate(all='ignore'):
            self._buffers |= batch.rollout(
                controls.shape[1], controls, record=record, ids=ids, out=self._buffers
            )
        counters = batch.warning[rows, :, 1]
        return (counters > 1).any(axis=1).reshape(self.models, rollouts)

    def place(self, start: State) -> None:
        """Put every simulation at rest into a state: (nq,) for all, or (M, nq) for each model."""
        self._place(start, self.rollouts, slice(None))

    def _place(self, start: State, rollouts: int, rows: slice | npt.NDArray[np.int64]) -> None:
        batch = self._batch
        batch.state[rows] = self._rest
        batch.bind('qpos')[rows] = self._spread(start.qpos, rollouts)
        batch.bind('qvel')[rows] = self._spread(start.qvel, rollouts)
        batch.warning[..., 1] = 1  # MuJoCo prints and logs only the first of a kind: none

    def _spread(self, values: Array, rollouts: int) -> Array:
        """Return values for all, or for each model or rollout, for every simulation."""
        if values.ndim == 3:
            return values.reshape(-1, values.shape[-1])
        return np.repeat(values, rollouts, axis=0) if values.ndim == 2 else values

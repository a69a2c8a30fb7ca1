"""
Ensemble of M models with K rollouts each, in one physics batch.

Only this module and `warp_batch`, its form for GPUs, use `mujoco.batch`. Simulation m * K + k is
rollout k of model m; public arrays have shape (M, K, ...) or (M, ...).
"""

from collections.abc import Sequence
import re
from typing import Any, ClassVar, NamedTuple

import mujoco
from mujoco.batch import Batch, SimulationError
import numpy as np
import numpy.typing as npt

from emppi_ros.core import cores
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ParameterError, SceneError, import_optional
from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.parameters import Parameter

_CONTROL = mujoco.mjtState.mjSTATE_CTRL.value
_APPLIED = mujoco.mjtState.mjSTATE_QFRC_APPLIED.value
DEVICES = re.compile(r'cpu|cuda(:\d+)?|warp-cpu')
JOINT_FIELDS = 'jnt_axis', 'jnt_pos', 'jnt_type'


class State(NamedTuple):
    """State in the units of MuJoCo: `qpos` (..., nq), quaternions wxyz, and `qvel` (..., nv)."""

    qpos: Array  # m or rad
    qvel: Array  # m/s or rad/s


class Records(NamedTuple):
    """Recorded MjData fields (M, K, substeps, ...), and which rollouts diverged."""

    fields: dict[str, npt.NDArray[Any]]
    diverged: npt.NDArray[np.bool_]  # (M, K)


class Ensemble:
    """Models that differ in uncertain parameters, stepped in parallel on all cores."""

    steps: ClassVar[int] = 0  # physics steps of all ensembles in this process so far

    def __init__(
        self,
        model: mujoco.MjModel,
        parameters: Sequence[Parameter],
        models: int,
        rollouts: int = 1,
        threads: int = 0,
        device: str = 'cpu',
    ) -> None:
        """
        Create M x K simulations; `threads` = 0 uses all cores that this process may use.

        A `device` other than `cpu` (see DEVICES) simulates with MuJoCo Warp, in single precision;
        ConfigError if it is missing, SceneError if it lacks a feature of scene or parameters.
        """
        registry.check(parameters, model)
        self.model, self.parameters = model, tuple(parameters)
        self.models, self.rollouts = models, rollouts
        self.device = device
        self.batch = self._make_batch(threads or cores.count())
        self._timesteps = self.batch.expand('opt.timestep')
        self._views = State(  # of all simulations, live
            self.batch.bind('qpos').reshape(models, rollouts, model.nq),
            self.batch.bind('qvel').reshape(models, rollouts, model.nv),
        )
        self._first_rollouts = np.arange(0, self.batch.nsim, rollouts, dtype=np.int32)
        self._activations = self.batch.bind('act') if model.na else None
        self._theta = np.full((models, len(self.parameters)), np.nan)
        self._delay = registry.delay_column(self.parameters)
        self._buffers: dict[str, npt.NDArray[Any]] = {}  # for the last size only
        self._size: tuple[int, tuple[str, ...]] = 0, ()
        self._world = mujoco.MjData(model)  # targets and equality constraints
        self._store_world()

    def _make_batch(self, threads: int) -> Any:
        if self.device == 'cpu':
            return Batch(self.model, self.models * self.rollouts, threads)
        warp_batch = import_optional(
            'emppi_ros.model.warp_batch',
            lambda error: (
                f'device: {self.device}: MuJoCo Warp is not installed ({error}): pip install '
                "'emppi_ros[warp]', or set `device: cpu`"
            ),
        )
        shape = self.models, self.rollouts
        return warp_batch.WarpBatch(self.model, self.parameters, shape, threads, self.device)

    @property
    def theta(self) -> Array:
        """The parameters (M, P) last written."""
        return self._theta.copy()

    @property
    def delays(self) -> Array | None:
        """The delay of commands in each model (M,) [s]; None if it is no parameter."""
        return None if self._delay is None else self._theta[:, self._delay]

    def joint_axes(self, index: int) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
        """Return axis and position (M, 3) of a joint, and whether it is a hinge (M,), by model."""
        rows = slice(None, None, self.rollouts)
        axis, position, kind = (self.batch.expand(f)[rows, index] for f in JOINT_FIELDS)
        return axis, position, kind == scene.HINGE

    def activate(self, equalities: Sequence[int]) -> None:
        """Activate equality constraints; reset all others to their state in the scene."""
        self._world.eq_active[:] = self.model.eq_active0
        self._world.eq_active[list(equalities)] = 1
        self._store_world()

    def set_mocap_quat(self, mocap: int, quaternion: Array) -> None:
        """Set the orientation of a mocap body, such as a target, to a quaternion wxyz (4,)."""
        self._world.mocap_quat[mocap] = quaternion
        self._store_world()

    def _store_world(self) -> None:
        spec = mujoco.mjtState.mjSTATE_INTEGRATION.value
        self._world_state = np.empty(mujoco.mj_stateSize(self.model, spec))
        mujoco.mj_getState(self.model, self._world, self._world_state, spec)

    def write(self, theta: Array) -> None:
        """Write parameters theta (M, P); ParameterError if a bound or MuJoCo rejects a value."""
        if theta.shape != self._theta.shape:
            raise ParameterError(
                f'parameters of shape {theta.shape}; this ensemble has {self._theta.shape}: '
                f'{self.models} models of {", ".join(p.name for p in self.parameters)}'
            )
        changed = np.any(theta != self._theta, axis=1)
        if not np.any(changed):
            return
        rows = np.repeat(theta, self.rollouts, axis=0)
        registry.write(self.batch.expand, self.model, self.parameters, rows)
        try:
            self.batch.set_const(np.flatnonzero(np.repeat(changed, self.rollouts)))
        except SimulationError as error:
            first = theta[np.flatnonzero(changed)[0]]
            raise registry.rejected(self.parameters, first, error) from None
        self._theta = theta.copy()

    def rollout(
        self,
        start: State,
        controls: Array,
        record: Sequence[str],
        applied: Array | None = None,
        before: Array | None = None,
    ) -> Records:
        """
        Simulate controls (M, K, substeps, nu) and record MjData fields at each physics step.

        `applied` (M, K, substeps, nv) are external generalized forces (`qfrc_applied`). Filters of
        actuators have settled at the controls `before` (nu,), by default the first ones.

        The start is (nq,) for all, (M, nq) per model, or (M, K, nq) per rollout. As in `mj_step`,
        derived fields (xpos, sensordata, ...) are those before a physics step; qpos and qvel are
        those after it. The next call of the same size overwrites the arrays.
        """
        spec = _CONTROL
        if applied is not None:  # in the order of the bits
            controls, spec = np.concatenate([controls, applied], axis=-1), _CONTROL | _APPLIED
        flat = controls.reshape(self.models * self.rollouts, *controls.shape[2:])
        if self._size != (size := (flat.shape[1], tuple(record))):
            self._size, self._buffers = size, {}
        diverged = self._run(start, flat, record, spec, before=before)
        shape = (self.models, self.rollouts)
        fields = {k: v.reshape(*shape, *v.shape[1:]) for k, v in self._buffers.items()}
        return Records(fields, diverged)

    def predict(self, start: State, controls: Array, substep_s: float | Array) -> State:
        """
        Return the state after controls (substeps, nu), or (M, substeps, nu) per model.

        Physics steps last `substep_s`, or (M,) per model. Diverged models return NaN.
        """
        if controls.shape[-2] == 0:
            return State(*(np.broadcast_to(x, (self.models, x.shape[-1])).copy() for x in start))
        flat = np.full((self.models, *controls.shape[-2:]), controls)
        timesteps = self._timesteps.copy()
        self._timesteps[self._first_rollouts] = substep_s
        try:
            diverged = self._run(start, flat, stride=self.rollouts)
        finally:
            self._timesteps[:] = timesteps
        return State(*(np.where(diverged, np.nan, view[:, 0]) for view in self._views))

    def _run(
        self,
        start: State,
        controls: Array,
        record: Sequence[str] = (),
        spec: int = _CONTROL,
        stride: int = 1,
        before: Array | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Run every `stride`-th simulation; return which diverged, (M, K / stride)."""
        ids = None if stride == 1 else self._first_rollouts
        steps = controls.shape[1]
        self.set_state(start, stride)
        if self._activations is not None:
            settled = controls[:, 0] if before is None else before
            scene.settle_activations(self.model, settled, self._activations[::stride])
        try:
            with np.errstate(all='ignore'):
                self._buffers |= self.batch.rollout(
                    steps, controls, spec, record, ids, self._buffers
                )
        except SimulationError as error:
            raise SceneError(f'MuJoCo cannot simulate the scene: {error}') from None
        diverged = (self.batch.warning[::stride, :, 1] > 1).any(axis=1)
        Ensemble.steps += len(diverged) * steps
        return diverged.reshape(self.models, -1)

    def set_state(self, start: State, stride: int = 1) -> None:
        """Set every `stride`-th state: (nq,) for all, (M, nq) per model, or (M, K, nq)."""
        self.batch.state[::stride] = self._world_state
        for view, values in zip(self._views, start, strict=True):
            view[:, ::stride] = values[:, None] if values.ndim == 2 else values
        # MuJoCo logs the first warning of a kind only: suppress it
        self.batch.warning[..., 1] = 1

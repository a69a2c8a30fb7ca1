"""
What each model expects to be measured, and the likelihood of a measurement (eq. 10).

Each model predicts from the last state, under the applied command, to the time of the new
measurement. `belief: likelihood` of the task selects the quantities to compare and their standard
deviations.
"""

from collections.abc import Mapping, Sequence
import math
from types import MappingProxyType
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.state import articulation
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import Commands, in_steps
from emppi_ros.tasks.schema import LikelihoodConfig
from emppi_ros.tasks.task import Task

LONGEST_S = 0.5  # longest gap between measurements to predict over


def residuals(model: mujoco.MjModel, predicted: State, measured: State) -> Array:
    """
    Return prediction minus measurement (M, nv) in the tangent space of qpos.

    For a free joint these are position [m] and rotation vector [rad].
    """
    out = np.empty_like(predicted.qvel)
    for qpos, difference in zip(predicted.qpos, out, strict=True):
        mujoco.mj_differentiatePos(model, difference, 1.0, measured.qpos, qpos)
    return out


class Deviation(NamedTuple):
    """Predicted minus measured values of one quantity, in units of their standard deviation."""

    quantity: str
    dofs: npt.NDArray[np.intp] | int  # index of each value, or one for all
    values: Array  # (M, n)


def deviations(
    config: LikelihoodConfig,
    model: mujoco.MjModel,
    predicted: State,
    measured: State,
    jointed: Mapping[int, tuple[Array, Array]] = MappingProxyType({}),
) -> list[Deviation]:
    """
    Return the deviation of each quantity; values of diverged models are not finite.

    For bodies on joints whose dof is in `jointed`, their errors of position [m] and rotation [rad]
    (M, 3) are compared instead of the joint, which is not measured.
    """
    position = residuals(model, predicted, measured)  # (M, nv)
    velocity = predicted.qvel - measured.qvel
    free = _free_dofs(model)
    free[list(jointed)] = -1
    result = []
    for quantity, kind, values, sd in (
        ('joint_position', 0, position, config.joint_position_sd),
        ('joint_velocity', 0, velocity, config.joint_velocity_sd),
        ('object_position', 1, position, config.object_position_sd_m),
        ('object_rotation', 2, position, config.object_rotation_sd_rad),
    ):
        dofs = np.flatnonzero(free == kind)
        if sd is not None and len(dofs):
            result.append(Deviation(quantity, dofs, values[:, dofs] / sd))
    for dof, (position, rotation) in jointed.items():
        for quantity, values, sd in (
            ('object_position', position, config.object_position_sd_m),
            ('object_rotation', rotation, config.object_rotation_sd_rad),
        ):
            if sd is not None:
                result.append(Deviation(quantity, dof, values / sd))
    return result


class LearnedNoise(NamedTuple):
    """Learned noise of N compared values, in the order of their deviations."""

    variance: Array  # (N,) in units of the configured one
    power: Array  # (N,) of the likelihood, below 1 where errors are correlated
    persistent: Array  # (N,) variance of independent errors that mean as much


def log_likelihoods(
    config: LikelihoodConfig,
    predicted: State,
    deviations: Sequence[Deviation],
    learned: LearnedNoise | None = None,
) -> Array:
    """
    Return the contribution of each degree of freedom to log p(measured | theta_m), (M, nv).

    It is up to a constant, and -inf for models whose prediction is not finite. Without learned
    noise, the scale is 1.
    """
    total = np.zeros_like(predicted.qvel)
    start = 0
    for one in deviations:
        if learned is None:
            density = log_density(one.values, config.dof)
        else:
            among = slice(start, start + one.values.shape[1])
            scaled = one.values / np.sqrt(learned.variance[among])
            density = learned.power[among] * log_density(scaled, config.learned_dof)
        start += one.values.shape[1]
        total[:, one.dofs] += density.sum(axis=1) if isinstance(one.dofs, int) else density
    rows = np.hstack([predicted.qpos, predicted.qvel, total])
    finite = np.all(np.isfinite(rows), axis=1)
    return np.where(finite[:, None], total, -np.inf)


def _free_dofs(model: mujoco.MjModel) -> npt.NDArray[np.int64]:
    """Return the kind of each degree of freedom: 0 joint, 1 object position, 2 rotation."""
    kinds = np.zeros(model.nv, dtype=np.int64)
    for start in model.jnt_dofadr[model.jnt_type == scene.FREE]:
        kinds[start : start + 6] = [1, 1, 1, 2, 2, 2]
    return kinds


def log_density(deviations: Array, dof: float | None) -> Array:
    """
    Return the log density of deviations in units of their scale, up to a constant.

    It is normal, or Student's t with `dof` degrees of freedom.
    """
    if dof is None:
        return -0.5 * deviations**2
    return -0.5 * (dof + 1.0) * np.log1p(deviations**2 / dof)


class Predictor:
    """Predicts measurements with an ensemble; the caller keeps the states."""

    def __init__(self, task: Task, models: int, threads: int, fine: bool = False) -> None:
        """Create the models; `fine` allows predictions with `fine_substep_s`."""
        self._task, self._config = task, task.belief
        device = task.belief.device
        self._ensemble = Ensemble(task.model, task.parameters, models, 1, threads, device)
        self._joints = _joints(task)
        self._fine = Ensemble(task.model, task.parameters, 1, 1, threads=1) if fine else None

    def tune(self, task: Task) -> None:
        """Use the tuned parameters of the same task."""
        self._task, self._config = task, task.belief

    def write(self, theta: Array) -> None:
        """Set the parameters (M, P) of the models."""
        self._ensemble.write(theta)

    def activate(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints active: a stage's grasp."""
        self._ensemble.activate(equalities)
        if self._fine is not None:
            self._fine.activate(equalities)

    def fit(self, observation: Observation) -> State:
        """Return the estimated state fitted to each model, (nq,) or (M, nq)."""
        if not observation.tracks:
            return observation.estimated
        return articulation.fit_state(
            self._task, self._ensemble, observation.estimated, observation.tracks
        )

    def predict(
        self,
        last: tuple[float, State],
        stamp: float,
        commands: Commands,
        typical: int | None = None,
    ) -> State:
        """
        Return the state that each model predicts for `stamp`, (M, nq) and (M, nv).

        With `fine_substep_s`, the error of long physics steps is removed from the joints: that of
        the model with index `typical`, which hardly depends on the parameters.
        """
        predicted = self._predict(self._ensemble, last, stamp, commands, self._config.substep_s)
        fine_s = self._config.fine_substep_s
        if self._fine is None or fine_s is None or typical is None:
            return predicted
        self._fine.write(self._ensemble.theta[typical : typical + 1])
        start = State(*(values if values.ndim == 1 else values[typical] for values in last[1]))
        fine = self._predict(self._fine, (last[0], start), stamp, commands, fine_s)
        for values, exact, joints in zip(predicted, fine, self._joints, strict=True):
            error = values[typical, joints] - exact[0, joints]
            if np.isfinite(error).all():
                values[:, joints] -= error
        return predicted

    def _predict(
        self,
        ensemble: Ensemble,
        last: tuple[float, State],
        stamp: float,
        commands: Commands,
        substep_s: float,
    ) -> State:
        """Return the state of each model of an ensemble at `stamp`."""
        interval = stamp - last[0]
        count = math.ceil(interval / substep_s - 1e-6)
        rows = in_steps(commands, last[0], interval, count, ensemble.delays)
        return ensemble.predict(last[1], self._task.map.controls(rows), interval / count)

    def compare(self, predicted: State, observation: Observation) -> list[Deviation]:
        """Return the deviations of predictions from measurements."""
        errors = {}
        for name, item in self._task.jointed.items():
            joints = articulation.from_joints(item, *self._ensemble.joint_axes(item.joint))
            q = predicted.qpos[:, item.qpos]
            errors[item.qvel] = articulation.residuals(joints, q, observation.tracks[name])
        return deviations(
            self._config.likelihood, self._task.model, predicted, observation.measured, errors
        )

    def correct(
        self, predicted: State, observation: Observation, fitted: State, interval: float
    ) -> State:
        """
        Return the corrected state of each model: partly as measured, partly as predicted.

        Each moves its predicted object to the measured pose by the fraction `object_gain`, and its
        joints by `joint_gain`: a steady-state Kalman filter for each model.
        """
        count = len(predicted.qpos)
        qpos, qvel = (np.broadcast_to(x, (count, x.shape[-1])).copy() for x in fitted)
        gain, joint_gain = self._config.object_gain, self._config.joint_gain
        if joint_gain < 1.0:
            for start, values, joints in zip(predicted, (qpos, qvel), self._joints, strict=True):
                before = start[:, joints]
                values[:, joints] = before + joint_gain * (values[:, joints] - before)
        if gain < 1.0:
            self._correct_objects(qpos, qvel, predicted, observation, interval)
        diverged = ~(np.isfinite(qpos).all(axis=1) & np.isfinite(qvel).all(axis=1))
        qpos[diverged], qvel[diverged] = observation.estimated
        return State(qpos, qvel)

    def _correct_objects(
        self, qpos: Array, qvel: Array, predicted: State, observation: Observation, interval: float
    ) -> None:
        """Set the tracked objects of corrected states (M, nq) and (M, nv)."""
        gain = self._config.object_gain
        velocity_gain = gain**2 / (2.0 - gain) / interval  # Benedict and Bordner 1962
        innovation = -residuals(self._task.model, predicted, observation.measured)
        for item in self._task.objects.values():
            pose, motion = slice(item.qpos, item.qpos + 7), slice(item.qvel, item.qvel + 6)
            qvel[:, motion] = predicted.qvel[:, motion] + velocity_gain * innovation[:, motion]
            qpos[:, pose] = predicted.qpos[:, pose]
            step = np.zeros_like(qvel)
            step[:, motion] = gain * innovation[:, motion]
            for row, move in zip(qpos, step, strict=True):
                mujoco.mj_integratePos(self._task.model, row, move, 1.0)
        for hung in self._task.jointed.values():
            change = qpos[:, hung.qpos] - predicted.qpos[:, hung.qpos]
            qpos[:, hung.qpos] = predicted.qpos[:, hung.qpos] + gain * change
            qvel[:, hung.qvel] = predicted.qvel[:, hung.qvel] + velocity_gain * change


def _joints(task: Task) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the indices in qpos and qvel of all scalar joints that are measured as such."""
    joints = np.flatnonzero(np.isin(task.model.jnt_type, [scene.HINGE, scene.SLIDE]))
    qpos, qvel = task.model.jnt_qposadr[joints], task.model.jnt_dofadr[joints]
    measured = ~np.isin(qvel, [hung.qvel for hung in task.jointed.values()])
    return qpos[measured], qvel[measured]

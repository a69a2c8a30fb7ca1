"""An observed motion on the time steps of a model, and differences of configurations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import itertools

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Slerp

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.pose import to_quaternion, to_rotation
from emppi_ros.model import scene
from emppi_ros.recordings import matching
from emppi_ros.recordings.recordings import Recording, named_errors, recording_names
from emppi_ros.recordings.signals import MIN_SAMPLES, Signal, common_clock, hold, triangle_average

MAX_STEPS_PER_SAMPLE = 20  # of a joint: 50 Hz with steps of 1 ms
_FINER = 0.75  # of the model's step: samples at shorter periods are those of another clock
_PHYSICAL = 1e-3  # s: with steps up to it, estimates are those of continuous time
# of steps between samples; their positions are only interpolated, which must not outweigh dynamics
_INTERPOLATED = 1e-4


@dataclass(frozen=True)
class Motion:
    """
    Observed configurations of a model, one for each of N time steps, and its inputs.

    Where `weights` is below 1 nothing was observed, and `qpos` is interpolated. Several recordings
    may follow one another: no dynamics connect them.
    """

    qpos: Array  # (N, nq), filtered or not
    weights: Array  # (N, nv) of squared errors, 1 for an observed degree of freedom, or less
    ctrl: Array  # (N, nu), each applied until the next
    applied: Array  # (N, nv) external generalised forces, N or N m
    begins: tuple[int, ...] = (0,)  # first step of each recording

    @property
    def steps(self) -> int:
        """The number of configurations, N."""
        return len(self.qpos)

    @property
    def observed(self) -> Bools:
        """Where a degree of freedom was observed (N, nv)."""
        return self.weights >= 1.0

    @property
    def parts(self) -> list[slice]:
        """The steps of each recording."""
        return [slice(*ends) for ends in itertools.pairwise([*self.begins, self.steps])]


def join(motions: Sequence[Motion]) -> Motion:
    """Return the motions of single recordings one after the other."""
    begins = np.cumsum([0, *(motion.steps for motion in motions)])[:-1]
    qpos, weights, ctrl, applied = (
        np.concatenate(rows)
        for rows in zip(*((m.qpos, m.weights, m.ctrl, m.applied) for m in motions), strict=True)
    )
    return Motion(qpos, weights, ctrl, applied, tuple(begins.tolist()))


def split(motion: Motion, share: float) -> tuple[Motion, Motion]:
    """Return the part of a motion to learn from, and the last share, which is held out."""
    count = motion.steps - int(share * motion.steps)
    if count < MIN_SAMPLES:
        raise IdentificationError(
            f'{share:.3%} held out of {motion.steps} steps leaves {count}, expected '
            f'{MIN_SAMPLES}: hold out less, or record for longer'
        )
    return split_at(motion, count)


def split_at(motion: Motion, count: int) -> tuple[Motion, Motion]:
    """Return the first steps of a motion of one recording, and the others."""
    first, second = (
        Motion(motion.qpos[rows], motion.weights[rows], motion.ctrl[rows], motion.applied[rows])
        for rows in (slice(count), slice(count, None))
    )
    return first, second


def resample(
    recording: Recording,
    model: mujoco.MjModel,
    bodies: Mapping[str, str] | None = None,
    steps_per_sample: int = 1,
) -> Motion:
    """
    Return the recording on the time steps of a model, where all signals overlap.

    Positions are interpolated, rotations along the shortest arc; a command holds until the next.
    Poses may be sampled less often than the model steps, and joints by up to `steps_per_sample`:
    they count as observed at the steps next to their samples. `bodies` maps tracked objects to
    bodies of another name. IdentificationError if names, units, clocks or the sampling rate of
    joints do not fit the model.
    """
    bodies = bodies or {}
    matching.check_names(recording, model, bodies)
    time = step_times(recording, model)
    steps = len(time)
    qpos, applied = np.tile(model.qpos0, (steps, 1)), np.zeros((steps, model.nv))
    ctrl, weights = np.zeros((steps, model.nu)), np.ones((steps, model.nv))
    coarse = _steps_are_coarse(recording, model)

    def force(signal: Signal) -> Array:
        step = model.opt.timestep
        return triangle_average(signal, time, step) if coarse else hold(signal, time)

    for signal in _required(recording, model):
        if signal.kind == 'command':
            ctrl[:, matching.find_actuator(model, signal)] = force(signal)
        elif signal.kind == 'pose':
            joint = matching.find_free_joint(model, signal, bodies)
            matching.check_motion(recording, signal)
            q, v = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
            qpos[:, q : q + 7] = _interpolate_poses(signal, time)
            weights[:, v : v + 6] = near_samples(signal, time, model.opt.timestep)[:, None]
        elif signal.kind == 'position':
            if signal.period > (steps_per_sample + 0.5) * model.opt.timestep:
                raise IdentificationError(
                    f'{signal.where}: a sample every {signal.period:.3g} s, and the model steps '
                    f'every {model.opt.timestep:.3g} s: record more often, or take longer steps'
                )
            matching.check_motion(recording, signal)
            joint = scene.find_scalar(model, signal.of)
            qpos[:, model.jnt_qposadr[joint]] = np.interp(time, signal.time, signal.values)
            if signal.period > 1.5 * model.opt.timestep:
                near = near_samples(signal, time, model.opt.timestep)
                weights[:, model.jnt_dofadr[joint]] = np.maximum(near, _INTERPOLATED)
        else:
            joint = scene.find_scalar(model, signal.of)
            applied[:, model.jnt_dofadr[joint]] += force(signal)
    return Motion(qpos, weights, ctrl, applied)


def resample_and_split(
    recordings: Sequence[Recording], model: mujoco.MjModel, bodies: Mapping[str, str], share: float
) -> list[tuple[Motion, Motion]]:
    """Return the parts of each recording to learn from and held out; errors name the recording."""
    parts = []
    for name, recording in zip(recording_names(recordings), recordings, strict=True):
        with named_errors(name):
            motion = resample(recording, model, bodies, MAX_STEPS_PER_SAMPLE)
            parts.append(split(motion, share))
    return parts


def step_times(recording: Recording, model: mujoco.MjModel) -> Array:
    """Return the times (N,) of the model's steps that all signals but velocities cover."""
    return common_clock(_required(recording, model), model.opt.timestep, 'steps')


def physical_step(recordings: Sequence[Recording], model: mujoco.MjModel) -> float:
    """Return a step of at most 1 ms that divides the shortest sampling period of joints."""
    periods = [r.signals['position', of].period for r in recordings for of in r.names('position')]
    if not periods:
        return min(model.opt.timestep, _PHYSICAL)
    step = min(periods) / np.ceil(min(periods) / _PHYSICAL - 1e-3)
    return min(round(float(step), 6), model.opt.timestep)


def default_step(recordings: Sequence[Recording], model: mujoco.MjModel) -> float:
    """Return the step at which the recordings are compared with the model, if none is given."""
    # recordings with a sample per step of the model may be simulations with this step
    if any(_steps_are_coarse(recording, model) for recording in recordings):
        return physical_step(recordings, model)
    return float(model.opt.timestep)


def _steps_are_coarse(recording: Recording, model: mujoco.MjModel) -> bool:
    """Return whether positions were sampled more often than the model steps."""
    periods = [recording.signals['position', of].period for of in recording.names('position')]
    return bool(periods) and max(periods) < _FINER * model.opt.timestep


def _required(recording: Recording, model: mujoco.MjModel) -> list[Signal]:
    """Return the signals of the motion: no velocities, nor efforts of joints with an actuator."""
    return [
        signal
        for (kind, of), signal in recording.signals.items()
        if kind != 'velocity'
        and not (kind == 'effort' and scene.actuators_of(model, scene.find(model, 'joint', of)))
    ]


def _interpolate_poses(pose: Signal, time: Array) -> Array:
    """Return poses (n, 7) between samples; quaternions w first, without changes of sign."""
    inside = np.clip(time, pose.time[0], pose.time[-1])  # rounding may put the last one outside
    place = [np.interp(inside, pose.time, column) for column in pose.values.T[:3]]
    # SciPy has the scalar last; `scalar_first` needs SciPy 1.14, Ubuntu 24.04 has 1.11
    turns = Slerp(pose.time, to_rotation(pose.values[:, 3:]))
    quaternions = to_quaternion(turns(inside))
    before = pose.values[np.searchsorted(pose.time, inside, side='right') - 1, 3:]
    quaternions *= np.where(np.sum(quaternions * before, axis=1) < 0.0, -1.0, 1.0)[:, None]
    return np.column_stack([*place, quaternions])


def near_samples(signal: Signal, time: Array, h: float) -> Bools:
    """Return whether each of the times (n,), which are `h` apart, is next to a sample."""
    after = np.clip(np.searchsorted(signal.time, time), 1, len(signal.time) - 1)
    distance = np.minimum(np.abs(signal.time[after] - time), np.abs(time - signal.time[after - 1]))
    return distance <= 0.5 * h * (1.0 + 1e-6)


def delay_rows(rows: Array, begins: Sequence[int], steps: npt.ArrayLike) -> Array:
    """
    Return the rows (..., T, n) that act at each time step after a delay of some steps (...).

    Each row (T, n) holds for a time step, and its means over delayed steps are continuous in the
    delay. The first row of each recording, which begin at `begins`, also holds before it.
    """
    late = np.asarray(steps, dtype=np.float64)[..., None]
    whole, index = np.floor(late), np.arange(len(rows))
    first = np.array(begins)[np.searchsorted(begins, index, side='right') - 1]
    near = np.maximum(index - whole.astype(int), first)
    share = (late - whole)[..., None]
    return (1.0 - share) * rows[near] + share * rows[np.maximum(near - 1, first)]


def difference(model: mujoco.MjModel, start: Array, end: Array) -> Array:
    """Return the tangents (n, nv) from configurations (n, nq) to others (n, nq)."""
    if model.nq == model.nv:  # no quaternion
        return end - start
    result = np.empty((len(start), model.nv))
    for row, a, b in zip(result, start, end, strict=True):
        mujoco.mj_differentiatePos(model, row, 1.0, a, b)
    return result


def displace(model: mujoco.MjModel, qpos: Array, tangents: Array) -> Array:
    """Return configurations (n, nq) displaced along tangents (n, nv)."""
    if model.nq == model.nv:
        return qpos + tangents
    result = qpos.copy()
    for row, tangent in zip(result, tangents, strict=True):
        mujoco.mj_integratePos(model, row, tangent, 1.0)
    return result


def difference_jacobians(model: mujoco.MjModel, start: Array, end: Array) -> tuple[Array, Array]:
    """Return the derivatives (n, nv, nv) of a difference by displacements of start and end."""
    eye = np.tile(np.eye(model.nv), (len(start), 1, 1))
    by_start, by_end = -eye, eye
    ball, free = mujoco.mjtJoint.mjJNT_BALL.value, mujoco.mjtJoint.mjJNT_FREE.value
    for joint in np.flatnonzero(np.isin(model.jnt_type, [ball, free])):
        skip = 3 if model.jnt_type[joint] == free else 0  # position of a free joint
        q, v = model.jnt_qposadr[joint] + skip, model.jnt_dofadr[joint] + skip
        a, b = np.empty((3, 3)), np.empty((3, 3))
        for k in range(len(start)):
            mujoco.mjd_subQuat(end[k, q : q + 4], start[k, q : q + 4], a, b)
            by_end[k, v : v + 3, v : v + 3] = a
            by_start[k, v : v + 3, v : v + 3] = b
    return by_start, by_end

"""From a recording to a model's time steps: names, units and clocks must fit."""

from collections.abc import Mapping

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation, Slerp

from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.signals import Signal, common_clock, hold, weigh
from emppi_ros.identify.states import matching
from emppi_ros.identify.states.motion import Motion
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_FINER = 0.75  # of the model's step: samples that come more often are those of another clock


def resample(
    recording: Recording, model: mujoco.MjModel, bodies: Mapping[str, str] | None = None
) -> Motion:
    """
    Return the recording on the model's time steps, as far as all signals reach.

    Positions are interpolated, rotations on the shortest arc; a command holds until the next one.
    Poses may come less often than the model steps: they count as observed at the steps next to
    their samples. `bodies` maps names of tracked objects to bodies of the model, where they
    differ. IdentificationError if names or units are not the model's, clocks do not overlap, or
    joints were sampled less often than the model steps.
    """
    bodies = bodies or {}
    matching.check_names(recording, model, bodies)
    time = clock(recording, model)
    steps = len(time)
    qpos, applied = np.tile(model.qpos0, (steps, 1)), np.zeros((steps, model.nv))
    ctrl, weights = np.zeros((steps, model.nu)), np.ones((steps, model.nv))
    coarse = _is_coarse(recording, model)

    def force(signal: Signal) -> Array:
        return weigh(signal, time, model.opt.timestep) if coarse else hold(signal, time)

    for signal in _used(recording, model):
        if signal.kind == 'command':
            ctrl[:, matching.find_actuator(model, signal)] = force(signal)
        elif signal.kind == 'pose':
            joint = matching.find_free(model, signal, bodies)
            matching.check_motion(recording, signal)
            q, v = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
            qpos[:, q : q + 7] = _between(signal, time)
            weights[:, v : v + 6] = _seen(signal, time, model.opt.timestep)[:, None]
        elif signal.kind == 'position':
            matching.check_rate(signal, model.opt.timestep)
            matching.check_motion(recording, signal)
            joint = scene.find_scalar(model, signal.of)
            qpos[:, model.jnt_qposadr[joint]] = np.interp(time, signal.time, signal.values)
        else:
            joint = scene.find_scalar(model, signal.of)
            applied[:, model.jnt_dofadr[joint]] += force(signal)
    return Motion(qpos, weights, ctrl, applied)


def _is_coarse(recording: Recording, model: mujoco.MjModel) -> bool:
    """Return whether positions were sampled more often than the model steps."""
    periods = [recording.signals['position', of].period for of in recording.named('position')]
    return bool(periods) and max(periods) < _FINER * model.opt.timestep


def clock(recording: Recording, model: mujoco.MjModel) -> Array:
    """
    Return the times (N,) of the model's steps that all signals but velocities reach.

    IdentificationError if they hardly overlap.
    """
    return common_clock(_used(recording, model), model.opt.timestep, 'steps')


def _used(recording: Recording, model: mujoco.MjModel) -> list[Signal]:
    """Return what the motion needs: efforts are known where the model has an actuator."""

    def needed(signal: Signal) -> bool:
        if signal.kind == 'effort':
            return not matching.driving(model, scene.find(model, 'joint', signal.of))
        return signal.kind != 'velocity'

    return list(filter(needed, recording.signals.values()))


def _between(pose: Signal, time: Array) -> Array:
    """Return poses (n, 7) between samples; quaternions w first and without jumps of sign."""
    inside = np.clip(time, pose.time[0], pose.time[-1])  # the last may lie a rounding outside
    place = [np.interp(inside, pose.time, column) for column in pose.values.T[:3]]
    turns = Slerp(pose.time, Rotation.from_quat(pose.values[:, 3:], scalar_first=True))
    quaternions = turns(inside).as_quat(scalar_first=True)
    before = pose.values[np.searchsorted(pose.time, inside, side='right') - 1, 3:]
    quaternions *= np.where(np.sum(quaternions * before, axis=1) < 0.0, -1.0, 1.0)[:, None]
    return np.column_stack([*place, quaternions])


def _seen(pose: Signal, time: Array, h: float) -> Array:
    """Return 1 at steps that are next to a sample, 0 elsewhere (n,)."""
    after = np.clip(np.searchsorted(pose.time, time), 1, len(pose.time) - 1)
    away = np.minimum(np.abs(pose.time[after] - time), np.abs(time - pose.time[after - 1]))
    return (away <= 0.5 * h * (1.0 + 1e-6)).astype(np.float64)

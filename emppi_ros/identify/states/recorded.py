"""From a recording to a model's time steps: names, units and clocks must fit."""

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.errors import IdentificationError, unknown
from emppi_ros.identify.dataset import FEWEST, Recording, Signal
from emppi_ros.identify.states.motion import Motion
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_SCALAR = {
    mujoco.mjtJoint.mjJNT_HINGE.value: {'position': 'rad', 'velocity': 'rad/s', 'torque': 'N m'},
    mujoco.mjtJoint.mjJNT_SLIDE.value: {'position': 'm', 'velocity': 'm/s', 'torque': 'N'},
}
_STILL = 1e-4  # rad or m: less is what sensors do at rest
_LAG = 3  # samples
_LIKE = 1.25  # factor by which measured velocities and those of positions may differ
_CONFUSIONS = {
    180.0 / np.pi: 'degrees',
    np.pi / 180.0: 'radians for degrees',
    1000.0: 'millimetres',
}


def resample(recording: Recording, model: mujoco.MjModel) -> Motion:
    """
    Return the recording on the model's time steps, as far as all signals reach.

    Positions are interpolated; a command holds until the next one. IdentificationError if names or
    units are not the model's, clocks do not overlap, or positions were sampled less often than
    the model steps.
    """
    _check_names(recording, model)
    time = clock(recording, model)
    steps = len(time)
    qpos, applied = np.tile(model.qpos0, (steps, 1)), np.zeros((steps, model.nv))
    ctrl = np.zeros((steps, model.nu))
    for signal in recording.signals.values():
        if signal.kind == 'command':
            ctrl[:, scene.find(model, 'actuator', signal.of)] = _hold(signal, time)
            continue
        joint = scene.find_scalar(model, signal.of)
        if signal.kind == 'position':
            _check_rate(signal, model.opt.timestep)
            _check_motion(recording, signal)
            qpos[:, model.jnt_qposadr[joint]] = np.interp(time, signal.time, signal.values)
        elif signal.kind == 'torque':
            applied[:, model.jnt_dofadr[joint]] = _hold(signal, time)
    return Motion(qpos, np.ones((steps, model.nv)), ctrl, applied)


def clock(recording: Recording, model: mujoco.MjModel) -> Array:
    """
    Return the model's time steps (N,), in s, as far as all signals but velocities reach.

    IdentificationError if they hardly overlap.
    """
    used = [s for s in recording.signals.values() if s.kind != 'velocity']
    begin, end = max(s.time[0] for s in used), min(s.time[-1] for s in used)
    h = model.opt.timestep
    steps = int(np.floor((end - begin) / h + 1e-9)) + 1
    if steps < FEWEST:
        late = max(used, key=lambda s: s.time[0])
        early = min(used, key=lambda s: s.time[-1])
        raise IdentificationError(
            f'unsynchronised: {late.where} begins at {late.time[0]:.6g} s and {early.where} ends '
            f'at {early.time[-1]:.6g} s: {max(steps, 0)} steps of {h:g} s in common, expected '
            f'{FEWEST}: record them on one clock'
        )
    return begin + h * np.arange(steps)


def _hold(signal: Signal, time: Array) -> Array:
    """Return the values in force at each time, within rounding of clocks."""
    late = time + 1e-6 * signal.period
    return signal.values[np.searchsorted(signal.time, late, side='right') - 1]


def _check_names(recording: Recording, model: mujoco.MjModel) -> None:
    """Raise unless every joint is observed, every actuator's command is known, and no other."""
    joints, actuators = scene.names(model, 'joint'), scene.names(model, 'actuator')
    for (kind, of), signal in recording.signals.items():
        if kind == 'command':
            if of not in actuators:
                raise IdentificationError(f'{signal.where}: {unknown("actuator", of, actuators)}')
            continue
        if of not in joints:
            raise IdentificationError(f'{signal.where}: {unknown("joint", of, joints)}')
        units = _SCALAR.get(int(model.jnt_type[scene.find(model, 'joint', of)]))
        if units is None:
            raise IdentificationError(f'{signal.where}: joint {of!r} is neither hinge nor slide')
        if signal.unit != units[kind]:
            raise IdentificationError(
                f'{signal.where}: unit: found {signal.unit!r}, expected {units[kind]!r} for this '
                "joint of the model: does the model match the robot's?"
            )
    for name in joints:
        if ('position', name) not in recording.signals:
            raise IdentificationError(
                f'the model has a joint {name!r}, whose position was not recorded; recorded: '
                + (', '.join(recording.named('position')) or 'none')
            )
    for name in actuators:
        if ('command', name) not in recording.signals:
            raise IdentificationError(
                f'the model has an actuator {name!r}, whose command was not recorded: record it '
                '(zeros, if it was off)'
            )


def _check_rate(signal: Signal, step: float) -> None:
    if signal.period > 1.5 * step:
        raise IdentificationError(
            f'{signal.where}: a sample every {signal.period:.3g} s, and the model steps every '
            f'{step:.3g} s: record more often, or take longer steps'
        )


def _check_motion(recording: Recording, position: Signal) -> None:
    """Raise if a joint does not move, or moves otherwise than its measured velocity says."""
    if np.ptp(position.values) < _STILL:
        raise IdentificationError(
            f'{position.where}: unexciting: it never moves: record a run in which every joint does'
        )
    velocity = recording.signals.get(('velocity', position.of))
    if velocity is None:
        return
    moving = np.gradient(position.values, position.time)
    measured = np.interp(position.time, velocity.time, velocity.values)
    size, other = np.std(moving), np.std(measured)
    ratio = other / size
    for factor, word in _CONFUSIONS.items():
        if 1.0 / _LIKE < ratio / factor < _LIKE:
            raise IdentificationError(
                f'{velocity.where}: {ratio:.3g} times the velocity that positions show: units are '
                f'confused ({word}?)'
            )
    if not 1.0 / _LIKE < ratio < _LIKE:
        raise IdentificationError(
            f'{velocity.where}: {ratio:.3g} times the velocity that positions show: check the '
            'units, or leave the column out'
        )
    lag = _lag(moving - moving.mean(), measured - measured.mean())
    if abs(lag) > _LAG:
        raise IdentificationError(
            f'{velocity.where}: unsynchronised: {lag * position.period:.3g} s behind the '
            'positions: record both on one clock'
        )


def _lag(first: Array, second: Array) -> int:
    """Return by how many samples the second signal follows the first."""
    size = 2 * len(first)
    product = np.fft.rfft(second, size) * np.conj(np.fft.rfft(first, size))
    best = int(np.argmax(np.fft.irfft(product, size)))
    return best if best < len(first) else best - size

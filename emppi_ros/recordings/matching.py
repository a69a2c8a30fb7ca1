"""Matching of recordings to models: names, units, rates, and consistency of velocities."""

from collections.abc import Mapping

import mujoco
import numpy as np
import scipy

from emppi_ros.core.errors import IdentificationError, SceneError, unknown
from emppi_ros.model import scene
from emppi_ros.recordings.noise import smooth, uneven_difference_noise
from emppi_ros.recordings.recordings import Recording
from emppi_ros.recordings.signals import MIN_SAMPLES, SI, Signal, joint_units

_FREE = mujoco.mjtJoint.mjJNT_FREE.value
_MIN_MOTION = 1e-4  # rad or m: less than the noise of any sensor
_MIN_SIGNAL = 5.0  # standard deviations of the noise that smoothing leaves
# both must be exceeded: below 10 Hz a shorter lag is not separated from noise
_MAX_LAG_SAMPLES, _MAX_LAG_S = 3, 0.01
_CUTOFF_HZ = 10.0  # below which positions and velocities are compared
_MAX_RATIO = 1.25  # between measured velocities and those of positions
_CONFUSIONS = {
    180.0 / np.pi: 'degrees',
    np.pi / 180.0: 'radians for degrees',
    1000.0: 'millimetres',
}


def find_actuator(model: mujoco.MjModel, command: Signal) -> int:
    """Return the actuator that a command names, or the only one of the joint that it names."""
    actuators = scene.names(model, 'actuator')
    if command.of in actuators:
        return actuators.index(command.of)
    joints = scene.names(model, 'joint')
    if command.of in joints:
        driving = scene.actuators_of(model, joints.index(command.of))
        if len(driving) == 1:
            return driving[0]
    raise IdentificationError(f'{command.where}: {unknown("actuator", command.of, actuators)}')


def find_free_joint(model: mujoco.MjModel, pose: Signal, bodies: Mapping[str, str]) -> int:
    """Return the free joint of a tracked body."""
    name = bodies.get(pose.of, pose.of)
    named = scene.names(model, 'body')
    if name not in named:
        raise IdentificationError(f'{pose.where}: {unknown("body", name, named[1:])}')
    joint = int(model.body_jntadr[named.index(name)])
    if joint < 0 or model.jnt_type[joint] != _FREE:
        raise IdentificationError(
            f'{pose.where}: body {name!r} has no free joint: leave its pose out, and record the '
            'positions of the joints that it hangs on'
        )
    return joint


def check_names(recording: Recording, model: mujoco.MjModel, bodies: Mapping[str, str]) -> None:
    """Raise unless the recording has every joint and command of the model, and no others."""
    observed, driven = set[int](), set[int]()
    for (kind, of), signal in recording.signals.items():
        if kind == 'command':
            driven.add(find_actuator(model, signal))
        elif kind == 'pose':
            observed.add(find_free_joint(model, signal, bodies))
        else:
            check_unit(signal, model)
            if kind == 'position':
                observed.add(scene.find(model, 'joint', of))
    for joint, name in enumerate(scene.names(model, 'joint')):
        if joint in observed:
            continue
        if model.jnt_type[joint] == _FREE:
            body = scene.names(model, 'body')[model.jnt_bodyid[joint]]
            raise IdentificationError(
                f'the model has a free body {body!r}, whose pose was not recorded (columns '
                f'pose/{body}.x and so on; in a bag the topic tracking/{body}); recorded poses: '
                f'{recording.listed("pose")}'
            )
        raise IdentificationError(
            f'the model has a joint {name!r}, whose position was not recorded; recorded: '
            f'{recording.listed("position")}'
        )
    for actuator, name in enumerate(scene.names(model, 'actuator')):
        if actuator not in driven:
            raise IdentificationError(
                f'the model has an actuator {name!r}, whose command was not recorded: record it '
                '(zeros, if it was off; in a bag it is on the topic emppi/applied)'
            )


def check_unit(signal: Signal, model: mujoco.MjModel) -> None:
    """Raise unless a signal is of a hinge or slide of the model, and in its unit."""
    try:
        joint = scene.find_scalar(model, signal.of)
    except SceneError as error:
        raise IdentificationError(f'{signal.where}: {error}') from None
    kind = 'force' if signal.kind in ('torque', 'effort') else signal.kind
    if signal.unit not in (SI, expected := joint_units(model, joint)[kind]):
        raise IdentificationError(
            f'{signal.where}: unit: found {signal.unit!r}, expected {expected!r} for this '
            'joint of the model: does the model match the robot?'
        )


def check_motion(recording: Recording, position: Signal) -> None:
    """Raise if a joint does not move, or its measured velocity does not match its positions."""
    places = position.values.reshape(len(position.time), -1)
    if np.all(np.ptp(places, axis=0) < _MIN_MOTION):
        raise IdentificationError(
            f'{position.where}: unexciting: it never moves: record a run in which every joint does'
        )
    velocity = recording.signals.get(('velocity', position.of))
    if velocity is None or position.kind == 'pose':
        return
    both = (position.time >= velocity.time[0]) & (position.time <= velocity.time[-1])
    if np.count_nonzero(both) < MIN_SAMPLES:
        return
    rate = 1.0 / position.period  # noise of encoders makes differences of positions useless above
    time = position.time[both]
    moving = np.gradient(smooth(position.values[both], rate, _CUTOFF_HZ), time)
    measured = smooth(np.interp(time, velocity.time, velocity.values), rate, _CUTOFF_HZ)
    size, other = np.std(moving), np.std(measured)
    noise, other_noise = _noise_left(position, rate, True), _noise_left(velocity, rate)
    if size < _MIN_SIGNAL * noise or other < _MIN_SIGNAL * other_noise:
        return  # so slow that only noise would be compared
    ratio = other / size
    if not 1.0 / _MAX_RATIO < ratio < _MAX_RATIO:
        advice = 'check the units, or leave the column out'
        for factor, unit in _CONFUSIONS.items():
            if 1.0 / _MAX_RATIO < ratio / factor < _MAX_RATIO:
                advice = f'units are confused ({unit}?)'
        raise IdentificationError(
            f'{velocity.where}: {ratio:.3g} times the velocity that positions show: {advice}'
        )
    overlaps = scipy.signal.correlate(measured - measured.mean(), moving - moving.mean())
    lag = int(np.argmax(overlaps)) - (len(moving) - 1)  # samples by which velocities are late
    if abs(lag) > max(_MAX_LAG_SAMPLES, _MAX_LAG_S / position.period):
        raise IdentificationError(
            f'{velocity.where}: unsynchronised: {lag * position.period:.3g} s behind the '
            'positions: record both on one clock'
        )


def _noise_left(signal: Signal, rate: float, slope: bool = False) -> float:
    """Return the standard deviation of noise in a smoothed signal, or in its slope."""
    blip = np.zeros(2 * MIN_SAMPLES + 1)
    blip[MIN_SAMPLES] = 1.0
    weights = smooth(blip, rate, _CUTOFF_HZ)
    if slope:
        weights = np.gradient(weights, 1.0 / rate)
    noise = uneven_difference_noise(signal.time, signal.values)
    return noise * float(np.sqrt(np.sum(weights**2)))


def require_scalar_joints(model: mujoco.MjModel) -> None:
    """Raise IdentificationError unless all joints are hinges or slides."""
    for joint, name in enumerate(scene.names(model, 'joint')):
        if not scene.is_scalar(model, joint):
            raise IdentificationError(
                f'joint {name!r} is neither hinge nor slide: leave it out of the model, or use '
                '--method filter or states'
            )

"""A recorded signal of a joint, actuator or tracked body, on its own clock."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.interpolate import PPoly

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import LENGTH_TOLERANCE
from emppi_ros.core.errors import IdentificationError

SI = 'SI'  # unit of ROS messages: that of the joint (REP 103)
UNITS = {
    'position': ('rad', 'm'),
    'velocity': ('rad/s', 'm/s'),
    'torque': ('N m', 'N'),
    'effort': ('N m', 'N'),
    'command': (),  # that of the actuator
    'pose': ('m, 1',),  # of x, y, z, and of the components of the quaternion
    # of a pose, as in geometry_msgs/PoseWithCovariance: of the position, and of a rotation about
    # the fixed axes
    'covariance': ('m^2, m rad, rad^2',),
}
MIN_SAMPLES = 100  # fewer determine no parameter
_MIN_RATE, _MAX_RATE = 5.0, 50_000.0  # Hz
_MAX_GAP, _MAX_GAP_S = 5.0, 0.02  # usual periods or seconds: gaps that interpolation bridges
_TURN_TOLERANCE = 1.0  # rad: joints move during a jump
_SCALAR = {
    mujoco.mjtJoint.mjJNT_HINGE.value: {'position': 'rad', 'velocity': 'rad/s', 'force': 'N m'},
    mujoco.mjtJoint.mjJNT_SLIDE.value: {'position': 'm', 'velocity': 'm/s', 'force': 'N'},
}


class Signal(NamedTuple):
    """
    Samples of one quantity.

    A pose is x, y, z and a quaternion, w first. A covariance is the upper triangle of a 6 x 6
    matrix, row by row: see `covariance_matrices`.
    """

    kind: str
    of: str  # name of the joint, the actuator or the tracked body
    unit: str
    time: Array  # (n,) s
    values: Array  # (n,), of poses (n, 7), of covariances (n, 21)
    where: str  # file and column or topic, for errors

    @property
    def period(self) -> float:
        """The median time between samples, in s."""
        return float(np.median(np.diff(self.time)))


def usual_step(time: Array) -> float:
    """Return the median time between samples at times (n,), in any order; 0 if all are equal."""
    steps = np.abs(np.diff(time))
    return float(np.median(steps[steps > 0.0])) if np.any(steps > 0.0) else 0.0


def longest_step(time: Array) -> float:
    """Return the longest time between samples at times (n,), in any order, that is no gap."""
    return max(_MAX_GAP * usual_step(time), _MAX_GAP_S)


def covariance_matrices(values: Array) -> Array:
    """Return the symmetric matrices (n, 6, 6) of upper triangles (n, 21)."""
    rows, columns = np.triu_indices(6)
    result = np.zeros((len(values), 6, 6))
    result[:, rows, columns] = values
    result[:, columns, rows] = values
    return result


def covariance_triangles(matrices: Array) -> Array:
    """Return upper triangles (n, k (k + 1) / 2), row by row, of symmetric matrices (n, k, k)."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return matrices[:, rows, columns]


def common_clock(used: Sequence[Signal], step: float, of: str) -> Array:
    """
    Return the times (N,), a step apart, that all signals cover.

    Raises IdentificationError if they hardly overlap; it calls the times `of`: steps or samples.
    """
    late = max(used, key=lambda s: s.time[0])
    early = min(used, key=lambda s: s.time[-1])
    begin, end = late.time[0], early.time[-1]
    count = int(np.floor((end - begin) / step + 1e-9)) + 1
    if count < MIN_SAMPLES:
        raise IdentificationError(
            f'unsynchronised: {late.where} begins at {begin:.6g} s and {early.where} ends '
            f'at {end:.6g} s: {max(count, 0)} {of} of {step:g} s in common, expected '
            f'{MIN_SAMPLES}: record them on one clock'
        )
    return begin + step * np.arange(count)


def hold(signal: Signal, time: Array) -> Array:
    """Return the zero-order hold of a signal at times (n,), within rounding of the clocks."""
    late = time + 1e-6 * signal.period
    return signal.values[np.searchsorted(signal.time, late, side='right') - 1]


def box_average(signal: Signal, time: Array, step: float) -> Array:
    """Return the mean of the held signal over one step, centred at each time (n,)."""
    impulse = _integral(signal, 1)
    return (impulse(time + 0.5 * step) - impulse(time - 0.5 * step)) / step


def triangle_average(signal: Signal, time: Array, step: float) -> Array:
    """
    Return the mean of the held signal about each time (n,), with triangular weights.

    The weights fall to zero one step away, as those of a force in a second difference of
    positions do.
    """
    twice = _integral(signal, 2)
    return (twice(time + step) - 2.0 * twice(time) + twice(time - step)) / step**2


def _integral(signal: Signal, times: int) -> PPoly:
    """Return the repeated integral over time of the held signal, extended at both ends."""
    ends = np.append(signal.time, signal.time[-1] + signal.period)
    return PPoly(signal.values[None], ends).antiderivative(times)


def unwrap(signal: Signal) -> Signal:
    """Return the positions of a joint without jumps by a whole turn; other signals unchanged."""
    if signal.kind != 'position' or signal.unit == 'm':
        return signal
    jumps = np.abs(np.diff(signal.values))
    jumps = jumps[jumps > np.pi]
    if not len(jumps) or np.any(np.abs(jumps - 2.0 * np.pi) > _TURN_TOLERANCE):
        return signal  # other jumps mean that it is not an angle in radians: checked later
    return signal._replace(values=np.unwrap(signal.values))


def check_signal(signal: Signal) -> Signal:
    """
    Return a signal whose clock is valid, with normalised quaternions that never change sign.

    Raises IdentificationError if there are too few samples, or they are out of order, at an
    unlikely rate or with gaps.
    """
    if len(signal.time) < MIN_SAMPLES:
        many = len(signal.time)
        count = f'too short: {many} samples' if many else 'it has no values'
        raise IdentificationError(f'{signal.where}: {count}; record {MIN_SAMPLES} or more')
    steps = np.diff(signal.time)
    if np.isnan(signal.time).any() or np.any(steps <= 0.0):
        row = int(np.argmax(~(steps > 0.0)))
        raise IdentificationError(
            f'{signal.where}: time_s: sample {row + 1} is not after the one before, at '
            f'{signal.time[row]:.6g} s: sort the rows, and remove repeated ones '
            '(of a bag: was the clock set back, or do two nodes publish it?)'
        )
    rate = 1.0 / signal.period
    if not _MIN_RATE <= rate <= _MAX_RATE:
        raise IdentificationError(
            f'{signal.where}: {rate:.3g} samples a second; expected {_MIN_RATE:g} to '
            f'{_MAX_RATE:g}: is time_s in seconds?'
        )
    widest = int(np.argmax(steps))
    if steps[widest] > longest_step(signal.time):
        lost = ': the tracker lost it' if signal.kind == 'pose' else ''
        raise IdentificationError(
            f'{signal.where}: gap of {steps[widest]:.3g} s after {signal.time[widest]:.6g} s, '
            f'where samples come every {signal.period:.3g} s{lost}: use one '
            'part (--from, --to), or record again'
        )
    return _normalized(signal) if signal.kind == 'pose' else signal


def _normalized(pose: Signal) -> Signal:
    """Return a pose with unit quaternions, each with the sign that is nearer to the one before."""
    quaternions = pose.values[:, 3:]
    length = np.linalg.norm(quaternions, axis=1)
    worst = int(np.argmax(np.abs(length - 1.0)))
    if abs(length[worst] - 1.0) > LENGTH_TOLERANCE:
        raise IdentificationError(
            f'{pose.where}: quaternion of length {length[worst]:.4g} at {pose.time[worst]:.6g} s, '
            'expected 1: are its components in their places?'
        )
    quaternions = quaternions / length[:, None]
    turns = np.sign(np.sum(quaternions[1:] * quaternions[:-1], axis=1))
    turns[turns == 0.0] = 1.0
    signs = np.concatenate([[1.0], np.cumprod(turns)])
    return pose._replace(
        values=np.column_stack([pose.values[:, :3], quaternions * signs[:, None]])
    )


def joint_units(model: mujoco.MjModel, joint: int) -> Mapping[str, str]:
    """Return the units of position, velocity and force of a hinge or slide."""
    return _SCALAR[int(model.jnt_type[joint])]

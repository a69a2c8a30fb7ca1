"""What was recorded of one joint, actuator or tracked body, checked, on its own clock."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PPoly

from emppi_ros.core.errors import IdentificationError

Array = npt.NDArray[np.float64]
SI = 'SI'  # unit of what ROS messages hold: that of the joint (REP 103)
UNITS = {
    'position': ('rad', 'm'),
    'velocity': ('rad/s', 'm/s'),
    'torque': ('N m', 'N'),
    'effort': ('N m', 'N'),
    'command': (),  # the actuator's own
    'pose': ('m, 1',),  # of x, y, z, and of the quaternion's components
}
FEWEST = 100  # samples: less says little about any parameter
_SLOWEST, _FASTEST = 5.0, 50_000.0  # Hz
_GAP = 5.0  # of the usual period
_TURN = 1.0  # rad: by which a jump may differ from a turn, for joints move meanwhile
_LENGTH = 0.01  # by which a quaternion's length may differ from 1: of printed digits


class Signal(NamedTuple):
    """What was recorded of one thing; a pose is x, y, z and a quaternion, w first."""

    kind: str
    of: str  # the joint, the actuator or the tracked body
    unit: str
    time: Array  # (n,) s
    values: Array  # (n,), of poses (n, 7)
    where: str  # file and column or topic, for errors

    @property
    def period(self) -> float:
        """The usual time between samples, in s."""
        return float(np.median(np.diff(self.time)))


def common_clock(used: Sequence[Signal], step: float, of: str) -> Array:
    """
    Return the times (N,), a step apart, that all signals reach.

    IdentificationError, in which these are steps or samples (`of`), if they hardly overlap.
    """
    late = max(used, key=lambda s: s.time[0])
    early = min(used, key=lambda s: s.time[-1])
    begin, end = late.time[0], early.time[-1]
    count = int(np.floor((end - begin) / step + 1e-9)) + 1
    if count < FEWEST:
        raise IdentificationError(
            f'unsynchronised: {late.where} begins at {begin:.6g} s and {early.where} ends '
            f'at {end:.6g} s: {max(count, 0)} {of} of {step:g} s in common, expected '
            f'{FEWEST}: record them on one clock'
        )
    return begin + step * np.arange(count)


def hold(signal: Signal, time: Array) -> Array:
    """Return the values in force at each time, within rounding of clocks."""
    late = time + 1e-6 * signal.period
    return signal.values[np.searchsorted(signal.time, late, side='right') - 1]


def mean(signal: Signal, time: Array, step: float) -> Array:
    """Return what is in force in the mean from half a step before each time (n,) to half after."""
    impulse = _integral(signal, 1)
    return (impulse(time + 0.5 * step) - impulse(time - 0.5 * step)) / step


def weigh(signal: Signal, time: Array, step: float) -> Array:
    """
    Return what is in force about each time (n,), as a second difference of positions weighs it.

    Weights fall from each time to nothing a step away, on either side.
    """
    twice = _integral(signal, 2)
    return (twice(time + step) - 2.0 * twice(time) + twice(time - step)) / step**2


def _integral(signal: Signal, times: int) -> PPoly:
    """Return the integral over time of what is in force; the first and last value hold on."""
    ends = np.append(signal.time, signal.time[-1] + signal.period)
    return PPoly(signal.values[None], ends).antiderivative(times)


def check(signal: Signal) -> Signal:
    """Return a signal whose clock is good, quaternions of length 1 and without jumps of sign."""
    _check_clock(signal)
    return _unit(signal) if signal.kind == 'pose' else signal


def unwrapped(signal: Signal) -> Signal:
    """Return a joint's positions without an encoder's jumps by a turn; others as they are."""
    if signal.kind != 'position' or signal.unit == 'm':
        return signal
    jumps = np.abs(np.diff(signal.values))
    jumps = jumps[jumps > np.pi]
    if not len(jumps) or np.any(np.abs(jumps - 2.0 * np.pi) > _TURN):
        return signal  # what jumps otherwise is no angle in radians, and is told later
    return signal._replace(values=np.unwrap(signal.values))


def _check_clock(signal: Signal) -> None:
    """Raise unless samples are enough, in order, at a likely rate, and without gaps."""
    if len(signal.time) < FEWEST:
        raise IdentificationError(
            f'{signal.where}: too short: {len(signal.time)} samples; record {FEWEST} or more'
        )
    steps = np.diff(signal.time)
    if np.isnan(signal.time).any() or np.any(steps <= 0.0):
        row = int(np.argmax(~(steps > 0.0)))
        raise IdentificationError(
            f'{signal.where}: time_s: sample {row + 1} is not after the one before, at '
            f'{signal.time[row]:.6g} s: sort the rows, and leave out repeated ones '
            '(of a bag: was the clock set back, or do two nodes publish it?)'
        )
    rate = 1.0 / signal.period
    if not _SLOWEST <= rate <= _FASTEST:
        raise IdentificationError(
            f'{signal.where}: {rate:.3g} samples a second; expected {_SLOWEST:g} to {_FASTEST:g}: '
            'is time_s in seconds?'
        )
    widest = int(np.argmax(steps))
    if steps[widest] > _GAP * signal.period:
        lost = ': the tracker lost it' if signal.kind == 'pose' else ''
        raise IdentificationError(
            f'{signal.where}: gap of {steps[widest]:.3g} s after {signal.time[widest]:.6g} s, '
            f'where samples come every {signal.period:.3g} s{lost}: give one part, or record again'
        )


def _unit(pose: Signal) -> Signal:
    """Return a pose with quaternions of length 1, each the nearer one of two to that before."""
    quaternions = pose.values[:, 3:]
    length = np.linalg.norm(quaternions, axis=1)
    worst = int(np.argmax(np.abs(length - 1.0)))
    if abs(length[worst] - 1.0) > _LENGTH:
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

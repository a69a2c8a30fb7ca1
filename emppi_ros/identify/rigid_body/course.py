"""
A periodic motion between rest and rest, within limits throughout.

From where the arm is it goes straight to where the motion begins, which then gathers speed: its
phase does, so that no other places and no higher velocities come than are in the motion.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.rigid_body import excitation
from emppi_ros.identify.rigid_body.excitation import Fourier, Limits

Array = npt.NDArray[np.float64]
_STEEPEST, _SHARPEST = 1.875, 10.0 / np.sqrt(3.0)  # derivatives of the step below
_BRIEFEST_S = 0.5


class Course(NamedTuple):
    """A motion, how often, and how long it takes to get there and to gather speed."""

    home: Array  # (nv,)
    motion: Fourier
    periods: int
    ramp_s: float
    approach_s: float

    @property
    def moving_s(self) -> float:
        """How long it takes from rest to rest, at the place where the motion begins."""
        return self.periods * self.motion.period + self.ramp_s

    @property
    def duration_s(self) -> float:
        """How long all of it takes."""
        return self.moving_s + 2.0 * self.approach_s


def ramp_of(limits: Limits) -> float:
    """Return in which time to gather speed, for half of each acceleration at most."""
    most = 2.0 * _STEEPEST * limits.velocity / limits.acceleration
    return max(float(most.max()), _BRIEFEST_S)


def of_motion(limits: Limits) -> Limits:
    """Return the limits of a motion that leave what it takes to gather speed."""
    taken = _STEEPEST * limits.velocity / ramp_of(limits)
    return limits._replace(acceleration=limits.acceleration - taken)


def plan(home: Array, motion: Fourier, periods: int, limits: Limits) -> Course:
    """Return the course of a motion within `of_motion(limits)`."""
    away = np.abs(excitation.along(motion, np.zeros(1))[0, 0] - home)
    steep, sharp = _STEEPEST * away / limits.velocity, _SHARPEST * away / limits.acceleration
    approach = max(float(steep.max()), float(np.sqrt(sharp.max())), _BRIEFEST_S)
    return Course(home, motion, periods, ramp_of(limits), approach)


def along(course: Course, time: Array) -> Array:
    """Return positions, velocities and accelerations (3, n, nv) at times (n,); rest after it."""
    moving, began = course.moving_s, time - course.approach_s
    up, down = (_ramp(began - late, course.ramp_s) for late in (0.0, moving - course.ramp_s))
    phase, rate, push = (a - b for a, b in zip(up, down, strict=True))
    states = excitation.along(course.motion, phase)
    first = excitation.along(course.motion, np.zeros(1))[0, 0] - course.home
    states[2] = states[2] * rate[:, None] ** 2 + states[1] * push[:, None]
    states[1] *= rate[:, None]
    # before and after it, on the line between home and where it begins
    there, back = (_step(since, course.approach_s) for since in (time, began - moving))
    outside = (began < 0.0) | (began > moving)
    line = np.stack([a - b for a, b in zip(there, back, strict=True)])[:, outside, None] * first
    line[0] += course.home
    states[:, outside] = line
    return states


def _step(time: Array, length: float) -> tuple[Array, Array, Array]:
    """Return a step from 0 to 1 with the least jerk, and two derivatives, (n,) each."""
    u = np.clip(time / length, 0.0, 1.0)
    return (
        u**3 * (10.0 - 15.0 * u + 6.0 * u**2),
        30.0 * (u * (1.0 - u)) ** 2 / length,
        60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / length**2,
    )


def _ramp(time: Array, length: float) -> tuple[Array, Array, Array]:
    """Return the integral of that step, the step, and its derivative, (n,) each."""
    u = np.clip(time / length, 0.0, 1.0)
    step, slope, _ = _step(time, length)
    whole = length * u**4 * (2.5 - 3.0 * u + u**2) + np.maximum(time - length, 0.0)
    return whole, step, slope

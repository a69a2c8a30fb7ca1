"""The no-U-turn sampler (Hoffman and Gelman, JMLR 2014, algorithm 6), in NumPy."""

from collections.abc import Callable
import math
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array

Density = Callable[[Array], tuple[float, Array]]  # (D,) -> log density and slope (D,)
ACCEPTANCE = 0.8  # wanted
_DEPTH = 8  # at most 256 steps in a trajectory
_LOST = 1000.0  # nats of energy, after which a trajectory ends
_SHRINK, _EARLY, _FORGET = 0.05, 10.0, 0.75  # of dual averaging, as in the paper


class Point(NamedTuple):
    """A point of a trajectory."""

    x: Array
    momentum: Array
    log_p: float
    slope: Array


class _Tree(NamedTuple):
    """A part of a trajectory, its sample, and how well it kept the energy."""

    first: Point
    last: Point
    sample: Point
    valid: int  # points that are acceptable as samples
    goes_on: bool
    accepted: float
    steps: int


class StepSize:
    """Dual averaging of the logarithm of the step size."""

    def __init__(self, first: float) -> None:
        """Begin with a first step size."""
        self._target, self._error, self._mean, self._count = math.log(10.0 * first), 0.0, 0.0, 0
        self.now = first

    def learn(self, acceptance: float) -> None:
        """Change the step size after a trajectory."""
        self._count += 1
        count = self._count
        self._error += (ACCEPTANCE - acceptance - self._error) / (count + _EARLY)
        now = self._target - math.sqrt(count) / _SHRINK * self._error
        weight = count**-_FORGET
        self._mean = weight * now + (1.0 - weight) * self._mean
        self.now = math.exp(now)

    @property
    def settled(self) -> float:
        """The averaged step size."""
        return math.exp(self._mean)


def sample(
    density: Density, start: Array, evaluations: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """
    Return the samples (N, D) of a chain after its warm-up, and their mean acceptance.

    The warm-up takes half of the evaluations. At a quarter of them and at its end, the metric
    becomes the variance of the samples since the metric before.
    """
    spent, scale = 0, np.ones_like(start)

    def scaled(u: Array) -> tuple[float, Array]:
        nonlocal spent
        spent += 1
        log_p, slope = density(u * scale)
        return log_p, slope * scale

    def point(u: Array) -> Point:
        return Point(u, np.zeros_like(u), *scaled(u))

    here = point(start)
    size = StepSize(_first_step(scaled, here, rng))
    samples: list[Array] = []
    accepted: list[float] = []
    ends = [evaluations // 4, evaluations // 2, evaluations]
    for phase, end in enumerate(ends):
        samples, accepted = [], []
        while spent < end or not samples:
            step = size.now if phase < len(ends) - 1 else size.settled
            here, acceptance = _trajectory(scaled, here, step, rng)
            samples.append(here.x * scale)
            accepted.append(acceptance)
            if phase < len(ends) - 1:
                size.learn(acceptance)
        if phase == 0:
            half = np.array(samples[len(samples) // 2 :])
            count = len(half)
            # towards unit variance with few samples, as Stan does
            variance = (count * half.var(axis=0) + 5e-3) / (count + 5.0)
            x, scale = here.x * scale, np.sqrt(variance)
            here = point(x / scale)
            size = StepSize(_first_step(scaled, here, rng))
    return np.array(samples), float(np.mean(accepted))


def _leap(density: Density, at: Point, step: float) -> Point:
    momentum = at.momentum + 0.5 * step * at.slope
    x = at.x + step * momentum
    log_p, slope = density(x)
    return Point(x, momentum + 0.5 * step * slope, log_p, slope)


def _energy(at: Point) -> float:
    """Return the log density of a point with its momentum."""
    value = at.log_p - 0.5 * float(at.momentum @ at.momentum)
    return value if math.isfinite(value) else -math.inf


def _first_step(density: Density, at: Point, rng: np.random.Generator) -> float:
    """Return a step size whose acceptance crosses one half (algorithm 4)."""
    at = at._replace(momentum=rng.standard_normal(len(at.x)))
    step = 0.1
    grows = _energy(_leap(density, at, step)) - _energy(at) > math.log(0.5)
    for _ in range(40):
        step *= 2.0 if grows else 0.5
        if (_energy(_leap(density, at, step)) - _energy(at) > math.log(0.5)) != grows:
            break
    return step


def _trajectory(
    density: Density, here: Point, step: float, rng: np.random.Generator
) -> tuple[Point, float]:
    """Return the next sample, and the mean acceptance of the trajectory."""
    begin = here._replace(momentum=rng.standard_normal(len(here.x)))
    energy = _energy(begin)
    level = energy + math.log(1.0 - rng.uniform())
    whole = _Tree(begin, begin, begin, 1, True, 0.0, 0)
    for depth in range(_DEPTH):
        forwards = bool(rng.integers(2))
        edge = whole.last if forwards else whole.first
        part = _grow(density, edge, level, step if forwards else -step, depth, energy, rng)
        swapped = part.goes_on and rng.uniform() < part.valid / whole.valid
        whole = _join(whole, part, forwards, part.sample if swapped else whole.sample)
        if not whole.goes_on:
            break
    return whole.sample, whole.accepted / max(whole.steps, 1)


def _grow(
    density: Density, edge: Point, level: float, step: float, depth: int, energy: float,
    rng: np.random.Generator,
) -> _Tree:  # fmt: skip
    """Return a tree of 2^depth leaps from an edge; a negative step goes backwards."""
    if depth == 0:
        new = _leap(density, edge, step)
        there = _energy(new)
        kept = there > level - _LOST
        return _Tree(
            new, new, new, int(there >= level), kept, math.exp(min(0.0, there - energy)), 1
        )
    near = _grow(density, edge, level, step, depth - 1, energy, rng)
    if not near.goes_on:
        return near
    outer = near.last if step > 0.0 else near.first
    far = _grow(density, outer, level, step, depth - 1, energy, rng)
    total = near.valid + far.valid
    swapped = total > 0 and rng.uniform() < far.valid / total
    return _join(near, far, step > 0.0, far.sample if swapped else near.sample)


def _join(old: _Tree, new: _Tree, forwards: bool, chosen: Point) -> _Tree:
    """Return a tree with a new part at one end; it goes on until it turns back."""
    first, last = (old.first, new.last) if forwards else (new.first, old.last)
    apart = last.x - first.x
    straight = float(apart @ first.momentum) >= 0.0 and float(apart @ last.momentum) >= 0.0
    return _Tree(
        first, last, chosen, old.valid + new.valid, new.goes_on and straight,
        old.accepted + new.accepted, old.steps + new.steps,
    )  # fmt: skip

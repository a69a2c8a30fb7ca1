"""
How parameters change between two measurements: they jump and drift (docs/method.md).

A fixed number of particles represents jumps. Those that make room for them are chosen without bias
(Fearnhead and Clifford, J. R. Stat. Soc. B 65, 2003, section 3).
"""

from collections import deque
from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.journal.snapshot import restorable
from emppi_ros.priors.distributions import to_bounded, to_unbounded
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.resampling import Indices, systematic
from emppi_ros.tasks.schema import ChangeConfig

_WINDOW_S = 2.0  # in which a jump is recent
_DETECTED, _CLEARED = 0.5, 0.2  # probabilities at which a change is detected, and is over
_MAX_EVENTS = 100  # that are kept
_FAR = 2.0  # sd of a step away from the present value, in sd of the prior
JUMP_SD = math.sqrt(0.5 * (1.0 + _FAR**2))  # of a value after a jump, in sd of the prior


def changing(config: ChangeConfig | None, prior: JointPrior) -> Indices:
    """Return the indices of the uncertain parameters that change."""
    if config is None:
        return np.zeros(0, dtype=np.intp)
    names = [parameter.name for parameter in prior.parameters]
    among = names if config.of is None else config.of
    flags = [name in among and prior.spread[i] > 0.0 for i, name in enumerate(names)]
    return np.flatnonzero(flags)


class Jumps(NamedTuple):
    """Particles that represent jumps, of one parameter each."""

    rows: Indices  # (J,) their indices among all particles
    origins: Indices  # (J,) the particle that each of them was before
    columns: Indices  # (J,) the parameter of each that jumped
    revised: Bools  # (J,) whether the recent jumps of its other parameters are undone


def jump(
    config: ChangeConfig,
    prior: JointPrior,
    columns: Indices,
    belief: Belief,
    elapsed: float,
    rng: np.random.Generator,
    undone: Array,
) -> tuple[Belief, Jumps]:
    """
    Return the belief after `elapsed` [s] in which the parameters at `columns` may jump.

    Particles that stay keep their index. In half of those that jump, the other parameters have the
    values `undone` (M, P) from before their own recent jumps: if two parameters explain a change
    almost as well, and the wrong one came first, the right one can still replace it.
    """
    count = len(belief.theta)
    number = round(config.share * count)
    probability = -math.expm1(-config.rate_hz * len(columns) * elapsed)
    if not number or probability == 0.0:
        none = np.zeros(0, dtype=np.intp)
        return belief, Jumps(none, none, none, none.astype(bool))
    kept, kept_weights = prune(belief.log_weights, count - number, rng)
    origins = systematic(np.exp(belief.log_weights), number, rng.random())
    rows = np.setdiff1d(np.arange(count), kept, assume_unique=True)
    theta, log_weights = belief.theta.copy(), np.empty(count)
    drawn, jumped = _draw(prior, columns, belief.theta[origins], rng)
    revised = 2 * rng.permutation(number) < number
    others = revised[:, None] & (np.arange(drawn.shape[1]) != jumped[:, None])
    theta[rows] = np.where(others, undone[origins], drawn)
    log_weights[kept] = kept_weights + math.log1p(-probability)
    log_weights[rows] = math.log(probability / number)
    return Belief(theta, log_weights), Jumps(rows, origins, jumped, revised)


def drift(
    prior: JointPrior, columns: Indices, belief: Belief, share: float, rng: np.random.Generator
) -> Belief:
    """Return the belief after the parameters at `columns` drift by a share of `drift_s`."""
    share, spread = min(share, 1.0), prior.spread[columns]
    z = to_unbounded(prior.parameters, belief.theta)
    noise = math.sqrt(share) * spread * rng.standard_normal((len(z), len(columns)))
    pull = (1.0 - math.sqrt(1.0 - share)) * (z[:, columns] - prior.center[columns])
    z[:, columns] += noise - pull
    return Belief(to_bounded(prior.parameters, z), belief.log_weights)


def prune(log_weights: Array, count: int, rng: np.random.Generator) -> tuple[Indices, Array]:
    """
    Return `count` of M particles, in order, and their log weights (count,).

    Particles heavier than a threshold keep their weight. Of the others some are drawn
    systematically, none twice, and get the threshold as weight. The expected weight of each
    particle is its weight before, and the expected squared error of the weights is the smallest
    possible.
    """
    shares = np.exp(log_weights)
    descending = np.argsort(-shares, kind='stable')
    rest = np.cumsum(shares[descending][::-1])[::-1]  # weight from each rank on
    ranks = np.arange(count)
    # the heaviest k are kept where the next one is lighter than what each of the others gets
    light = shares[descending[:count]] * (count - ranks) < rest[:count]
    chosen = descending[:count]
    new = log_weights[chosen]
    if light.any() and rest[kept := int(np.argmax(light))] > 0.0:  # else the rest has no weight
        others = np.sort(descending[kept:])
        chosen[kept:] = others[systematic(shares[others], count - kept, rng.random())]
        new[kept:] = math.log(rest[kept] / (count - kept))
    order = np.argsort(chosen, kind='stable')
    return chosen[order], new[order]


def _draw(
    prior: JointPrior, columns: Indices, theta: Array, rng: np.random.Generator
) -> tuple[Array, Indices]:
    """Return particles theta (n, P) after a jump of one parameter each, and its index (n,)."""
    count = len(theta)
    rows = np.arange(count)
    column = columns[(rng.integers(len(columns)) + rows) % len(columns)]
    z = to_unbounded(prior.parameters, theta)
    z[rows, column] += _FAR * prior.spread[column] * rng.standard_normal(count)
    jumped, far, fresh = theta.copy(), to_bounded(prior.parameters, z), prior.resample(count, rng)
    drawn = (2 * rng.permutation(count) < count)[:, None]
    jumped[rows, column] = np.where(drawn, fresh, far)[rows, column]
    return jumped, column


@restorable
class DetectedChange(NamedTuple):
    """A change of a parameter that the belief has followed."""

    stamp: float  # s, of its detection
    parameter: str
    before: float  # mean of the belief before the change
    after: float  # mean of the particles that followed it, at detection


class ChangeDetector:
    """Detects changes of parameters from the jumps of particles; `events` has the last ones."""

    MEMORY = ('_age', '_before', '_elapsed', '_raised', 'events')

    def __init__(self, names: Sequence[str], count: int) -> None:
        """Expect `count` particles with P named parameters."""
        self._names = tuple(names)
        self.events: deque[DetectedChange] = deque(maxlen=_MAX_EVENTS)
        self.reset(count)

    def reset(self, count: int) -> None:
        """Start again with new particles."""
        shape = count, len(self._names)
        self._age = np.full(shape, np.inf)  # s, since the last jump
        self._before = np.zeros(shape)  # mean of the belief before it
        self._elapsed = 0.0  # s, since the start
        self._raised = np.zeros(len(self._names), dtype=bool)
        self.events.clear()

    def jump(self, jumps: Jumps, elapsed: float, mean: Array) -> None:
        """Let particles jump within `elapsed` [s], given the mean (P,) of the belief before."""
        self._elapsed += elapsed
        self._age += elapsed
        rows, origins, columns, revised = jumps
        age, before = self._age[origins], self._before[origins]
        if self._elapsed > _WINDOW_S:
            among = np.arange(len(rows)), columns
            # a value that needs several jumps is one change
            before[among] = np.where(age[among] < _WINDOW_S, before[among], mean[columns])
            age[revised] = np.inf
            age[among] = 0.0
        self._age[rows], self._before[rows] = age, before

    def undone(self, theta: Array) -> Array:
        """Return particles theta (M, P) with the values before their recent jumps."""
        return np.where(self._age < _WINDOW_S, self._before, theta)

    def resample(self, parents: Indices) -> None:
        """Replace particles by copies of their parents."""
        self._age, self._before = self._age[parents], self._before[parents]

    def since(self, stamp: float, until: float = math.inf) -> list[DetectedChange]:
        """Return the changes that were detected after `stamp` and not after `until` [s]."""
        return [change for change in self.events if stamp < change.stamp <= until]

    def update(self, stamp: float, belief: Belief) -> list[DetectedChange]:
        """Return the changes that the belief at `stamp` [s] shows for the first time."""
        shares = np.exp(belief.log_weights)[:, None] * (self._age < _WINDOW_S)  # (M, P)
        probability = shares.sum(axis=0)
        detected = []
        for i in np.flatnonzero((probability > _DETECTED) & ~self._raised):
            before, after = (
                float(shares[:, i] @ values[:, i] / probability[i])
                for values in (self._before, belief.theta)
            )
            detected.append(DetectedChange(stamp, self._names[i], before, after))
        self._raised = probability > np.where(self._raised, _CLEARED, _DETECTED)
        self.events.extend(detected)
        return detected

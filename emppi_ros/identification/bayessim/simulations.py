"""
Pairs of parameters and summaries of the recordings that they would give, from the simulator.

Parameters are drawn from a uniform prior within their bounds (in the logarithm, if these are more
than a decade apart), start states from what the measurements tell of them, and measurement noise
is added. Each pair has a random generator of its own, so that any partition gives the same bits.

A measured velocity at the start has its noise. One that was not measured follows from a cubic
polynomial through the first positions, with the covariance of that fit.
"""

from collections.abc import Callable, Sequence
import functools
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.bayessim.summaries import SUMMARIES, check_length
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, ShootingProblem
from emppi_ros.identification.multiple_shooting.windows import roll_out
from emppi_ros.model.ensemble import Ensemble
from emppi_ros.parallel.workers import Share

BLOCK = 200  # pairs that are simulated at a time
_FEWEST = 0.5  # of the pairs must be simulated without divergence
_FIT_S = 0.1  # of a recording: motions are smooth over this time
_FIT_SAMPLES = 8  # at least
_DEGREE = 3


class Pairs(NamedTuple):
    """Parameters and summaries that belong together; NaN if the simulation diverged."""

    coordinates: Array  # (N, P) as of `ShootingProblem.coordinates`
    summaries: Array  # (N, F)


class StartDistribution(NamedTuple):
    """A normal distribution of start states."""

    mean: Array  # (nq + nv,)
    root: Array  # (nq + nv, nq + nv), R R' is the covariance


def find_starts(problem: ShootingProblem) -> list[StartDistribution]:
    """Return the distribution of the start of each recording; a known start has no spread."""
    nq, size = problem.model.nq, problem.references.shape[-1]
    if not problem.first_steps:
        return [StartDistribution(problem.start, np.zeros((size, size)))]
    noise, step_s, distributions = problem.noise, problem.model.opt.timestep, []
    for start, begin in zip(problem.start, problem.first_steps, strict=True):
        later = problem.references[begin:, :nq]
        count = min(max(round(_FIT_S / step_s), _FIT_SAMPLES), len(later))
        powers = (step_s * np.arange(count + 1))[:, None] ** np.arange(_DEGREE + 1)
        estimator = np.linalg.pinv(powers)[:2]  # position and velocity at time 0, (2, count + 1)
        spread = np.linalg.cholesky(estimator @ estimator.T)
        fit = estimator @ np.concatenate([start[None, :nq], later[:count]])  # (2, nq)
        mean, root = start.copy(), np.diag(np.where(np.isfinite(noise), noise, 0.0))
        for joint in np.flatnonzero(~np.isfinite(noise[nq:])):
            rows = [joint, nq + joint]
            mean[rows] = fit[:, joint]
            root[np.ix_(rows, rows)] = noise[joint] * spread
        distributions.append(StartDistribution(mean, root))
    return distributions


class PairSimulation:
    """Simulates pairs by their number."""

    def __init__(
        self,
        problem: ShootingProblem,
        starts: Sequence[StartDistribution],
        summary: str,
        seed: int,
        pairs: int,
        threads: int = 0,
    ) -> None:
        """Create the models for a number of pairs; `starts` are of each recording."""
        self._problem, self._starts, self._seed = problem, starts, seed
        self._summary, steps = SUMMARIES[summary], len(problem.controls)
        observed = np.broadcast_to(problem.observed, problem.references.shape)
        complete = np.all(observed[:, np.isfinite(problem.noise)], axis=1)
        self._steps = np.split(np.arange(steps), problem.first_steps[1:])  # of each recording
        self._sampled = [complete[part] for part in self._steps]  # where all was measured
        for sampled in self._sampled:
            check_length(int(np.sum(sampled)))
        self._ensemble = Ensemble(problem.model, problem.parameters, pairs, 1, threads)

    def simulate(self, numbers: Array) -> Pairs:
        """Return the pairs of numbers (N,)."""
        problem, ensemble = self._problem, self._ensemble
        rngs = [np.random.default_rng([self._seed, int(number)]) for number in numbers]
        size = len(problem.parameters)
        coordinates = np.array([rng.uniform(-LIMIT, LIMIT, size) for rng in rngs])
        ensemble.write(problem.theta(coordinates))
        parts, diverged = [], np.zeros(len(rngs), bool)
        for start, steps, rows in zip(self._starts, self._steps, self._sampled, strict=True):
            drawn = start.mean + _normal(rngs, len(start.mean)) @ start.root.T
            states, lost = roll_out(ensemble, problem.inputs, steps[None], drawn[:, None])
            diverged |= lost
            noise = _normal(rngs, len(steps), states.shape[-1])
            parts.append(self._summarize(states[:, 0, rows], noise[:, rows]))
        summaries = np.concatenate(parts, axis=1)
        return Pairs(
            np.where(diverged[:, None], np.nan, coordinates),
            np.where(diverged[:, None], np.nan, summaries),
        )

    def observed(self) -> Array:
        """Return the summary (F,) of the recordings."""
        states = [
            self._problem.references[None, steps[rows]]
            for steps, rows in zip(self._steps, self._sampled, strict=True)
        ]
        parts = [self._summarize(part, np.zeros(())) for part in states]
        return np.concatenate(parts, axis=1)[0]

    def _summarize(self, states: Array, noise: Array) -> Array:
        """Return summaries of what is measured of states (N, T, S), with normal noise."""
        measured = np.isfinite(self._problem.noise)
        sd = np.where(measured, self._problem.noise, 0.0)
        values = (states + sd * noise) / self._problem.scale
        return self._summary(values[..., measured])


PairRecipe = Callable[[int, int], PairSimulation]  # pairs, threads


def simulate_all(
    recipe: PairRecipe,
    count: int,
    resumed: Pairs | None,
    watch: Callable[[Pairs], None],
    threads: int = 0,
    share: Share | None = None,
) -> Pairs:
    """
    Return the first `count` pairs that do not diverge, `resumed` ones first.

    `watch` gets all pairs so far, diverged ones with them, after each block. IdentificationError
    if more than half of the simulations diverge.
    """
    pairs = resumed
    simulate = _simulator(recipe, threads, share)
    while pairs is None or np.sum(_valid(pairs)) < count:
        done = 0 if pairs is None else len(pairs.coordinates)
        if pairs is not None and done >= count / _FEWEST:
            raise IdentificationError(
                f'{done - np.sum(_valid(pairs))} of {done} simulations diverge: reduce the bounds '
                'of the parameters, or the time step'
            )
        numbers = np.arange(done, done + BLOCK, dtype=np.float64)
        blocks = [*([] if pairs is None else [pairs]), *simulate(numbers)]
        pairs = Pairs(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))
        watch(pairs)
    return Pairs(*(part[_valid(pairs)][:count] for part in pairs))


def _simulator(
    recipe: PairRecipe, threads: int, share: Share | None
) -> Callable[[Array], list[Pairs]]:
    """Return what simulates the pairs of numbers (N,): on a cluster, or here."""
    if share is not None:
        return functools.partial(share, 'simulate')  # workers make their own
    here = recipe(BLOCK, threads)
    return lambda numbers: [here.simulate(numbers)]


def _valid(pairs: Pairs) -> Bools:
    return np.all(np.isfinite(pairs.summaries), axis=1)


def _normal(rngs: list[np.random.Generator], *shape: int) -> Array:
    return np.array([rng.standard_normal(shape) for rng in rngs])

"""
The estimators of the paper, each with one window or several, and all with the same budget.

A budget is the number of physics steps of `iterations` of `particles` with slopes. Estimators
without slopes get as many more iterations. CMA-ES takes the place of the paper's CEM.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.csvgd import nuts as no_u_turn
from benchmarks.csvgd.target import SamplerTarget
from benchmarks.video.baselines import load_library
from emppi_ros.core.arrays import Array
from emppi_ros.identification.csvgd import csvgd as stein
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, ShootingProblem

_ADAM = 0.9, 0.99  # decay of the first and second moment in SVGD
_EPSILON = 1e-12
_FADE = 0.99  # of the squared slopes in SGLD
_RATES = 1e-2, 1e-4  # of SGLD, first and last
_MAX_COST = 1e12  # CMA-ES cannot rank infinite costs
_EDGE = 1.0 - 1e-9  # of tanh, where limits are


@dataclass(frozen=True)
class SamplerBudget:
    """Size of a run."""

    particles: int
    iterations: int  # with slopes


class Samples(NamedTuple):
    """What an estimator returns."""

    theta: Array  # (N, P)
    steps: int  # of physics; 0 if they are not counted


Sampler = Callable[[ShootingProblem, SamplerBudget, int, int], Samples]


def csvgd(problem: ShootingProblem, budget: SamplerBudget, windows: int, seed: int) -> Samples:
    """Run `emppi identify --method csvgd` with particles all over the limits."""
    settings = stein.CsvgdConfig(budget.particles, budget.iterations, windows, seed=seed)
    return Samples(stein.infer(problem, settings, threads=1).theta, 0)


def svgd(problem: ShootingProblem, budget: SamplerBudget, windows: int, _: int) -> Samples:
    """Run SVGD with Adam's steps (Kingma and Ba 2015), and defects as a likelihood."""
    target = SamplerTarget(problem, budget.particles, windows)
    begin = target.start(budget.particles)

    def direction(z: Array) -> Array:
        kernel, repulsion = stein.rbf_kernel(z, stein.median_bandwidth(z))
        return (kernel @ target.slopes(z)[1] + repulsion) / len(z)

    z, mean, square = begin, np.zeros_like(begin), np.zeros_like(begin)
    a, b = _ADAM
    for count, rate in enumerate(np.geomspace(0.1, 0.01, budget.iterations), start=1):
        slope = direction(z)
        mean, square = a * mean + (1.0 - a) * slope, b * square + (1.0 - b) * slope**2
        size = np.sqrt(square / (1.0 - b**count)) + _EPSILON
        z = _clip(z + rate * mean / (1.0 - a**count) / size, target.unknown)
    return Samples(problem.theta(z[:, : target.unknown]), target.steps)


def sgld(problem: ShootingProblem, budget: SamplerBudget, windows: int, seed: int) -> Samples:
    """
    Run a preconditioned Langevin chain for each particle.

    The preconditioner is that of RMSprop (Li et al., AAAI 2016): without one, no step size fits
    both the stiff and the free directions of a pendulum.
    """
    rng = np.random.default_rng(seed)
    target = SamplerTarget(problem, budget.particles, windows)
    z = target.start(budget.particles)
    square = np.zeros_like(z)
    for count, rate in enumerate(np.geomspace(*_RATES, budget.iterations), start=1):
        score = target.slopes(z)[1]
        square = _FADE * square + (1.0 - _FADE) * score**2
        scale = rate / (np.sqrt(square / (1.0 - _FADE**count)) + 1.0)
        step = scale * score + np.sqrt(2.0 * scale) * rng.standard_normal(z.shape)
        z = _clip(z + step, target.unknown)
    return Samples(problem.theta(z[:, : target.unknown]), target.steps)


def emcee(problem: ShootingProblem, budget: SamplerBudget, windows: int, seed: int) -> Samples:
    """Run ensemble MCMC, with twice as many walkers as dimensions if particles are fewer."""
    library = load_library('emcee')
    dimension = SamplerTarget(problem, 1, windows).dimension
    walkers = max(budget.particles, 2 * dimension + 2)
    walkers += walkers % 2
    target = SamplerTarget(problem, walkers // 2, windows)  # half of them move at once
    sampler = library.EnsembleSampler(
        walkers, target.dimension, target.log_p, vectorize=True,
        moves=[(library.moves.DEMove(), 0.8), (library.moves.DESnookerMove(), 0.2)],
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    begin = target.start(walkers)
    starts = begin[:, target.unknown :]
    starts += 1e-2 * rng.standard_normal(starts.shape)  # walkers must span all dimensions
    state = library.State(begin, random_state=np.random.RandomState(seed).get_state())
    state = sampler.run_mcmc(
        state, _calls(target, budget) // walkers, skip_initial_state_check=True
    )
    last = rng.permutation(walkers)[: budget.particles]
    return Samples(problem.theta(state.coords[last, : target.unknown]), target.steps)


def cma(problem: ShootingProblem, budget: SamplerBudget, windows: int, seed: int) -> Samples:
    """Run CMA-ES; its last generation are the samples."""
    library = load_library('cma')
    target = SamplerTarget(problem, budget.particles, windows)
    free = target.dimension - target.unknown
    limits = np.append(np.full(target.unknown, LIMIT), np.full(free, np.inf))
    options = {
        'popsize': budget.particles, 'maxiter': _calls(target, budget) // budget.particles,
        'bounds': [(-limits).tolist(), limits.tolist()], 'seed': seed + 1, 'verbose': -9,
        'CMA_stds': np.append(np.ones(target.unknown), np.full(free, 0.1)).tolist(),
    }  # fmt: skip
    search = library.CMAEvolutionStrategy(target.middle(), 0.5 * LIMIT, options)
    points = np.zeros((budget.particles, target.dimension))
    while not search.stop():
        points = np.array(search.ask())
        search.tell(points, np.minimum(-target.log_p(points), _MAX_COST))
    return Samples(problem.theta(points[:, : target.unknown]), target.steps)


def nuts(problem: ShootingProblem, budget: SamplerBudget, windows: int, seed: int) -> Samples:
    """Run a chain of NUTS from the middle of the limits; parameters are mapped by a tanh."""
    target = SamplerTarget(problem, 1, windows)
    unknown = target.unknown

    def density(w: Array) -> tuple[float, Array]:
        rise = np.clip(np.tanh(w[:unknown]), -_EDGE, _EDGE)
        z = np.append(LIMIT * rise, w[unknown:])
        if not np.isfinite(z).all():
            return -np.inf, np.zeros_like(w)
        values, scores = target.slopes(z[None])
        slope = scores[0].copy()
        slope[:unknown] = slope[:unknown] * LIMIT * (1.0 - rise**2) - 2.0 * rise
        return float(values[0] + np.log1p(-(rise**2)).sum()), slope

    calls = budget.particles * budget.iterations
    chain, _ = no_u_turn.sample(density, target.middle(), calls, np.random.default_rng(seed))
    rows = np.linspace(0, len(chain) - 1, budget.particles).round().astype(int)
    return Samples(problem.theta(LIMIT * np.tanh(chain[rows, :unknown])), target.steps)


def _clip(z: Array, unknown: int) -> Array:
    """Return points (N, D) with parameters within their limits."""
    inside = z.copy()
    inside[:, :unknown] = np.clip(z[:, :unknown], -LIMIT, LIMIT)
    return inside


def _calls(target: SamplerTarget, budget: SamplerBudget) -> int:
    """Return how many densities without slopes a budget allows."""
    return budget.particles * budget.iterations * target.slope_cost


ESTIMATORS: Mapping[str, Sampler] = {
    'csvgd': csvgd, 'emcee': emcee, 'cma-es': cma, 'sgld': sgld, 'svgd': svgd, 'nuts': nuts,
}  # fmt: skip

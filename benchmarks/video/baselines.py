"""
Baselines: the samplers CMA-ES and emcee, and Adam.

By default they shoot once, from the known start of a problem. With `starts` (W, S) of windows that
another method estimated they have its windows, and only parameters are unknown.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError, import_optional
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    evaluate,
    log_likelihood,
    sobol_parameters,
)
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, ShootingProblem
from emppi_ros.identification.multiple_shooting.windows import STEP

Sampler = Callable[..., tuple[Array, int]]
_DIVERGED_COST = 1e12  # CMA-ES cannot rank infinite costs
_FADES = 0.9, 0.99  # of the first and second moment in Adam
_EPSILON = 1e-12


def load_library(module: str) -> ModuleType:
    """Import a module of the extra `identify`; IdentificationError if it is not installed."""
    return import_optional(
        module,
        lambda error: f"{error.name} is not installed: pip install 'emppi_ros[identify]'",
        IdentificationError,
    )


def _density(
    problem: ShootingProblem, size: int, starts: Array | None = None
) -> tuple[MultipleShooting, Callable[[Array], Array]]:
    """Return a simulation of `size` particles, and the log density of any number of points."""
    fixed = np.zeros(0)
    if starts is not None:
        problem = replace(problem, start=starts[0], first_steps=(), continuous=False)
        fixed = (starts[1:] / problem.scale).ravel()
    windows = 1 if starts is None else len(starts)
    shooter = MultipleShooting(problem, size, windows, threads=1, slopes=False)

    def log_p(points: Array) -> Array:
        densities = np.full(len(points), -np.inf)
        for first in range(0, len(points), size):
            part = points[first : first + size]
            rows = np.zeros((size, points.shape[1]))
            rows[: len(part)] = np.clip(part, -LIMIT, LIMIT)
            rows = np.concatenate([rows, np.tile(fixed, (size, 1))], axis=1)
            values = log_likelihood(shooter, rows)[: len(part)]
            inside = np.all(np.abs(part) <= LIMIT, axis=1)
            densities[first : first + size] = np.where(inside, values, -np.inf)
        return densities

    return shooter, log_p


def cma(
    problem: ShootingProblem, particles: int, iterations: int, seed: int,
    starts: Array | None = None,
) -> tuple[Array, int]:  # fmt: skip
    """Return the last generation (N, P) of CMA-ES, and the number of physics steps."""
    library = load_library('cma')
    shooter, log_p = _density(problem, particles, starts)
    size = len(problem.parameters)
    options = {
        'popsize': particles, 'maxiter': iterations, 'bounds': [-LIMIT, LIMIT],
        'seed': seed + 1, 'verbose': -9,
    }  # fmt: skip
    search = library.CMAEvolutionStrategy(np.zeros(size), 0.5 * LIMIT, options)
    points = np.zeros((particles, size))
    while not search.stop():
        points = np.array(search.ask())
        search.tell(points, np.minimum(-log_p(points), _DIVERGED_COST))
    return problem.theta(points), shooter.steps


def emcee(
    problem: ShootingProblem, particles: int, iterations: int, seed: int,
    starts: Array | None = None,
) -> tuple[Array, int]:  # fmt: skip
    """Return the final walkers (N, P) of ensemble MCMC, and the number of physics steps."""
    library = load_library('emcee')
    shooter, log_p = _density(problem, (particles + 1) // 2, starts)
    walkers = library.EnsembleSampler(
        particles, len(problem.parameters), log_p, vectorize=True,
        moves=[(library.moves.DEMove(), 0.8), (library.moves.DESnookerMove(), 0.2)],
    )  # fmt: skip
    state = library.State(
        sobol_parameters(problem, particles),
        random_state=np.random.RandomState(seed).get_state(),
    )
    state = walkers.run_mcmc(state, iterations)
    return problem.theta(state.coords), shooter.steps


def adam(problem: ShootingProblem, starts: int, iterations: int) -> tuple[Array, int]:
    """
    Return the best (1, P) of some searches by Adam, and the number of physics steps.

    Gradients are forward differences, each of 1 + P simulations. It is no sampler: there is no
    posterior.
    """
    shooter = MultipleShooting(problem, starts, threads=1)

    def direction(z: Array) -> Array:
        return evaluate(shooter, z).score

    z = climb(sobol_parameters(problem, starts), direction, iterations)
    z = np.clip(z, -LIMIT, LIMIT)
    best = int(np.argmax(evaluate(shooter, z).log_p))
    return problem.theta(z[best : best + 1]), shooter.steps


def adam_in_windows(
    problem: ShootingProblem, searches: int, iterations: int, starts: Array
) -> tuple[Array, int]:
    """Return what `adam` does, in windows with known starts (W, S)."""
    size = len(problem.parameters)
    shooter, log_p = _density(problem, searches * (1 + size), starts)

    def direction(z: Array) -> Array:
        centre = np.clip(z, -LIMIT, LIMIT)
        step = np.where(centre > 0.0, -STEP, STEP)
        moved = centre[:, None] + step[:, None] * np.eye(size)
        values = log_p(np.concatenate([centre[:, None], moved], axis=1).reshape(-1, size))
        values = values.reshape(searches, 1 + size)
        slope = (values[:, 1:] - values[:, :1]) / step
        return np.where(np.isfinite(slope), slope, 0.0)

    z = np.clip(climb(sobol_parameters(problem, searches), direction, iterations), -LIMIT, LIMIT)
    best = int(np.argmax(log_p(z)))
    return problem.theta(z[best : best + 1]), shooter.steps


def climb(z: Array, direction: Callable[[Array], Array], iterations: int) -> Array:
    """Return points (N, P) after steps of Adam along a direction (Kingma and Ba 2015)."""
    a, b = _FADES
    mean, square = np.zeros_like(z), np.zeros_like(z)
    for count, rate in enumerate(np.geomspace(0.1, 0.01, iterations), start=1):
        slope = direction(z)
        mean, square = a * mean + (1.0 - a) * slope, b * square + (1.0 - b) * slope**2
        size = np.sqrt(square / (1.0 - b**count)) + _EPSILON
        z = np.clip(z, -LIMIT, LIMIT) + rate * mean / (1.0 - a**count) / size
    return z


BASELINES: Mapping[str, Sampler] = {'CMA-ES': cma, 'emcee': emcee}

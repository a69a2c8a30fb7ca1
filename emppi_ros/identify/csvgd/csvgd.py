"""
Constrained Stein variational gradient descent (Heiden et al., ICRA 2022).

Particles follow Stein's direction; each keeps its own constraints (limits of parameters, and
continuity of windows) by the modified differential method of multipliers of Platt and Barr
(1988): multipliers grow while a constraint is broken, and a stiffness makes that stable.
At the end, which is not in the paper, particles settle each by itself (`settling`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from emppi_ros.identify.csvgd.mcmc_refinement import McmcRefinement
from emppi_ros.identify.csvgd.problem import LIMIT, ShootingProblem
from emppi_ros.identify.csvgd.shooting import MultipleShooting
from emppi_ros.identify.csvgd.svgd import Adam, SteinNewton
from emppi_ros.identify.csvgd.target_density import (
    Evaluation,
    Likelihood,
    ParticleSimulation,
    SimulationRecipe,
)
from emppi_ros.parallel.workers import Share

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CsvgdConfig:
    """How to infer."""

    particles: int = 100
    iterations: int = 500
    windows: int = 1
    likelihood: Likelihood = 'sum'
    step: Literal['adam', 'newton'] = 'newton'
    rates: tuple[float, float] = (0.1, 0.01)  # of Adam, first and last, in coordinates
    stiffness: tuple[float, float] = (1e3, 1e7)  # of constraints, first and last
    growth: float = 0.0  # of multipliers, in units of the stiffness
    settling: float = 0.2  # the last share of iterations: half to climb, half for draws
    seed: int = 0  # of the draws


class CsvgdState(NamedTuple):
    """All that an inference goes on from, after some iterations."""

    iteration: int
    z: Array  # (N, D)
    multipliers: Array  # (N, C)
    memory: tuple[Array, ...]  # of what makes the steps
    steps: int  # of physics, so far

    def to_arrays(self) -> dict[str, Array]:
        """Return all of it by name."""
        rest = self._asdict()
        memory = {f'memory{i}': part for i, part in enumerate(rest.pop('memory'))}
        return {name: np.asarray(value) for name, value in {**rest, **memory}.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array]) -> 'CsvgdState':
        """Return the state that they are of."""
        memory = tuple(arrays[name] for name in sorted(arrays) if name.startswith('memory'))
        z, multipliers = arrays['z'], arrays['multipliers']
        return cls(int(arrays['iteration']), z, multipliers, memory, int(arrays['steps']))


class CsvgdProgress(NamedTuple):
    """Where an inference is."""

    state: CsvgdState
    evaluation: Evaluation

    @property
    def iteration(self) -> int:
        """How many were done."""
        return self.state.iteration


class CsvgdPosterior(NamedTuple):
    """What was inferred, and how it went."""

    theta: Array  # (N, P), within the limits
    log_p: Array  # (N,), of the windows
    z: Array  # (N, D), before parameters are clipped to their limits
    beyond: float  # how far the worst particle was beyond a limit, in coordinates
    defect: float  # root mean square, in units of the states' spread
    steps: int  # of physics


def sobol_parameters(problem: ShootingProblem, particles: int) -> Array:
    """Return parameters (N, P) in coordinates, spread by the Sobol sequence without its origin."""
    powers = int(np.ceil(np.log2(particles + 1)))
    sequence = qmc.Sobol(len(problem.parameters), scramble=False)
    points = sequence.random_base2(powers)[1 : particles + 1]
    return LIMIT * (2.0 * points - 1.0)


def initial_particles(shooter: MultipleShooting) -> Array:
    """Return first particles (N, D): a Sobol sequence, and windows that begin as measured."""
    starts = shooter.measured_starts()
    starts = starts.reshape(len(starts), -1)[np.arange(shooter.particles) % len(starts)]
    return np.concatenate([sobol_parameters(shooter.problem, shooter.particles), starts], axis=1)


def infer(
    problem: ShootingProblem,
    settings: CsvgdConfig,
    threads: int = 0,
    watch: Callable[[CsvgdProgress], None] = lambda _: None,
    state: CsvgdState | None = None,
    share: Share | None = None,
) -> CsvgdPosterior:
    """
    Return particles of the posterior.

    `watch` is told of every iteration. From one of the states that it was told of the inference
    goes on as if it had not stopped, bit for bit. `share` has them simulated elsewhere by the
    recipe of this problem and these settings, which changes no bit either.
    """
    recipe = SimulationRecipe(problem, settings.windows, settings.likelihood)
    simulation = ParticleSimulation(recipe, settings.particles, threads, share)
    shooter, density = simulation.shooter, simulation.density
    z = initial_particles(shooter) if state is None else state.z.copy()
    now = density(z)
    multipliers = np.zeros_like(now.defects) if state is None else state.multipliers.copy()
    mover: Adam | SteinNewton = SteinNewton(density, len(z))
    if settings.step == 'adam':
        mover = Adam(density, np.geomspace(*settings.rates, settings.iterations))
    settler = McmcRefinement(density, simulation.meet, shooter, settings.seed)
    last = settings.iterations
    climb = last - round(settings.settling * last)
    draw = (climb + last) // 2
    begin = 0
    if state is not None:
        begin, shooter.steps = state.iteration, state.steps
        (mover if begin <= climb else settler).memory = state.memory
    # stiff at the end: the last fifth is for what is left
    hardening = np.geomspace(*settings.stiffness, max(4 * climb // 5, 1))
    for iteration in range(begin, last):
        memory = (mover if iteration <= climb else settler).memory
        watch(
            CsvgdProgress(CsvgdState(iteration, z, multipliers.copy(), memory, shooter.steps), now)
        )
        if iteration < climb:
            stiffness = float(hardening[min(iteration, len(hardening) - 1)])
            z, now = mover.step(z, now, multipliers, stiffness)
            multipliers += settings.growth * stiffness * now.defects
            continue
        if iteration == climb:
            z, now = settler.begin(z)
        if iteration == draw:
            z, now = settler.jump(z, now)
        if iteration < draw:
            z, now = settler.climb(z, now)
        else:
            z, now = settler.draw(z, now, iteration - draw)
    unknown = shooter.unknown
    jumps = now.defects[:, unknown:]
    return CsvgdPosterior(
        problem.theta(z[:, :unknown]),
        now.log_p,
        z,
        float(np.abs(now.defects[:, :unknown]).max()),
        float(np.sqrt(np.mean(jumps**2))) if jumps.size else 0.0,
        shooter.steps,
    )

"""The method `bayessim`: a posterior learned from simulations, without a likelihood."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
import functools
from typing import Any, Literal

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key, positive
from emppi_ros.core.errors import ConfigError
from emppi_ros.identification import methods
from emppi_ros.identification.bayessim import posterior as posteriors
from emppi_ros.identification.bayessim import simulations
from emppi_ros.identification.bayessim.mixture_density_network import TrainingConfig
from emppi_ros.identification.bayessim.posterior import LearnedPosterior
from emppi_ros.identification.bayessim.simulations import (
    PairRecipe,
    Pairs,
    PairSimulation,
    find_starts,
)
from emppi_ros.identification.common import checkpoint, posterior_samples
from emppi_ros.identification.common.checkpoint import Checkpoint
from emppi_ros.identification.common.figures import Convergence
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.identification.multiple_shooting import training_data
from emppi_ros.identification.multiple_shooting.training_data import ShootingProblem
from emppi_ros.parallel import workers
from emppi_ros.recordings.recordings import Recording

_FEWEST = 500  # pairs
_UNLIKE = 0.01  # share of test summaries that are as far from the others


@dataclass(frozen=True)
class BayesSimOptions:
    """Options of the method `bayessim`."""

    simulations: int = methods.count(10_000, 'number of simulations to learn from')
    duration: float = positive(1.0, 'seconds of each recording that are used, from its start')
    summary: Literal['downsampled', 'difference', 'statistics', 'signature'] = key(
        'downsampled', doc='what is kept of a trajectory'
    )
    density: Literal['network', 'rbf', 'matern'] = key(
        'network',
        doc='mixture of Gaussians on a neural network, or on random features of a kernel',
    )
    components: int = methods.count(5, 'number of Gaussians')
    epochs: int = methods.count(500, 'largest number of passes over the simulations')
    noise: Mapping[str, float] = methods.noise()


class BayesSimMethod(Method):
    """Likelihood-free inference with mixture density networks."""

    description = 'posterior learned from simulations, without a likelihood (BayesSim)'
    options = BayesSimOptions
    held_out = None
    long_running = True

    def check(
        self, options: BayesSimOptions, plant: Plant, recordings: int, run: RunSettings
    ) -> None:
        """Check the number of simulations."""
        if options.simulations < _FEWEST:
            raise ConfigError(
                f'--simulations: found {options.simulations}, expected {_FEWEST} or more: '
                'fewer do not determine a density'
            )

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: BayesSimOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Simulate, learn the density, and evaluate it at the recordings."""
        problem = _beginnings(plant, recordings, options.duration, options.noise)
        recipe = functools.partial(
            PairSimulation, problem, find_starts(problem), options.summary, run.seed
        )
        settings = {**asdict(options), 'step_s': problem.model.opt.timestep, 'seed': run.seed}
        parameters = [asdict(parameter) for parameter in problem.parameters]
        saved = Checkpoint(run, plant.model, recordings, parameters=parameters, **settings)
        with checkpoint.removed_on_error(run.out):
            pairs = _simulate(recipe, options, saved, run)
            learned = _learn(pairs, options, run)
            observed = recipe(1, 1).observed()
            rng = np.random.default_rng([run.seed, 1])
            coordinates = learned.at(observed).sample(posterior_samples.PRIOR_SAMPLES, rng)
            theta = problem.theta(coordinates)
            knowledge = posterior_samples.knowledge_levels(coordinates.std(axis=0))
        summary = {
            **posterior_samples.summarize_samples(
                plant.unknowns, theta, knowledge, coverage=learned.coverage.tolist()
            ),
            'log_density': -learned.loss,
            'tests': learned.tests,
            **_compare(learned, pairs, observed),
            'simulations': len(pairs.coordinates),
        }
        posterior_samples.excited(knowledge)
        return Identification(
            summary,
            theta,
            # the others keep their bounds, and their correlations
            range(len(plant.unknowns)),
            settings,
            convergence=Convergence('log density of validation pairs', -learned.losses),
        )


def _beginnings(
    plant: Plant, recordings: Sequence[Recording], duration_s: float, noise: Mapping[str, float]
) -> ShootingProblem:
    """Return the problem of the first seconds of each recording, which must be as long."""
    problem = training_data.prepare(plant, recordings, duration_s, 0.0, noise).problem
    length = max(round(duration_s / plant.model.opt.timestep), 1)
    rows = np.concatenate([begin + np.arange(length) for begin in problem.first_steps])
    return replace(
        problem,
        controls=problem.controls[rows],
        references=problem.references[rows],
        observed=np.broadcast_to(problem.observed, problem.references.shape)[rows],
        first_steps=tuple(length * i for i in range(len(problem.first_steps))),
    )


def _simulate(
    recipe: PairRecipe, options: BayesSimOptions, saved: Checkpoint, run: RunSettings
) -> Pairs:
    arrays = saved.read()
    resumed = Pairs(**arrays) if arrays else None
    with run.progress('simulations', options.simulations, 'simulations') as advance:

        def watch(pairs: Pairs) -> None:
            saved.write(pairs._asdict())
            advance(len(pairs.coordinates))

        with workers.shared(recipe, run.scheduler) as share:
            return simulations.simulate_all(
                recipe, options.simulations, resumed, watch, run.threads, share
            )


def _learn(pairs: Pairs, options: BayesSimOptions, run: RunSettings) -> LearnedPosterior:
    with run.progress('bayessim', options.epochs, 'epochs') as advance:
        learned = posteriors.learn(
            options.density,
            TrainingConfig(components=options.components, epochs=options.epochs),
            pairs.summaries,
            pairs.coordinates,
            np.random.default_rng([run.seed, 2]),
            lambda epoch, loss: advance(epoch, f'log density {-loss:.4g}'),
        )
        advance(options.epochs)
    return learned


def _compare(learned: LearnedPosterior, pairs: Pairs, observed: Array) -> dict[str, Any]:
    """Return how unlike the simulations the recording is, for the summary."""
    distance, as_far = posteriors.novelty(learned, pairs.summaries, observed)
    comparison: dict[str, Any] = {'distance': distance, 'as_far': as_far}
    if as_far < _UNLIKE:
        comparison['notes'] = (
            f'the recording is unlike the simulations: {distance:.3g} times as far from the '
            f'nearest one as they are from each other, and {100.0 * as_far:.2g} % of them are as '
            'far: the model lacks an effect, or the bounds exclude the truth, and the intervals '
            'may be wrong'
        )
    return comparison

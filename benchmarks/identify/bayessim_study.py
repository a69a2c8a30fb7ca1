"""
Study `bayessim`: likelihood-free posteriors of known systems, beside that of CSVGD.

Cases: `pendulum`, the eleven parameters of a double pendulum by all summaries and densities
(Heiden et al. 2022, supplement, Table 2); `lengths`, two link lengths (supplement, Fig. 7);
`real`, the eleven parameters from a recording of a real double pendulum.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
import functools
from pathlib import Path
import sys
import time
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.identify import csvgd_plots, csvgd_systems, posterior_metrics, real_pendulum
from benchmarks.identify.csvgd_study import (
    LENGTH_TOLERANCE,
    OURS,
    WINDOWS,
    SamplerBudget,
    SamplerResult,
    cached,
    run_csvgd,
    share_near,
    show_table,
)
from benchmarks.identify.study import Study, StudySettings
from emppi_ros.core.config import key
from emppi_ros.identify.bayessim import posterior, simulations
from emppi_ros.identify.bayessim.mixture_density_network import TrainingConfig
from emppi_ros.identify.bayessim.posterior import DENSITIES, DensityConfig
from emppi_ros.identify.bayessim.simulations import PairRecipe
from emppi_ros.identify.bayessim.starts import find_starts
from emppi_ros.identify.bayessim.summaries import SUMMARIES
from emppi_ros.identify.common import options as fields
from emppi_ros.identify.common.figures import save_figure
from emppi_ros.identify.csvgd import model_errors
from emppi_ros.identify.csvgd.csvgd import CsvgdConfig
from emppi_ros.identify.csvgd.method import STIFFNESS
from emppi_ros.identify.csvgd.problem import ShootingProblem
from emppi_ros.identify.csvgd.recordings import TrainingData

Array = npt.NDArray[np.float64]
_COLUMNS = 3  # of figures: the densities
_INDEPENDENT = 'CSVGD, independent windows'
_REAL_WINDOWS = 2  # of 0.5 s, as those of `emppi identify`; the search divides them


@dataclass(frozen=True)
class BayesSimStudyOptions:
    """Options of the study `bayessim`."""

    simulations: int = fields.count(10_000, 'number of simulations to learn from')
    epochs: int = fields.count(500, 'largest number of passes over the simulations')
    particles: int = fields.particles(100)
    iterations: int = fields.count(500, 'number of iterations of CSVGD')
    data: Path = key(
        Path('recordings'),
        doc='folder with the recordings of the case `real`, as of `emppi bench real`',
    )
    out: Path = key(
        Path('out/identify'),
        doc='folder for figures and finished results, which are not computed again',
    )


class BayesSimStudy(Study):
    """Posteriors of known systems without a likelihood."""

    description = 'posteriors learned from simulations, without a likelihood'
    options = BayesSimStudyOptions
    cases: ClassVar[Mapping[str, int]] = dict.fromkeys(('pendulum', 'lengths', 'real'), 10)

    def run(self, options: BayesSimStudyOptions, settings: StudySettings) -> dict[str, Any]:
        """Return the metrics of each summary and density."""
        return {'case': settings.case, 'methods': _CASES[settings.case](options, settings.seed)}

    def show(self, results: Mapping[str, Any]) -> None:
        """Print a table of the summaries and densities."""
        show_table(results['methods'])


def _pendulum(options: BayesSimStudyOptions, seed: int) -> dict[str, Any]:
    problem, truth = csvgd_systems.pendulum(seed)
    rows = {}
    for name, result in _results(problem, 'pendulum', options, seed).items():
        draws = posterior_metrics.repeat_comparison(problem, truth, result.theta, seed)
        measured = {
            metric: posterior_metrics.mean_and_error(values) for metric, values in draws.items()
        }
        rows[name] = {**measured, 'error_sd': _errors(problem, truth, result), **_cost(result)}
    return rows


def _lengths(options: BayesSimStudyOptions, seed: int) -> dict[str, Any]:
    both, truths = csvgd_systems.lengths()
    problem = replace(both, references=both.references[:1])
    tolerance, rows, thetas = LENGTH_TOLERANCE * truths[0], {}, {}
    for name, result in _results(problem, 'lengths', options, seed).items():
        near = share_near(result.theta, truths[:1], tolerance)
        rows[name] = {
            'near': near,
            'median': np.median(result.theta, axis=0).tolist(),
            **_cost(result),
        }
        thetas[name] = result.theta
    figure = csvgd_plots.lengths(problem, truths[:1], thetas, _COLUMNS)
    save_figure(figure, options.out / 'bayessim_lengths.png')
    return rows


def _real(options: BayesSimStudyOptions, seed: int) -> dict[str, Any]:
    problem, held_out = real_pendulum.read(options.data)
    rows, thetas = {}, {}
    results = _results(problem, 'real', options, seed)
    print(f'real: {_INDEPENDENT}', file=sys.stderr)
    results[_INDEPENDENT] = cached(
        options.out / 'bayessim_real',
        _INDEPENDENT,
        {'particles': options.particles, 'iterations': options.iterations, 'seed': seed},
        lambda: infer_independently(problem, options, seed),
    )
    for name, result in results.items():
        found = real_pendulum.compare(problem, held_out, result.theta, seed)
        valid = np.isfinite(found['kl_real_sim'])
        measured = {
            metric: posterior_metrics.mean_and_error(values[valid])
            for metric, values in found.items()
        }
        rows[name] = {**measured, 'diverged': int(np.sum(~valid)), **_cost(result)}
        thetas[name] = result.theta
    predictions = {
        name: real_pendulum.predict(problem, held_out[:1], theta, seed)[:, 0, :, 1]
        for name, theta in thetas.items()
    }
    step_s, angles = problem.model.opt.timestep, held_out[0][1:, 1]
    figure = csvgd_plots.forecasts(step_s, angles, predictions, _COLUMNS)
    save_figure(figure, options.out / 'bayessim_real.png')
    return rows


_CASES = {'pendulum': _pendulum, 'lengths': _lengths, 'real': _real}


def _results(
    problem: ShootingProblem, case: str, options: BayesSimStudyOptions, seed: int
) -> dict[str, SamplerResult]:
    """Return the posterior by each summary and density, and by CSVGD."""
    results = {}
    folder = options.out / f'bayessim_{case}'
    options.out.mkdir(parents=True, exist_ok=True)
    for summary in SUMMARIES:
        for density in DENSITIES:
            name = f'{summary} {density}'
            print(f'{case}: {name}', file=sys.stderr)
            dependencies = {
                'simulations': options.simulations,
                'epochs': options.epochs,
                'particles': options.particles,
                'seed': seed,
            }
            run = functools.partial(infer, problem, summary, density, options, seed)
            results[name] = cached(folder, name, dependencies, run)
    budget = SamplerBudget(options.particles, options.iterations, seed)
    settings = CsvgdConfig(options.particles, budget.iterations, WINDOWS, seed=seed)
    print(f'{case}: {OURS}', file=sys.stderr)
    results[OURS] = cached(
        folder,
        OURS,
        {'particles': options.particles, 'iterations': options.iterations, 'seed': seed},
        lambda: run_csvgd(problem, settings, budget, lambda _: None),
    )
    return results


def infer(
    problem: ShootingProblem, summary: str, density: str, options: BayesSimStudyOptions, seed: int
) -> SamplerResult:
    """Return draws (particles, P) of the posterior that is learned from simulations."""
    began = time.process_time()
    recipe = PairRecipe(problem, find_starts(problem), summary, seed)
    pairs = simulations.simulate_all(recipe, options.simulations, None, lambda _: None, threads=1)
    learned = posterior.learn(
        DensityConfig(density, TrainingConfig(epochs=options.epochs)),
        pairs.summaries,
        pairs.coordinates,
        np.random.default_rng([seed, 2]),
    )
    found = learned.at(recipe.make(1, 1).observed())
    rng = np.random.default_rng([seed, 1])
    theta = problem.theta(found.sample(options.particles, rng))
    steps = options.simulations * len(problem.controls)
    return SamplerResult(theta, steps, time.process_time() - began)


def infer_independently(
    problem: ShootingProblem, options: BayesSimStudyOptions, seed: int
) -> SamplerResult:
    """Return the particles of CSVGD as `emppi identify` uses it, which allows for model errors."""
    began = time.process_time()
    data = TrainingData(problem, _REAL_WINDOWS, (), (), ())
    centre = problem.theta(np.zeros(len(problem.parameters)))
    data = model_errors.allow(data, centre, lambda *_: None, threads=1)
    settings = CsvgdConfig(
        options.particles, options.iterations, data.windows, 'product', STIFFNESS, seed=seed
    )
    budget = SamplerBudget(options.particles, options.iterations, seed)
    result = run_csvgd(data.problem, settings, budget, lambda _: None, data.begin)
    return result._replace(cpu_s=time.process_time() - began)


def _errors(problem: ShootingProblem, truth: Array, result: SamplerResult) -> float:
    """Return the rms error of the mean in standard deviations of the posterior."""
    z = problem.coordinates(result.theta)
    away = (z.mean(axis=0) - problem.coordinates(truth)) / z.std(axis=0)
    return float(np.sqrt(np.mean(away**2)))


def _cost(result: SamplerResult) -> dict[str, float]:
    return {'steps': result.steps, 'cpu_s': result.cpu_s}

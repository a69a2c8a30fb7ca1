"""Study `stein`: posteriors of known systems by CSVGD and by baseline samplers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
import functools
import json
from pathlib import Path
import sys
import time
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.identify import csvgd_baselines, csvgd_plots, csvgd_systems, posterior_metrics
from benchmarks.identify.posterior_metrics import NEIGHBOURS
from benchmarks.identify.study import Study, StudySettings
from emppi_ros.core.config import key, non_negative
from emppi_ros.core.errors import ConfigError
from emppi_ros.identify.common import options as fields
from emppi_ros.identify.common.figures import save_figure
from emppi_ros.identify.csvgd import csvgd
from emppi_ros.identify.csvgd.csvgd import CsvgdConfig
from emppi_ros.identify.csvgd.particle_start import ParticleStart
from emppi_ros.identify.csvgd.problem import ShootingProblem
from emppi_ros.identify.csvgd.shooting import MultipleShooting
from emppi_ros.identify.csvgd.target_density import evaluate

Array = npt.NDArray[np.float64]
Callback = Callable[[float], None]
Advance = Callable[[str], Callback]
WINDOWS = 10  # of multiple shooting, as in the paper
LENGTH_TOLERANCE = 0.05  # relative
WEIGHT_TOLERANCE_M = 0.01  # m
OURS, SINGLE = 'CSVGD', 'CSVGD, one window'


@dataclass(frozen=True)
class SamplerBudget:
    """Size of a run, the same for all methods."""

    particles: int = 100
    iterations: int = 500
    seed: int = 0
    threads: int = 1


class SamplerResult(NamedTuple):
    """Posterior particles of a method, and their cost."""

    theta: Array  # (N, P)
    steps: int  # physics steps
    cpu_s: float  # of all threads
    beyond: float = 0.0  # largest limit violation, in coordinates
    defect: float = 0.0  # rms gap between windows


def run_csvgd(
    problem: ShootingProblem, settings: CsvgdConfig, effort: SamplerBudget, watch: Callback,
    begin: ParticleStart | None = None,
) -> SamplerResult:  # fmt: skip
    """Run CSVGD, with particles all over the limits, or near an estimate."""
    began = time.process_time()
    done = csvgd.infer(
        problem,
        settings,
        effort.threads,
        lambda now: watch(float(now.iteration + 1)),
        begin=begin,
    )
    seconds = time.process_time() - began
    return SamplerResult(done.theta, done.steps, seconds, done.beyond, done.defect)


def run_baseline(problem: ShootingProblem, name: str, effort: SamplerBudget) -> SamplerResult:
    """Run a baseline with the same number of physics steps as single shooting with gradients."""
    began = time.process_time()
    method = csvgd_baselines.BASELINES[name]
    times = 1 if name in csvgd_baselines.GRADIENT_BASED else 1 + len(problem.parameters)
    theta, steps = method(problem, effort.particles, times * effort.iterations, 'sum', effort.seed)
    return SamplerResult(theta, steps, time.process_time() - began)


def cached(
    folder: Path, name: str, key: Mapping[str, object], make: Callable[[], SamplerResult]
) -> SamplerResult:
    """Return the result stored for this key, or compute and store it."""
    path = folder / f'{name.replace(" ", "_").replace("/", "-")}.npz'
    stored_key = json.dumps(key, sort_keys=True)
    if path.exists():
        with np.load(path) as data:
            if str(data['key']) == stored_key:
                numbers = (float(data[name]) for name in ('cpu_s', 'beyond', 'defect'))
                return SamplerResult(data['theta'], int(data['steps']), *numbers)
    result = make()
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix('.part.npz')
    np.savez(part, key=stored_key, **result._asdict())
    part.replace(path)
    return result


def cache_key(
    case: str, effort: SamplerBudget, settings: CsvgdConfig | None = None
) -> dict[str, object]:
    """Return everything that a result depends on; threads are not part of it."""
    key: dict[str, object] = {'case': case, **asdict(effort), 'settings': None}
    del key['threads']
    if settings is not None:
        key['settings'] = asdict(settings)
    return key


def measure_speed(
    problem: ShootingProblem, settings: CsvgdConfig, threads: int, pairs: int = 5
) -> tuple[float, float]:
    """
    Return physics steps per second of a core, and the cost of an iteration over bare stepping.

    Bare stepping runs the same simulations for the same number of steps without recording.
    """
    shooter = MultipleShooting(problem, settings.particles, settings.windows, threads)
    z = csvgd.initial_particles(shooter)
    batch = shooter.ensemble.batch
    steps = len(problem.controls) // settings.windows
    controls = np.zeros((batch.nsim, steps, problem.controls.shape[1]))
    evaluate(shooter, z)  # allocates
    shooter.steps, whole, bare = 0, [], []
    for pair in range(pairs):
        began = time.process_time()
        evaluate(shooter, z + 1e-3 * (pair + 1))
        middle = time.process_time()
        batch.rollout(steps, controls, record=[])
        whole.append(middle - began)
        bare.append(time.process_time() - middle)
    return shooter.steps / sum(whole), float(np.median(np.array(whole) / np.array(bare)))


def share_near(theta: Array, truths: Array, tolerance: Array) -> list[float]:
    """Return the share of particles (N, P) within a tolerance of each truth (K, P)."""
    return [float(np.mean(np.all(np.abs(theta - t) <= tolerance, axis=1))) for t in truths]


def _settings(effort: SamplerBudget) -> CsvgdConfig:
    return CsvgdConfig(effort.particles, effort.iterations, seed=effort.seed)


def _cached_csvgd(
    case: str, name: str, problem: ShootingProblem, settings: CsvgdConfig, effort: SamplerBudget,
    out: Path, advance: Advance,
) -> SamplerResult:  # fmt: skip
    key = cache_key(case, effort, settings)
    run = functools.partial(run_csvgd, problem, settings, effort, advance(name))
    return cached(out / case, name, key, run)


def _cost(result: SamplerResult) -> dict[str, Any]:
    return {name: value for name, value in result._asdict().items() if name != 'theta'}


def lengths(effort: SamplerBudget, out: Path, advance: Advance) -> dict[str, Any]:
    """Two link lengths, two systems: sum and product of likelihoods."""
    problem, truths = csvgd_systems.lengths()
    rows, thetas = {}, {}
    for likelihood in ('sum', 'product'):
        settings = replace(_settings(effort), likelihood=likelihood)
        result = _cached_csvgd('lengths', likelihood, problem, settings, effort, out, advance)
        shares = share_near(result.theta, truths, LENGTH_TOLERANCE * truths.min(axis=0))
        median = np.median(result.theta, axis=0).tolist()
        rows[likelihood] = {'near': shares, 'median': median, **_cost(result)}
        thetas[f'{likelihood} of likelihoods'] = result.theta
    save_figure(csvgd_plots.lengths(problem, truths, thetas), out / 'stein_lengths.png')
    speed = measure_speed(problem, CsvgdConfig(effort.particles), effort.threads)
    return {'truths': truths.tolist(), 'methods': rows, 'pace': speed}


def pendulum(effort: SamplerBudget, out: Path, advance: Advance) -> dict[str, Any]:
    """Eleven parameters of a double pendulum: CSVGD with many and one windows, and baselines."""
    problem, truth = csvgd_systems.pendulum()
    plain = _settings(effort)
    settings = {OURS: replace(plain, windows=WINDOWS), SINGLE: replace(plain, windows=1)}
    rows: dict[str, Mapping[str, Any]] = {}
    thetas, comparisons = {}, {}
    for name in (*settings, *csvgd_baselines.BASELINES):
        if name in settings:
            chosen = settings[name]
            result = _cached_csvgd('pendulum', name, problem, chosen, effort, out, advance)
        else:
            run = functools.partial(run_baseline, problem, name, effort)
            result = cached(out / 'pendulum', name, cache_key('pendulum', effort), run)
        comparisons[name] = posterior_metrics.repeat_comparison(
            problem, truth, result.theta, effort.seed
        )
        measured = {
            key: posterior_metrics.mean_and_error(values)
            for key, values in comparisons[name].items()
        }
        rows[name], thetas[name] = {**measured, **_cost(result)}, result.theta
    # paired differences: all methods predict the same draws
    more = {
        name: {
            key: posterior_metrics.mean_and_error(values - comparisons[OURS][key])
            for key, values in draws.items()
        }
        for name, draws in comparisons.items()
        if name != OURS
    }
    save_figure(csvgd_plots.pendulum(problem, truth, thetas), out / 'stein_pendulum.png')
    speed = measure_speed(problem, settings[OURS], effort.threads)
    return {'truth': truth.tolist(), 'methods': rows, 'more': more, 'pace': speed}


def weights(effort: SamplerBudget, out: Path, advance: Advance) -> dict[str, Any]:
    """Two indistinguishable weights in a box: a posterior with two modes."""
    problem, truths = csvgd_systems.weights()
    rows, thetas = {}, {}
    for name, windows in ((OURS, WINDOWS), (SINGLE, 1)):
        settings = replace(_settings(effort), windows=windows)
        result = _cached_csvgd('weights', name, problem, settings, effort, out, advance)
        shares = share_near(result.theta, truths, np.full(4, WEIGHT_TOLERANCE_M))
        rows[name], thetas[name] = {'near': shares, **_cost(result)}, result.theta
    save_figure(csvgd_plots.weights(problem, truths, thetas), out / 'stein_weights.png')
    speed = measure_speed(problem, CsvgdConfig(effort.particles, windows=WINDOWS), effort.threads)
    return {'truths': truths.tolist(), 'methods': rows, 'pace': speed}


EXPERIMENTS = {'lengths': lengths, 'pendulum': pendulum, 'weights': weights}


@dataclass(frozen=True)
class CsvgdStudyOptions:
    """Options of the study `stein`."""

    particles: int = fields.particles(100)
    iterations: int = fields.count(500, 'number of iterations')
    threads: int = non_negative(1, 'threads of the simulation; 0: all cores')
    out: Path = key(
        Path('out/identify'),
        doc='folder for figures and finished results, which are not computed again',
    )


class CsvgdStudy(Study):
    """Posteriors of known systems by CSVGD and by other samplers."""

    description = 'posteriors by Stein variational inference and by other samplers'
    options = CsvgdStudyOptions
    cases: ClassVar[Mapping[str, int]] = dict.fromkeys(EXPERIMENTS, 10)

    def run(self, options: CsvgdStudyOptions, settings: StudySettings) -> dict[str, Any]:
        """Return the metrics of each method; ConfigError before any work if options are wrong."""
        if settings.case == 'pendulum' and options.particles <= NEIGHBOURS:
            raise ConfigError(
                f'--particles: found {options.particles}, expected {NEIGHBOURS + 1} or more: the '
                'KL divergence of fewer is not known'
            )
        try:
            options.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f'--out: no folder can be made: {error}') from None
        effort = SamplerBudget(
            options.particles, options.iterations, settings.seed, options.threads
        )

        def advance(name: str) -> Callable[[float], None]:
            def report(done: float) -> None:
                if done % 25 == 0:
                    print(f'{name}: {done:.0f} of {effort.iterations} iterations', file=sys.stderr)

            return report

        results = EXPERIMENTS[settings.case](effort, options.out, advance)
        rate, ratio = results.pop('pace')
        speed = {'steps_per_cpu_s': rate, 'ratio_to_bare_stepping': ratio}
        return {'case': settings.case, **results, **speed}

    def show(self, results: Mapping[str, Any]) -> None:
        """Print a table of the methods, and the speed of the simulation."""
        show_table(results['methods'])
        if results['case'] == 'pendulum':
            draws = posterior_metrics.DRAWS
            print(f'predictions: mean and standard error of {draws} draws of held-out motions')
            print(f'\nmore than {OURS}, draw by draw')
            show_table(results['more'])
        print(
            f'{results["steps_per_cpu_s"]:.3g} physics steps per second of a core; '
            f'an iteration takes {results["ratio_to_bare_stepping"]:.2f} of bare stepping'
        )


def show_table(rows: Mapping[str, Mapping[str, float | Sequence[float]]]) -> None:
    """Print a row for each method, whose numbers have names."""
    names = list(next(iter(rows.values())))
    print(f'{"":18}', *(f'{name:>15}' for name in names))
    for method, row in rows.items():
        print(f'{method:18}', *(f'{_short(row[name]):>15}' for name in names))


def _short(value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        return ' '.join(f'{item:.3g}' for item in value)
    return f'{value:.4g}'

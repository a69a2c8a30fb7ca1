"""`emppi bench identify --method stein`: what is measured of each experiment."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emppi_ros.bench.identify import (
    csvgd_experiments,
    csvgd_plots,
    csvgd_systems,
    held_out,
    samplers,
)
from emppi_ros.bench.identify.csvgd_experiments import Effort, Found, Watch
from emppi_ros.identify.common.figures import save_figure
from emppi_ros.identify.csvgd.csvgd import CsvgdConfig
from emppi_ros.identify.csvgd.problem import ShootingProblem

Array = npt.NDArray[np.float64]
Advance = Callable[[str], Watch]
WINDOWS = 10  # of multiple shooting, as in the paper
NEAR = 0.05  # of a length: what counts as found
NEAR_M = 0.01  # m: what counts as a weight that was found
OURS, SINGLE = 'CSVGD', 'CSVGD, one window'


def near(theta: Array, truths: Array, tolerance: Array) -> list[float]:
    """Return the share of particles (N, P) within a tolerance of each truth (K, P)."""
    return [float(np.mean(np.all(np.abs(theta - t) <= tolerance, axis=1))) for t in truths]


def _settings(effort: Effort) -> CsvgdConfig:
    return CsvgdConfig(effort.particles, effort.iterations, seed=effort.seed)


def _constrained(
    case: str, name: str, problem: ShootingProblem, settings: CsvgdConfig, effort: Effort,
    out: Path, advance: Advance,
) -> Found:  # fmt: skip
    key = csvgd_experiments.key_of(case, effort, settings)
    return csvgd_experiments.stored(
        out / case,
        name,
        key,
        lambda: csvgd_experiments.constrained(problem, settings, effort, advance(name)),
    )


def _facts(found: Found) -> dict[str, Any]:
    return {
        'steps': found.steps,
        'cpu_s': found.cpu_s,
        'beyond': found.beyond,
        'defect': found.defect,
    }


def lengths(effort: Effort, out: Path, advance: Advance) -> dict[str, Any]:
    """Two link lengths, two systems: the sum of likelihoods, and the product."""
    problem, truths = csvgd_systems.lengths()
    rows, thetas = {}, {}
    for likelihood in ('sum', 'product'):
        settings = replace(_settings(effort), likelihood=likelihood)
        found = _constrained('lengths', likelihood, problem, settings, effort, out, advance)
        shares = near(found.theta, truths, NEAR * truths.min(axis=0))
        rows[likelihood] = {
            'near': shares,
            'median': np.median(found.theta, axis=0).tolist(),
            **_facts(found),
        }
        thetas[likelihood] = found.theta
    save_figure(csvgd_plots.lengths(problem, truths, thetas), out / 'stein_lengths.png')
    speed = csvgd_experiments.pace(problem, CsvgdConfig(effort.particles), effort.threads)
    return {'truths': truths.tolist(), 'methods': rows, 'pace': speed}


def pendulum(effort: Effort, out: Path, advance: Advance) -> dict[str, Any]:
    """Eleven parameters of a double pendulum: windows, one window, and what others do."""
    problem, truth = csvgd_systems.pendulum()
    settings = {
        name: replace(_settings(effort), windows=windows)
        for name, windows in ((OURS, WINDOWS), (SINGLE, 1))
    }
    rows: dict[str, Mapping[str, Any]] = {}
    thetas, told = {}, {}
    for name in (*settings, *samplers.ALL):
        if name in settings:
            chosen = settings[name]
            found = _constrained('pendulum', name, problem, chosen, effort, out, advance)
        else:
            found = csvgd_experiments.stored(
                out / 'pendulum',
                name,
                csvgd_experiments.key_of('pendulum', effort),
                lambda name=name: csvgd_experiments.sampled(problem, name, effort),
            )
        told[name] = held_out.repeat(problem, truth, found.theta, effort.seed)
        measured = {key: held_out.mean(values) for key, values in told[name].items()}
        rows[name], thetas[name] = {**measured, **_facts(found)}, found.theta
    # all predict the same draws, whose differences say more than those of means
    more = {
        name: {key: held_out.mean(values - told[OURS][key]) for key, values in of.items()}
        for name, of in told.items()
        if name != OURS
    }
    save_figure(csvgd_plots.pendulum(problem, truth, thetas), out / 'stein_pendulum.png')
    speed = csvgd_experiments.pace(problem, settings[OURS], effort.threads)
    return {'truth': truth.tolist(), 'methods': rows, 'more': more, 'pace': speed}


def weights(effort: Effort, out: Path, advance: Advance) -> dict[str, Any]:
    """Two equal weights in a box: nobody can say which is which."""
    problem, truths = csvgd_systems.weights()
    rows, thetas = {}, {}
    for name, windows in ((OURS, WINDOWS), (SINGLE, 1)):
        settings = replace(_settings(effort), windows=windows)
        found = _constrained('weights', name, problem, settings, effort, out, advance)
        shares = near(found.theta, truths, np.full(4, NEAR_M))
        rows[name], thetas[name] = {'near': shares, **_facts(found)}, found.theta
    save_figure(csvgd_plots.weights(problem, truths, thetas), out / 'stein_weights.png')
    speed = csvgd_experiments.pace(
        problem, CsvgdConfig(effort.particles, windows=WINDOWS), effort.threads
    )
    return {'truths': truths.tolist(), 'methods': rows, 'pace': speed}


ALL = {'lengths': lengths, 'pendulum': pendulum, 'weights': weights}

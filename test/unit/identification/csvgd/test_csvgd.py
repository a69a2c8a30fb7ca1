"""CSVGD recovers known systems: one truth, or two equivalent ones."""

import importlib

import csvgd_systems
import numpy as np
import pytest

from benchmarks.video import baselines
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.csvgd import csvgd
from emppi_ros.identification.csvgd.csvgd import CsvgdConfig
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    evaluate,
    log_likelihood,
    sobol_parameters,
)
from emppi_ros.identification.multiple_shooting.training_data import LIMIT

TRUTH = np.array([1.3, 0.2])  # as in conftest


def test_initial_particles_fill_the_limits_evenly(swing):
    z = sobol_parameters(swing, 63)
    assert np.array_equal(z, sobol_parameters(swing, 63)) and len(np.unique(z, axis=0)) == 63
    assert np.all(np.abs(z) < LIMIT)
    # of 64 points of the sequence, all but the origin, each eighth of a range has eight
    eighth = np.floor(np.round(4.0 * (z[:, 0] / LIMIT + 1.0), 9)).astype(int)
    assert sorted(np.bincount(eighth, minlength=8)) == [7] + 7 * [8]


@pytest.mark.slow
@pytest.mark.parametrize('windows', [1, 3])
def test_particles_match_the_posterior_within_limits(swing, windows):
    found = csvgd.infer(swing, CsvgdConfig(40, 40, windows), threads=1)
    lower, upper = swing.limits
    assert np.all((lower <= found.theta) & (found.theta <= upper))
    shooter = MultipleShooting(swing, 1, threads=1)
    curvature = evaluate(shooter, swing.coordinates(TRUTH)[None]).curvature[0]
    unit = (upper - lower) / (2.0 * LIMIT)
    deviation = unit * np.sqrt(np.diag(np.linalg.inv(curvature)))
    # forty draws know a spread to 11 %: three and a half of that
    assert np.all(np.abs(np.median(found.theta, axis=0) - TRUTH) < 1.5 * deviation)
    spread = found.theta.std(axis=0) / deviation
    assert np.all((0.6 < spread) & (spread < 1.4))
    assert found.defect < 1e-2


def test_results_have_the_same_bits_on_any_number_of_threads(swing):
    settings = CsvgdConfig(6, 3, windows=2)
    one, two = (csvgd.infer(swing, settings, threads).z for threads in (1, 2))
    assert np.array_equal(one, two)


def share_near(theta, truths, tolerance):
    """Return the share of particles (N, P) within a tolerance of each truth (K, P)."""
    return [float(np.mean(np.all(np.abs(theta - t) <= tolerance, axis=1))) for t in truths]


@pytest.mark.slow
def test_two_equal_weights_are_recovered_in_both_orders():
    problem, truths = csvgd_systems.weights()
    found = csvgd.infer(problem, CsvgdConfig(10, 20, windows=5), threads=1)
    shares = share_near(found.theta, truths, np.full(4, 0.01))  # m
    assert min(shares) > 0.0 and sum(shares) >= 0.5


@pytest.mark.parametrize('name', list(baselines.BASELINES))
def test_baselines_increase_the_likelihood(swing, name):
    pytest.importorskip(name.lower().split('-')[0], reason='the extra `identify` is not installed')
    theta, steps = baselines.BASELINES[name](swing, 8, 90, 0)
    assert theta.shape == (8, 2) and steps > 0
    shooter = MultipleShooting(swing, 8, threads=1, slopes=False)
    before = log_likelihood(shooter, sobol_parameters(swing, 8))
    after = log_likelihood(shooter, swing.coordinates(theta))
    assert np.median(after) > np.median(before)


def test_a_missing_library_is_an_error_that_names_the_extra(swing, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, 'import_module', missing)
    with pytest.raises(IdentificationError, match=r"emcee is not .*'emppi_ros\[identify\]'"):
        baselines.emcee(swing, 4, 1, 0)

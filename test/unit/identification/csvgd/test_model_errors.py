"""Windows stay independent where the model does not explain continuous motion."""

from dataclasses import replace

import csvgd_systems
import numpy as np
import pytest

from emppi_ros.identification.csvgd import csvgd, model_errors
from emppi_ros.identification.csvgd.csvgd import CsvgdConfig
from emppi_ros.identification.multiple_shooting import window_search
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, TrainingData

TRUTH = np.array([1.3, 0.2])  # as in conftest
WINDOWS = 6


@pytest.fixture
def kicked(swing):
    """Return training data of a pendulum that something kicks between windows."""
    rng = np.random.default_rng(0)
    controls = np.concatenate([swing.controls] * WINDOWS)
    pieces = [
        csvgd_systems.rollout(swing.model, swing.parameters, TRUTH[None], start, swing.controls)[0]
        for start in rng.uniform(-1.5, 1.5, (WINDOWS, 2))
    ]
    exact = np.concatenate(pieces)
    seen = exact + swing.noise * rng.standard_normal(exact.shape)
    problem = replace(swing, controls=controls, references=seen, start=seen[:1], first_steps=(0,))
    return TrainingData(problem, WINDOWS, (), ('run',), ())


def test_a_motion_with_kicks_is_identified_from_independent_windows(kicked):
    found = window_search.estimate(kicked, np.array([0.8, 0.5]), lambda *_: None, 1)
    assert found.windows == WINDOWS and found.worse > 2.0
    data = model_errors.separate(kicked, found, 1)
    assert 'independent windows of 0.24 s' in data.note
    # 144 samples tell a standard deviation to 6 %; and the factor is at least 1
    assert np.all(data.problem.noise > 0.75 * kicked.problem.noise)
    settings = CsvgdConfig(10, 16, WINDOWS)
    states = []

    def infer(state=None):
        return csvgd.infer(
            data.problem,
            settings,
            1,
            lambda state, _: states.append(state),
            state,
            None,
            data.begin,
        )

    whole = infer()
    away = np.abs(whole.theta.mean(axis=0) - TRUTH)
    np.testing.assert_array_less(away, 4.0 * whole.theta.std(axis=0))
    # settled before the last iteration, so that some were left out; a resumed run does the same
    assert len(states) < settings.iterations
    np.testing.assert_array_equal(infer(states[1]).z, whole.z)


def test_noise_is_larger_by_the_root_of_how_often_each_error_is_repeated():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((400, 20))
    slopes = 100.0 * rng.standard_normal((400, 20, 5))  # the prior is weak
    once = model_errors._Errors(np.ones(1), values, slopes)
    repeated = once._replace(
        values=np.repeat(values, 9, axis=1), slopes=np.repeat(slopes, 9, axis=1)
    )
    recordings = np.zeros(400, int)
    one, many = (model_errors._noise_factor(errors, 3, recordings) for errors in (once, repeated))
    # the mean of three variances, each from 400 windows with lags: about 7 % of a factor
    assert 1.0 <= one < 1.2
    found = model_errors._noise_factor(
        once._replace(values=3.0 * values), 3, recordings
    )  # errors that are three times as large do as well
    assert many == pytest.approx(found, rel=1e-3)
    assert many == pytest.approx(3.0, rel=0.2)


def test_particles_have_the_distribution_of_the_start_reflected_at_the_limits():
    covariance = np.array([[0.01, 0.004], [0.004, 0.02]])
    z = csvgd.draw_particles(np.array([0.3, 5.0]), covariance, 4000, 1, seed=3)
    # standard error of a variance of 4000 draws: 2.2 %
    np.testing.assert_allclose(np.cov(z.T), covariance, rtol=0.15)
    for edge in (-LIMIT, LIMIT):
        z = csvgd.draw_particles(np.array([edge, 0.0]), covariance, 4000, 1, seed=3)
        assert np.all(np.abs(z[:, 0]) <= LIMIT)
        # a half-normal distribution has the mean square of the whole one
        assert np.mean((z[:, 0] - edge) ** 2) == pytest.approx(0.01, rel=0.12)


def test_particles_have_settled_if_their_mean_stays_and_some_moved():
    rng = np.random.default_rng(0)
    curvature = np.tile(4.0 * np.eye(3), (50, 1, 1))
    z = rng.standard_normal((50, 3))
    assert csvgd.has_settled(z, z + rng.standard_normal((50, 3)) / 8.0, curvature)
    assert not csvgd.has_settled(z, z + 0.5, curvature)
    assert not csvgd.has_settled(z, z, curvature)

"""Recordings one after another are their problems side by side; noise is what it was."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.csvgd import csvgd
from emppi_ros.identification.csvgd.csvgd import CsvgdConfig
from emppi_ros.identification.multiple_shooting import training_data
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    evaluate,
    initial_particles,
    log_likelihood,
)
from emppi_ros.recordings.recordings import Signal

TRUTH = np.array([1.3, 0.2])  # as in conftest


@pytest.fixture
def two(swing):
    """Return recordings of 16 and of 8 steps as one problem, and each alone."""
    starts = np.array([swing.start, swing.start + [0.2, -0.1]])
    both = dataclasses.replace(swing, start=starts, first_steps=(0, 16))
    parts = [
        dataclasses.replace(
            swing, start=starts[[i]], first_steps=(0,), controls=swing.controls[rows],
            references=swing.references[rows], noise=swing.noise,
        )
        for i, rows in enumerate((slice(0, 16), slice(16, 24)))
    ]  # fmt: skip
    return both, parts


def particles(shooter):
    rng = np.random.default_rng(0)
    z = initial_particles(shooter)
    return z + 0.05 * rng.standard_normal(z.shape)


def test_the_density_is_that_of_each_recording(two):
    both, parts = two
    shooter = MultipleShooting(both, 4, 3, threads=1)
    z = particles(shooter)
    states = z[:, 2:].reshape(4, 3, 2) * both.scale
    alone = []
    for problem, windows, own in zip(parts, (2, 1), (states[:, :2], states[:, 2:]), strict=True):
        single = MultipleShooting(problem, 4, windows, threads=1)
        starts = (own / problem.scale).reshape(4, -1)
        alone.append(evaluate(single, np.concatenate([z[:, :2], starts], axis=1)))
    # where both begin was measured
    off = (states[:, [0, 2]] - both.start) / both.noise
    begin = -0.5 * np.sum(off**2, axis=2).T
    now = evaluate(shooter, z)
    later = [one.log_p - own for one, own in zip(alone, begin, strict=True)]
    expected = sum(later) + begin.sum(axis=0)
    # units of states differ: a rounding on the way there and back
    np.testing.assert_allclose(now.log_p, expected, rtol=1e-9)
    # two limits, and two states at the one place where windows meet
    assert now.defects.shape == (4, 2 + 2)
    np.testing.assert_allclose(
        now.defects[:, 2:] * both.scale, alone[0].defects[:, 2:] * parts[0].scale, atol=1e-12
    )


def test_the_score_and_normals_are_derivatives(two):
    shooter = MultipleShooting(two[0], 4, 3, threads=1)
    z = particles(shooter)
    now, step = evaluate(shooter, z), 1e-5
    for column in range(shooter.size):
        up, down = z.copy(), z.copy()
        up[:, column] += step
        down[:, column] -= step
        slope = log_likelihood(shooter, up) - log_likelihood(shooter, down)
        # as in test_target
        np.testing.assert_allclose(now.score[:, column], slope / (2 * step), rtol=1e-3, atol=1e-2)
        moved = evaluate(shooter, up).defects - evaluate(shooter, down).defects
        np.testing.assert_allclose(now.normals[:, :, column], moved / (2 * step), atol=1e-4)


def test_an_inference_goes_on_from_any_of_its_states(two):
    settings, states = CsvgdConfig(5, 8, 3, settling=0.5), []
    whole = csvgd.infer(two[0], settings, 1, lambda state, _: states.append(state))
    for state in states:
        again = csvgd.infer(two[0], settings, 1, state=state)
        assert np.array_equal(again.z, whole.z) and np.array_equal(again.log_p, whole.log_p)


def test_noise_is_told_from_motion():
    time = 0.01 * np.arange(2000)
    noise = np.random.default_rng(0).standard_normal(2000)
    signal = Signal('position', 'pivot', 'rad', time, np.sin(3.0 * time) + 1e-3 * noise, 'here')
    # 2000 numbers know their standard deviation to 1.6 %; of that, four, and what the filter
    # takes of a slow motion is below a hundredth of this noise
    assert training_data._noise(signal) == pytest.approx(1e-3, rel=0.07)
    slow = signal._replace(time=0.05 * np.arange(2000))
    with pytest.raises(IdentificationError, match='give it: --noise position/pivot=SD'):
        training_data._noise(slow)


@pytest.mark.parametrize('phase', [0.0, 0.5 * np.pi])
def test_noise_is_not_what_a_motion_does_where_it_is_cut_off(phase):
    time = 0.01 * np.arange(400)
    noise = 3e-4 * np.random.default_rng(0).standard_normal(400)
    values = 2.0 * np.sin(4.0 * time + phase) + noise
    signal = Signal('position', 'pivot', 'rad', time, values, 'here')
    # 360 numbers know their standard deviation to 3.7 %; of that, four
    assert training_data._noise(signal) == pytest.approx(3e-4, rel=0.15)

"""The box that an arm shakes: what its points show, and how estimates are judged."""

import numpy as np
import pytest

from benchmarks.csvgd import box
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    evaluate,
    initial_particles,
)


@pytest.mark.parametrize('phase', [1, 2])
def test_the_truth_explains_the_points_up_to_their_noise(phase):
    problem, truth = box.box_problem(phase, 3)
    shooter = MultipleShooting(problem, 1, threads=1)
    now = evaluate(shooter, problem.coordinates(truth)[None])
    numbers = problem.points.positions.size
    # half the squares of standard normal numbers: four standard deviations
    assert now.log_p[0] == pytest.approx(-0.5 * numbers, abs=4.0 * np.sqrt(0.5 * numbers))
    # some of each group of unknowns is better known than by the limits
    sd = np.sqrt(np.diag(np.linalg.inv(now.curvature[0] + np.eye(shooter.unknown))))
    assert np.all(sd < 1.0) and sd.min() < 0.1


def test_weights_that_change_places_cannot_be_told_apart():
    problem, truth = box.box_problem(2, 3)
    places = box.simulate_points(problem, np.stack([truth, np.roll(truth, 2)]), problem.controls)
    np.testing.assert_allclose(places[0], places[1], atol=1e-9)


def test_states_guessed_from_points_are_near_those_of_the_simulation():
    problem, truth = box.box_problem(2, 3)
    shooter = MultipleShooting(problem, 1, 4, threads=1)
    z = initial_particles(shooter)
    z[:, : shooter.unknown] = problem.coordinates(truth)
    guessed, joined = (shooter.starts(x)[0] * shooter.scale for x in (z, shooter.join(z)))
    # the arm lags by a tenth of a second behind targets of 0.26 rad/s, and sags under the box
    assert np.abs(guessed - joined)[:, :9].max() < 0.05


def test_particles_count_at_the_mode_that_they_are_nearest_to():
    truth = np.array([0.1, 0.04, -0.1, -0.04])
    exchanged = np.roll(truth, 2)
    theta = np.stack([truth, truth + 0.001, exchanged, truth + [0.03, 0.0, 0.0, 0.0]])
    judged = box.judge_weights(theta, truth)
    assert (judged['first'], judged['near_first'], judged['near_second']) == (0.75, 0.5, 0.25)
    # rms of both weights: 0, sqrt(2) mm, 0 and 30 / sqrt(2) mm
    assert judged['distance_mm'] == pytest.approx(np.sqrt(2.0) / 2.0)


def test_intervals_are_judged_by_parameter():
    limits = np.array([(p.lower, p.upper) for p in box.EMPTY_BOX])
    theta = limits[:, 0] + np.linspace(0.0, 1.0, 101)[:, None] * np.ptp(limits, axis=1)
    truth = limits.mean(axis=1)
    truth[0], truth[10] = limits[0, 1], 0.99 * limits[10, 1]  # outside of 90 %
    judged = box.judge_intervals(theta, truth)
    counts = [judged[f'inside_{name}'] for name in ('inertia', 'centre', 'friction')]
    assert (judged['inside'], counts) == (9.0, [5.0, 3.0, 1.0])
    # 90 % of the prior; with 101 draws intervals are wider by a share of 1 / 50
    assert judged['width_inertia'] == pytest.approx(1.02)

"""The search over windows rejects divergent steps, and begins again elsewhere if it must."""

import dataclasses

import csvgd_systems
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.multiple_shooting import window_search
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    initial_particles,
)
from emppi_ros.identification.multiple_shooting.training_data import ShootingProblem, TrainingData
from emppi_ros.model.parameters import Parameter


def test_a_step_that_diverges_is_not_taken_and_a_start_that_does_is_an_error(swing, monkeypatch):
    found = window_search.ResidualFunction(MultipleShooting(swing, 1, 3, threads=1), 1e4)
    z = initial_particles(found.shooter)[0]
    before, simulate = found.value(z), found.shooter.simulate

    def diverging(point):
        windows = simulate(point)
        return windows._replace(diverged=~windows.diverged)

    monkeypatch.setattr(found.shooter, 'simulate', diverging)
    assert np.all(found.value(z + 0.1) ** 2 > 1e90)
    with pytest.raises(IdentificationError, match='the model diverges'):
        window_search.ResidualFunction(found.shooter, 1e4).value(z)
    monkeypatch.undo()
    np.testing.assert_array_equal(found.value(z), before)


def test_a_search_that_ends_in_a_local_minimum_begins_again_elsewhere(swing, monkeypatch):
    # a centre of mass above the pivot: no small change of it lets the link swing down
    lever = Parameter('lever', 'body_ipos', 'link', 2, -1.0, 1.0, 'm')
    truth, noise = np.array([-0.5]), 1e-3
    seen = csvgd_systems.rollout(swing.model, (lever,), truth[None], swing.start, swing.controls)
    seen = seen + noise * np.random.default_rng(0).standard_normal(seen.shape)
    problem = ShootingProblem(
        swing.model,
        (lever,),
        swing.start[None],
        swing.controls,
        seen[0],
        np.array([noise, np.inf]),
        (0,),
    )
    data = TrainingData(problem, 1, (), (), ())

    def away():
        """Return the error in standard deviations, and in units of the limits."""
        found = window_search.estimate(data, np.array([0.9]), lambda *_: None, 1)
        error = abs(found.z[0] - problem.coordinates(truth)[0])
        return error / found.sd[0], error

    assert away()[0] < 4.0
    monkeypatch.setattr(window_search, 'RESTARTS', 0)
    assert away()[1] > 1.0


def test_a_search_whose_pace_is_too_slow_ends_and_windows_stay_independent(swing, monkeypatch):
    monkeypatch.setattr(window_search, '_PACE', 1)
    problem = dataclasses.replace(swing, start=swing.start[None], first_steps=(0,))
    data = TrainingData(problem, 3, (), (), ())
    start, costs = np.array([1.0, 0.3]), list[float]()

    def watch(_, cost):
        costs.append(cost)

    one = window_search.ResidualFunction(MultipleShooting(problem, 1, 3, threads=1), 0.0)
    z = initial_particles(one.shooter)[0]
    z[:2] = problem.coordinates(start)
    reached = one.search(z, watch)
    assert reached > 1 and len(costs) >= reached  # progress also while steps are rejected
    with pytest.raises(window_search._HopelessSearchError):
        one.search(z, watch, -1.0)  # no sum of squares is negative
    search = window_search.ResidualFunction.search

    def never_continuous(self, z, progress, most=np.inf):
        return search(self, z, progress, -1.0 if self.weight else most)

    monkeypatch.setattr(window_search.ResidualFunction, 'search', never_continuous)
    found = window_search.estimate(data, start, watch, 1)
    assert found.worse == np.inf and 'hardly shrink' in found.note(data)

"""Simulated pairs: the same bits in any partition, and those of the simulator."""

import copy
import dataclasses
from functools import partial

import csvgd_systems
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.bayessim import simulations, summaries
from emppi_ros.identification.bayessim.simulations import Pairs, PairSimulation, find_starts
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, ShootingProblem


@pytest.fixture(scope='module')
def problem() -> ShootingProblem:
    return csvgd_systems.pendulum()[0]


def test_pairs_are_the_same_in_any_partition(problem: ShootingProblem) -> None:
    recipe = partial(PairSimulation, problem, find_starts(problem), 'difference', 3)
    whole = recipe(6, 1).simulate(np.arange(6))
    for part in (slice(0, 2), slice(2, 6)):
        numbers = np.arange(6)[part]
        alone = recipe(len(numbers), 1).simulate(numbers)
        assert np.array_equal(whole.coordinates[part], alone.coordinates)
        assert np.array_equal(whole.summaries[part], alone.summaries)
    other = PairSimulation(problem, find_starts(problem), 'difference', 4, 6, 1)
    other = other.simulate(np.arange(6))
    assert not np.any(whole.coordinates == other.coordinates)


def test_a_summary_is_that_of_a_simulation_with_its_parameters(problem: ShootingProblem) -> None:
    quiet = dataclasses.replace(problem, noise=np.full_like(problem.noise, 1e-12))
    pairs = partial(PairSimulation, quiet, find_starts(quiet), 'downsampled', 0)(3, 1).simulate(
        np.arange(3)
    )
    assert np.max(np.abs(pairs.coordinates)) < LIMIT
    for z, summary in zip(pairs.coordinates, pairs.summaries, strict=True):
        theta = problem.theta(z)
        states = csvgd_systems.rollout(
            problem.model, problem.parameters, theta[None], problem.start, problem.controls
        )
        expected = summaries.downsampled(states / problem.scale)[0]
        np.testing.assert_allclose(summary, expected, rtol=1e-9, atol=1e-9)


def test_the_observed_summary_is_that_of_what_was_measured(problem: ShootingProblem) -> None:
    noise = problem.noise.copy()
    noise[2:] = np.inf  # no velocities
    positions = dataclasses.replace(problem, noise=noise)
    found = partial(PairSimulation, positions, find_starts(positions), 'downsampled', 0)(
        1, 1
    ).observed()
    seen = problem.references[None, :, :2] / problem.scale[:2]
    assert np.array_equal(found, summaries.downsampled(seen)[0])


def test_a_known_start_has_no_spread_and_a_measured_one_its_noise(problem) -> None:
    (known,) = find_starts(problem)
    assert np.array_equal(known.mean, problem.start) and not np.any(known.root)
    measured = dataclasses.replace(problem, start=problem.start[None], first_steps=(0,))
    (start,) = find_starts(measured)
    assert np.array_equal(start.mean, problem.start)
    assert np.array_equal(start.root, np.diag(problem.noise))


def test_starts_without_velocities_are_as_uncertain_as_they_say(problem) -> None:
    rng, sd = np.random.default_rng(0), 1e-3
    time = problem.model.opt.timestep * np.arange(len(problem.controls) + 1)
    clean = np.array([1.0, -0.5]) + np.outer(time, [3.0, -2.0]) + np.outer(time**3, [5.0, 9.0])
    errors = []
    for _ in range(500):
        seen = clean + sd * rng.standard_normal(clean.shape)
        states = np.concatenate([seen, np.zeros_like(seen)], axis=1)
        one = dataclasses.replace(
            problem, start=states[:1], references=states[1:], first_steps=(0,),
            noise=np.array([sd, sd, np.inf, np.inf]),
        )  # fmt: skip
        (start,) = find_starts(one)
        error = start.mean - np.array([1.0, -0.5, 3.0, -2.0])
        errors.append(np.linalg.solve(start.root, error))
    # whitened errors of 500 fits: five standard errors of a covariance
    assert np.max(np.abs(np.cov(np.array(errors).T) - np.eye(4))) < 5.0 * np.sqrt(2.0 / 500)
    assert np.max(np.abs(np.mean(errors, axis=0))) < 5.0 / np.sqrt(500)


def test_simulating_goes_on_where_it_stopped(problem: ShootingProblem, monkeypatch) -> None:
    monkeypatch.setattr(simulations, 'BLOCK', 4)
    recipe, seen = (
        partial(PairSimulation, problem, find_starts(problem), 'statistics', 0),
        list[Pairs](),
    )
    whole = simulations.simulate_all(recipe, 10, None, seen.append, threads=1)
    assert [len(one.coordinates) for one in seen] == [4, 8, 12]
    again = simulations.simulate_all(recipe, 10, seen[0], lambda _: None, threads=1)
    assert np.array_equal(whole.summaries, again.summaries) and len(whole.summaries) == 10


def test_simulations_that_mostly_diverge_are_an_error(problem: ShootingProblem) -> None:
    wild = dataclasses.replace(problem, model=copy.copy(problem.model))
    wild.model.opt.timestep, wild.model.opt.gravity[:] = 10.0, (1e15, 0.0, 0.0)
    recipe = partial(PairSimulation, wild, find_starts(wild), 'statistics', 0)
    with pytest.raises(IdentificationError, match=r'200 of 200 simulations diverge: .*time step'):
        simulations.simulate_all(recipe, 20, None, lambda _: None, threads=1)

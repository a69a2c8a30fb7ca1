"""Baselines of the studies: what they find, and what they spend."""

import csvgd_systems
import numpy as np
import pytest

from benchmarks.video import baselines


def test_adam_finds_the_top_of_a_hill() -> None:
    top, steep = np.array([0.7, -1.2, 0.1]), np.array([1e4, 1.0, 1e-4])
    starts = np.array([[0.0, 0.0, 0.0], [-1.5, 1.5, 1.0]])
    found = baselines.climb(starts, lambda z: steep * (top - z), 200)
    # the last steps are of 0.01, along a gradient that changes its sign at the top
    assert np.max(np.abs(found - top)) < 0.02


def test_adam_counts_its_simulations() -> None:
    problem, truth = csvgd_systems.pendulum()
    theta, steps = baselines.adam(problem, 2, 3)
    assert theta.shape == (1, len(truth))
    assert np.all(theta >= problem.limits[0]) and np.all(theta <= problem.limits[1])
    # a gradient at each iteration and one for the choice, by forward differences
    each = (1 + len(truth)) * len(problem.controls)
    assert steps == 2 * (3 + 1) * each


def test_windows_from_states_of_one_motion_are_as_likely_as_the_motion() -> None:
    problem, truth = csvgd_systems.pendulum()
    motion = csvgd_systems.rollout(
        problem.model, problem.parameters, truth[None], problem.start, problem.controls
    )[0]
    starts = np.array([problem.start, motion[len(motion) // 2 - 1]])
    point = problem.coordinates(truth)[None]
    _, alone = baselines._density(problem, 4)
    _, cut = baselines._density(problem, 4, starts)
    assert cut(point) == pytest.approx(alone(point), rel=1e-9)  # rounding, over 1 s of motion
    _, elsewhere = baselines._density(problem, 4, starts + np.array([[0.0], [1.0]]))
    assert elsewhere(point) < alone(point) - 10.0


def test_adam_with_known_starts_climbs() -> None:
    problem, truth = csvgd_systems.pendulum()
    starts = np.stack([problem.start, problem.references[len(problem.references) // 2 - 1]])
    theta, steps = baselines.adam_in_windows(problem, 2, 20, starts)
    _, log_p = baselines._density(problem, 2, starts)
    before = log_p(baselines.sobol_parameters(problem, 2))
    assert log_p(problem.coordinates(theta)) > before.max() + 100.0
    assert steps == (20 * 2 * (1 + len(truth)) + 2 * (1 + len(truth))) * len(problem.controls)

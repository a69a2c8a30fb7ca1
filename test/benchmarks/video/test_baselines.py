"""Baselines of the studies: what they find, and what they spend."""

import csvgd_systems
import numpy as np

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

"""Stein variational gradient descent against exact densities, and a row of the study."""

import numpy as np
import pytest
from scipy import special

from benchmarks.dual import stein
from benchmarks.dual.compute import LEARNER, TUNED, compute
from benchmarks.studies.dual import STUDY
from benchmarks.study import Results


def test_particles_take_mean_and_spread_of_a_gaussian():
    rng = np.random.default_rng(0)
    mean, sd = np.array([1.0, -2.0]), np.array([0.5, 1.5])
    x = rng.standard_normal((60, 2)) + 3.0
    for _ in range(1500):
        score = (mean - x) / sd**2
        x += 0.3 * stein.stein_direction(x, score, 0.7)
    # at a fixed point the mean over particles is exact; what is left is the rate of descent
    np.testing.assert_allclose(x.mean(axis=0), mean, atol=0.05)
    # a kernel of this width holds particles apart a little less than a density of many
    np.testing.assert_allclose(x.std(axis=0), sd, rtol=0.2)


def test_particles_repel_one_another_without_a_score():
    x = np.array([[0.0], [0.1]])
    step = stein.stein_direction(x, np.zeros((2, 1)), 1.0)
    assert step[0, 0] < 0.0 < step[1, 0]


def test_the_score_of_a_mixture_is_the_slope_of_its_log_density():
    rng = np.random.default_rng(1)
    x, centres, small = rng.standard_normal((5, 3)), rng.standard_normal((4, 3)), 1e-5

    def log_density(at):
        squares = np.sum((at[:, None] - centres) ** 2, axis=-1)
        return special.logsumexp(-0.5 * squares / 0.49, axis=1)

    score = stein.mixture_score(x, centres, 0.7)
    for column, step in enumerate(small * np.eye(3)):
        slope = (log_density(x + step) - log_density(x - step)) / (2.0 * small)
        np.testing.assert_allclose(score[:, column], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_a_quick_study_has_a_row_for_each_method_and_a_page(tmp_path):
    selection = STUDY.select(quick=True, methods=[LEARNER, TUNED])
    rows = [compute(cell) for cell in STUDY.cells(selection).cells]
    assert [row.method for row in rows] == [LEARNER, TUNED]
    for row in rows:
        for one in row.parameters.values():
            assert 0.0 <= one.inside_before <= 1.0
            assert np.isfinite([one.error_before, one.error_after]).all()
    page = STUDY.page(Results(rows, tmp_path))
    assert page.figures[0].is_file()
    assert TUNED in str(page.values['parameters'])

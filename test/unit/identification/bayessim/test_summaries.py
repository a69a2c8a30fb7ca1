"""Summaries: identities of signatures and statistics, and samples of trajectories."""

import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.bayessim import summaries


@pytest.fixture
def paths() -> np.ndarray:
    steps = np.random.default_rng(0).standard_normal((4, 100, 2))
    return np.cumsum(steps, axis=1)


def levels(flat: np.ndarray, size: int = 3) -> tuple[np.ndarray, ...]:
    first, second, third = np.split(flat, np.cumsum([size, size**2]), axis=1)
    return first, second.reshape(-1, size, size), third.reshape(-1, size, size, size)


def test_all_summaries_have_a_length_that_the_trajectory_does_not_change(paths) -> None:
    for name, summarize in summaries.SUMMARIES.items():
        rows = summarize(paths)
        assert rows.shape == (4, summarize(paths[:1, :60]).shape[1]), name
        assert np.array_equal(rows[1:2], summarize(paths[1:2])), name  # each by itself


def test_a_downsampled_trajectory_ends_with_its_last_state(paths) -> None:
    rows = summaries.downsampled(paths).reshape(4, summaries.SAMPLES, 2)
    assert np.array_equal(rows[:, -1], paths[:, -1])
    assert np.array_equal(rows[:, 0], paths[:, 4])  # every fifth of 100


def test_differences_have_their_mean_and_variance(paths) -> None:
    rows = summaries.difference(paths)
    np.testing.assert_allclose(rows[:, -4:-2], (paths[:, -1] - paths[:, 0]) / 99.0)
    np.testing.assert_allclose(rows[:, -2:], np.var(paths[:, 1:] - paths[:, :-1], axis=1))


def test_statistics_are_those_of_numpy(paths) -> None:
    rows = summaries.statistics(paths)
    for row, path in zip(rows, paths, strict=True):
        np.testing.assert_allclose(row[:2], path.mean(axis=0))
        np.testing.assert_allclose(row[4], np.corrcoef(path.T)[0, 1], rtol=1e-9)


def test_a_signature_has_the_symmetry_of_iterated_integrals(paths) -> None:
    first, second, third = levels(summaries.signature(paths))
    # shuffle identities: products of integrals are sums over orders
    product = np.einsum('ni,nj->nij', first, first)
    np.testing.assert_allclose(product, second + second.swapaxes(1, 2), atol=1e-9)
    shuffled = third + np.einsum('nikj->nijk', third) + np.einsum('nkij->nijk', third)
    expected = np.einsum('nij,nk->nijk', second, first)
    np.testing.assert_allclose(expected, shuffled, atol=1e-8)


def test_the_first_level_of_a_signature_is_the_way_from_the_origin(paths) -> None:
    first, *_ = levels(summaries.signature(paths))
    np.testing.assert_allclose(first[:, 1:], paths[:, -1], atol=1e-12)
    np.testing.assert_allclose(first[:, 0], 1.0)  # time


def test_a_trajectory_that_is_too_short_is_an_error() -> None:
    with pytest.raises(
        IdentificationError, match='19 samples at steps of the model.* at least 20'
    ):
        summaries.check_length(19)

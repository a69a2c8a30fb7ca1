"""Predictions of a filmed double pendulum, whose truth is known here."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.identify import csvgd_systems, real_pendulum
from benchmarks.real import datasets
from emppi_ros.core.errors import BenchError

NOISE = 1e-3  # rad


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with one filmed run, seven seconds long, of the pendulum of the study."""
    problem, truth = csvgd_systems.pendulum()
    problem.model.opt.timestep = 1.0 / datasets.PENDULUM_RATE_HZ
    steps = 7 * (real_pendulum.STEPS + 1)
    start = np.array([1.2, -0.8, 0.0, 0.0])
    states = csvgd_systems.rollout(
        problem.model, problem.parameters, truth[None], start, np.zeros((steps, 0))
    )[0]
    angles = states[:, :2] + NOISE * np.random.default_rng(0).standard_normal((steps, 2))
    upper, lower = angles[:, 0], angles.sum(axis=1)
    elbow = 600.0 * np.column_stack([np.cos(upper), np.sin(upper)])
    tip = elbow + 460.0 * np.column_stack([np.cos(lower), np.sin(lower)])
    folder = tmp_path / datasets.DATASETS['free-pendulum'].folder
    folder.mkdir()
    np.savetxt(folder / '0.csv.gz', np.column_stack([0.0 * elbow, elbow, tip]), delimiter=',')
    monkeypatch.setattr(datasets, '_PENDULUM_ROWS', slice(None))
    return tmp_path


def test_the_truth_predicts_held_out_seconds_up_to_the_noise(recordings: Path) -> None:
    problem, held_out = real_pendulum.read(recordings)
    assert len(held_out) == 6 and held_out[0].shape == (real_pendulum.STEPS + 1, 2)
    # fifth differences of 401 samples: a relative standard error of about 0.08
    np.testing.assert_allclose(problem.noise[:2], NOISE, rtol=0.3)
    truth = csvgd_systems.PENDULUM_TRUTH
    wrong = truth.copy()
    wrong[5] *= 1.5  # the length
    found = real_pendulum.compare(problem, held_out, np.repeat([truth, wrong], 8, axis=0))
    # velocities from a cubic fit of 0.1 s have errors of 0.06 rad/s, after an eighth of a second
    assert found['error_quarter'][:8].mean() < 10.0 * NOISE
    assert 2.0 * found['error'][:8].mean() < found['error'][8:].mean()
    assert found['mmd'][:8].mean() < 0.0  # each prediction is near its own trajectory


def test_the_limits_of_the_paper_and_missing_recordings(recordings: Path, tmp_path: Path) -> None:
    published = real_pendulum.read(recordings, published_limits=True)[0].parameters
    assert {one.lower for one in published if one.field == 'body_inertia'} == {0.002}
    with pytest.raises(BenchError, match='--data: no folder'):
        real_pendulum.read(tmp_path / 'elsewhere')

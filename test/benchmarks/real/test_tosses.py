"""Tosses of a cube: simulated ones, of which everything is known, and laws of the measures."""

from argparse import Namespace
import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks import ASSETS
from benchmarks.real import compute, toss_forecasts, tosses
from benchmarks.real.datasets import DATASETS, tosses_of
from benchmarks.real.tosses import RATE_HZ, Tosses
from benchmarks.studies.real import RealStudy
from emppi_ros.identification.common.plant import Plant
from emppi_ros.model.ensemble import State

DATA = Path(__file__).parents[2] / 'data'
TRUTH = np.array([0.18, 0.006, 1.2, -0.001, 8e-4])
ROWS = 70


@pytest.fixture(scope='module')
def plant() -> Plant:
    """Return the cube on its table."""
    return Plant.from_file(ASSETS / 'real_cube.yaml')


def toss(plant: Plant, count: int, seed: int = 0, theta: np.ndarray = TRUTH) -> Tosses:
    """Return tosses that are recorded in simulation, without noise."""
    rng = np.random.default_rng(seed)
    poses = np.zeros((count, 7))
    poses[:, 2] = rng.uniform(0.12, 0.16, count)
    poses[:, 3:] = Rotation.random(count, random_state=seed).as_quat()[:, [3, 0, 1, 2]]
    speeds = rng.standard_normal((count, 6)) * [0.7, 0.7, 0.1, 4.0, 4.0, 4.0]
    found = tosses.simulate(plant, theta[None], State(poses, speeds), ROWS, threads=1)[0]
    return Tosses(State(poses, speeds), found, np.full(count, ROWS))


@pytest.mark.parametrize('ratio', [0.3, 0.6, 0.75, 1.0, 2.0])
def test_the_restitution_of_a_contact_is_that_of_its_damping_ratio(ratio: float) -> None:
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><option timestep="1e-5" gravity="0 0 0"/><worldbody>'
        '<geom type="plane" size="1 1 1"/><body pos="0 0 0.1001"><freejoint/>'
        f'<geom size="0.1" mass="1" priority="1" solref="0.01 {ratio}" solimp="0.95 0.95 0.001"/>'
        '</body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    data.qvel[2] = -1.0
    while data.qvel[2] <= 0.0 or data.ncon:
        mujoco.mj_step(model, data)
        assert data.time < 1.0
    # an impedance of 0.95 leaves a twentieth of the acceleration, here none, without the contact
    assert data.qvel[2] == pytest.approx(tosses.restitution(ratio), abs=0.01)


def test_damping_ratio_and_restitution_are_inverse() -> None:
    for wanted in (0.02, 0.125, 0.2, 0.5, 0.9):
        assert tosses.restitution(tosses.damping_ratio(wanted)) == pytest.approx(wanted)


def test_errors_do_not_change_when_both_poses_move_alike(plant: Plant) -> None:
    one = toss(plant, 3).poses
    other = np.roll(one, 1, axis=1)
    turn = Rotation.from_rotvec([0.0, 0.0, 1.1])

    def moved(poses: np.ndarray) -> np.ndarray:
        place = turn.apply(poses[..., :3].reshape(-1, 3)) + [0.3, -2.0, 0.0]
        turned = turn * Rotation.from_quat(poses[..., 3:].reshape(-1, 4)[:, [1, 2, 3, 0]])
        quaternion = turned.as_quat()[:, [3, 0, 1, 2]]
        return np.column_stack([place, quaternion]).reshape(poses.shape)

    for before, after in zip(
        tosses.errors(one, other), tosses.errors(moved(one), moved(other)), strict=True
    ):
        sizes = (np.linalg.norm(x, axis=-1) for x in (before, after))
        np.testing.assert_allclose(*sizes, atol=1e-9)
    flipped = one * [1, 1, 1, -1, -1, -1, -1]  # the same rotation
    np.testing.assert_allclose(tosses.errors(flipped, one)[1], 0.0, atol=1e-7)


def test_corners_are_those_of_the_cube_at_rest() -> None:
    flat = np.array([0.0, 0.0, 0.0524, 1.0, 0.0, 0.0, 0.0])
    tip = np.array([0.0, 0.0, 1.0, *Rotation.from_euler('x', 45, degrees=True).as_quat()])
    assert tosses.lowest_corner(flat) == pytest.approx(0.0)
    edge = tosses.lowest_corner(tip[[0, 1, 2, 6, 3, 4, 5]])
    assert edge == pytest.approx(1.0 - 0.0524 * np.sqrt(2.0))


def test_a_toss_starts_so_that_free_flight_is_exact(plant: Plant) -> None:
    time = np.arange(-1, 12) / RATE_HZ
    place = np.column_stack([0.8 * time, -0.3 * time, 2.0 + 0.4 * time - 0.5 * 9.81 * time**2])
    upright = np.tile([1.0, 0.0, 0.0, 0.0], (12, 1))
    velocities = np.column_stack([np.diff(place, axis=0) * RATE_HZ, np.zeros((12, 3))])
    one = tosses.from_rows(np.zeros(12), np.column_stack([place[1:], upright]), velocities)
    found = tosses.simulate(plant, TRUTH[None], one.starts, 12, threads=1)[0]
    np.testing.assert_allclose(found, one.poses, atol=1e-9)


def test_a_toss_counts_as_one_observation_however_long(plant: Plant) -> None:
    short = toss(plant, 2)
    scale = np.ones((2, ROWS))
    off = short.poses[None] + np.array([0.5, 0, 0, 0, 0, 0, 0])
    whole = tosses.log_likelihoods(off, short, scale)
    half = dataclasses.replace(short, rows=np.array([ROWS, ROWS // 2]))
    np.testing.assert_allclose(tosses.log_likelihoods(off, half, scale), whole)
    off[0, 1, 3] = np.nan
    assert np.isneginf(tosses.log_likelihoods(off, short, scale)[0, 1])


def test_the_likelihood_is_largest_at_the_true_parameters(plant: Plant) -> None:
    recorded = toss(plant, 12)
    others = np.array([
        [0.05, 0, 0, 0, 0], [-0.05, 0, 0, 0, 0], [0, 0.02, 0, 0, 0], [0, 0, -0.8, 0, 0],
        [0, 0, 0, 0.004, 0], [0, 0, 0, 0, 3e-4],
    ])  # fmt: skip
    thetas = np.concatenate([TRUTH[None], TRUTH + others])
    poses = tosses.simulate(plant, thetas, recorded.starts, ROWS, threads=1)
    scale = np.full((2, ROWS), 0.01)
    total = tosses.log_likelihoods(poses, recorded, scale).sum(axis=1)
    assert np.argmax(total) == 0 and total[0] == pytest.approx(0.0, abs=1e-9)


def test_a_forecast_with_the_true_parameters_has_no_error(plant: Plant) -> None:
    recorded = toss(plant, 10)
    found = toss_forecasts.scores(plant, TRUTH[None], recorded, recorded, threads=1)
    for name in ('position error', 'rotation error', 'position error at rest'):
        assert found[name].value == pytest.approx(0.0, abs=1e-6)
    assert found['lands on the right face'].value == 100.0
    assert found['rebound, forecast'] == found['rebound, recorded']
    assert found['penetration'] == found['penetration, recorded']


def test_bands_are_as_wide_as_errors_were(plant: Plant) -> None:
    rng = np.random.default_rng(0)

    def displaced(seed: int) -> Tosses:
        one = toss(plant, 20, seed)
        apart = 0.01 * rng.standard_t(tosses.FREEDOM, (20, 1, 2))
        return dataclasses.replace(one, poses=one.poses + np.pad(apart, [(0, 0), (0, 0), (0, 5)]))

    found = toss_forecasts.scores(plant, TRUTH[None], displaced(1), displaced(2), threads=1)
    # of 40 with a probability of 0.9, and a scale that is known to 20 %: four standard errors
    assert found['rests inside the 90 % bands'].value > 65.0
    assert found['position error at rest'].value > 5.0


@pytest.mark.slow
def test_known_contact_properties_are_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tosses, 'SAMPLES', 48)
    samples = tosses.estimate(plant, toss(plant, 16), threads=1)
    low, high = np.quantile(samples, [0.025, 0.975], axis=0)
    assert low[0] < TRUTH[0] < high[0] and high[0] - low[0] < 0.05
    assert low[4] < TRUTH[4] < high[4]


def test_real_tosses_are_forecast_better_with_published_friction_than_with_a_default() -> None:
    study, names = RealStudy(), {'datasets': ('cube',), 'methods': ('published',)}
    found = study.cells(study.select(options=Namespace(data=DATA), **names)).cells
    errors = {}
    for one in found[:2]:
        row = compute.compute(one, threads=1)
        assert not row.refused and not row.quantities
        errors[row.method] = row.scores['position error'].value
    # of all tosses, a tenth of the width against all of it
    assert errors['published'] < 0.5 * errors["MuJoCo's defaults"]


def test_each_half_of_the_tosses_is_held_out_once() -> None:
    first, second = DATASETS['cube'].read(DATA / 'cube_tosses')
    (one, other), (later, before) = tosses_of(first), tosses_of(second)
    assert len(one.rows) == len(other.rows) == 2
    np.testing.assert_array_equal(one.poses, before.poses)
    np.testing.assert_array_equal(other.poses, later.poses)

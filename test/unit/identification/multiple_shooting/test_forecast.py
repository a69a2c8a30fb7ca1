"""Random torques are estimated from gaps between windows, and widen forecasts accordingly."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from emppi_ros.identification.multiple_shooting import forecast
from emppi_ros.recordings.motion import Motion, split_at

STEP_S, NOISE = 0.005, 1e-3  # as in conftest
TRUTH = np.array([-0.3, 0.3, 0.005])
LENGTH = 20  # steps of a window
SCALE = np.full(2, 0.85 * NOISE)  # as a Student's t


def shaken(model, start, torque, steps, noise=NOISE, seed=0):
    """Return a motion with random torques of these standard deviations (nv,)."""
    rng, data = np.random.default_rng(seed), mujoco.MjData(model)
    data.qpos[:] = start
    qpos = np.empty((steps, model.nv))
    for row in qpos:
        row[:] = data.qpos
        data.qfrc_applied[:] = torque * rng.standard_normal(model.nv)
        mujoco.mj_step(model, data)
    qpos += noise * rng.standard_normal(qpos.shape)
    rows = np.zeros_like(qpos)
    return Motion(qpos, np.ones_like(qpos), np.zeros((steps, model.nu)), rows)


@pytest.mark.slow
@pytest.mark.parametrize('length', [10, 40])
def test_the_covariance_of_random_forces_is_recovered(plants, length) -> None:
    plant, mass, noise = plants['cart'], np.array([3.0]), 1e-4
    motion = shaken(plant.at(mass), 0.0, 2.0, 4001, noise)
    scale = np.array([0.85 * noise])
    found = forecast.impulse_covariance(plant, mass, scale, motion, length, 1)
    # three standard errors of a standard deviation from the windows
    assert np.sqrt(found[0, 0]) / STEP_S == pytest.approx(2.0, rel=3.0 / np.sqrt(8000 / length))
    still = shaken(plant.at(mass), 0.0, 0.0, 4001, noise)
    none = forecast.impulse_covariance(plant, mass, scale, still, length, 1)
    assert none[0, 0] < 0.05 * found[0, 0]


@pytest.mark.slow
def test_forecasts_with_random_torques_hold_as_many_measurements_as_they_say(plants) -> None:
    plant, torque = plants['pendulum'], np.array([0.3, 0.15])
    motion = shaken(plant.at(TRUTH), [1.0, 0.5], torque, 2201, seed=1)
    parts = (slice(1001), slice(1001, None))
    names = ('qpos', 'weights', 'ctrl', 'applied')
    known, later = (
        replace(motion, **{name: getattr(motion, name)[part] for name in names}) for part in parts
    )
    thetas = np.tile(TRUTH, (30, 1))
    impulses = forecast.impulse_covariance(plant, TRUTH, SCALE, known, LENGTH, 1)
    with_noise, without = (
        np.array(forecast.inside(forecast.forecast(
            plant, thetas, SCALE, known, later, LENGTH, 0, 1, one)))
        for one in (impulses, None)
    )  # fmt: skip
    # 12 independent forecasts: three standard errors of a share
    assert np.all(np.abs(with_noise - 0.9) < 3.0 * np.sqrt(0.9 * 0.1 / 12))
    assert np.all(without < 0.7)


def test_a_single_window_tells_nothing(plants) -> None:
    plant = plants['pendulum']
    motion = shaken(plant.at(TRUTH), [1.0, 0.5], np.zeros(2), LENGTH + 5)
    found = forecast.impulse_covariance(plant, TRUTH, SCALE, motion, LENGTH, 1)
    assert found is None


def test_torques_have_the_covariance_of_the_impulses_that_they_cause() -> None:
    covariance = np.array([[4.0, 1.0], [1.0, 2.0]])
    torques = forecast.draw_torques(covariance, 0.1, (200, 100), np.random.default_rng(0))
    assert torques.shape == (200, 100, 2)
    found = np.cov(0.1 * torques.reshape(-1, 2).T)
    assert found == pytest.approx(covariance, rel=0.05)  # 20 000 draws: 1 %, and 2 % off diagonal


def test_a_held_out_part_that_is_too_short_to_forecast_is_named(plants) -> None:
    motion = shaken(plants['cart'].model, [0.0], 0.0, 200)
    parts = [split_at(motion, 120)]
    assert forecast.note_missing(parts, [None], 0.005) == ''
    assert '1 of 1 held-out parts have no forecast' in forecast.note_missing(parts, [], 0.005)
    assert forecast.note_missing([split_at(motion, 200)], [], 0.005) == ''

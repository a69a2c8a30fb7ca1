"""The search: comparisons with dense and closed-form least squares, and robustness."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting import windows
from emppi_ros.identification.shooting import estimation
from emppi_ros.identification.shooting.estimation import (
    ShootingEstimate,
    WindowSimulation,
    estimate,
)
from emppi_ros.recordings.motion import Motion

from .conftest import PENDULUM_TRUTH, STEP_S


def fit(plant: Plant, motion: Motion, length: int) -> ShootingEstimate:
    """Return the estimate from windows of one length."""
    cut = windows.cut(motion, length)
    starts = windows.guess_starts(cut, plant.model.opt.timestep)
    return estimate(plant, motion, cut, plant.initial, starts, threads=1)


def pushed_cart(mass: float, noise: float, steps: int = 301) -> Motion:
    """Return the motion of a cart under a force, which the integrator follows exactly."""
    rng = np.random.default_rng(3)
    force = 2.0 * np.sin(np.arange(steps) * STEP_S * 9.0)
    velocity = np.concatenate([[0.1], 0.1 + np.cumsum(force / mass)[:-1] * STEP_S])
    # semi-implicit: the velocity after a step moves the position in it
    position = np.concatenate([[0.0], np.cumsum(velocity[1:] * STEP_S)])
    measured = position + noise * rng.standard_normal(steps)
    ones = np.ones((steps, 1))
    return Motion(measured[:, None], ones, force[:, None], np.zeros((steps, 1)))


def test_the_estimate_of_a_cart_is_that_of_linear_least_squares(plants, monkeypatch) -> None:
    for module in (estimation, windows):
        monkeypatch.setattr(module, 'FREEDOM', 1e12)  # normal errors
    motion, length = pushed_cart(1.3, 1e-4), 50
    found = fit(plants['cart'], motion, length)
    # position after k steps: x0 + k h v0 + (h^2 sum of (k - j) f_j) / m, linear in x0, v0, 1 / m
    rows, values = [], []
    count = (motion.steps - 1) // length
    for w in range(count):
        begin = w * length
        for k in range(1, length + 1):
            force = motion.ctrl[begin : begin + k, 0]
            row = np.zeros(1 + 2 * count)
            row[0] = STEP_S**2 * np.sum(np.arange(k, 0, -1) * force)
            row[1 + 2 * w : 3 + 2 * w] = 1.0, k * STEP_S
            rows.append(row)
            values.append(motion.qpos[begin + k, 0])
    solved, squares, _, _ = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)
    # the search ends when the cost changes by less than 1e-7 of it
    assert found.theta[0] == pytest.approx(1.0 / solved[0], rel=1e-6)
    spare = len(values) - len(solved)
    assert found.scale[0] == pytest.approx(np.sqrt(squares[0] / spare), rel=1e-6)


def test_eliminating_starts_gives_the_step_of_the_dense_problem(plants, swing) -> None:
    plant, motion = plants['pendulum'], swing()
    cut = windows.cut(motion, 40)
    starts = windows.guess_starts(cut, STEP_S)
    found = WindowSimulation(plant, motion, cut, threads=1).evaluate(plant.initial, starts)
    errors = found.errors
    scale = np.array([0.01, 0.02])
    system = estimation._eliminate(found, scale)
    count, parameters, states = cut.count, 3, 4
    root = np.sqrt(windows.student_weights(errors, scale)) / scale
    dense = np.zeros((count, 40 * 2, parameters + states * count))
    dense[..., :parameters] = (root[..., None] * found.by_parameter).reshape(count, 80, -1)
    for w in range(count):
        own = slice(parameters + states * w, parameters + states * (w + 1))
        dense[w, :, own] = (root[w][..., None] * found.by_start[w]).reshape(80, -1)
    whole, left = dense.reshape(-1, dense.shape[-1]), (root * errors).ravel()
    step = np.linalg.lstsq(whole, -left, rcond=None)[0]
    reduced = -np.linalg.solve(system.information, system.scores.sum(axis=0))
    # conditioning of the dense problem times rounding, with room
    np.testing.assert_allclose(reduced, step[:parameters], rtol=1e-6)
    followed = system.follow(reduced).ravel()
    np.testing.assert_allclose(followed, step[parameters:], atol=1e-6 * np.abs(step).max())
    inverse = np.linalg.inv(whole.T @ whole)[:parameters, :parameters]
    np.testing.assert_allclose(np.linalg.inv(system.information), inverse, rtol=1e-5)


@pytest.mark.parametrize('seed', [0, 1, 2])
def test_a_double_pendulum_is_found_within_its_uncertainty(plants, swing, seed: int) -> None:
    plant = plants['pendulum']
    result = fit(plant, swing(seed), 40)
    assert result.converged
    apart = (result.theta - PENDULUM_TRUTH) / plant.scales
    # chi-squared with three degrees of freedom: 1 in 10^5 is above 25.9
    assert apart @ np.linalg.solve(estimation.covariance(result), apart) < 25.9
    # scale 1 of Student's t with 4 degrees of freedom fits standard deviations of 1.1 to 1.2
    assert np.all((result.scale > 0.7e-3) & (result.scale < 1.05e-3))


def test_outliers_hardly_change_the_estimate(plants, swing, monkeypatch) -> None:
    plant, motion = plants['pendulum'], swing()
    rng = np.random.default_rng(1)
    wrong = rng.random(motion.qpos.shape) < 0.05
    spoiled = dataclasses.replace(
        motion, qpos=motion.qpos + wrong * rng.choice([-0.5, 0.5], motion.qpos.shape)
    )
    clean = fit(plant, motion, 40)
    sd = plant.scales * np.sqrt(np.diag(estimation.covariance(clean)))
    robust = fit(plant, spoiled, 40)
    for module in (estimation, windows):
        monkeypatch.setattr(module, 'FREEDOM', 1e12)
    plain = fit(plant, spoiled, 40)
    assert np.all(np.abs(robust.theta - clean.theta) < 2.0 * sd)
    assert np.any(np.abs(plain.theta - clean.theta) > 5.0 * sd)


def test_external_forces_act_like_commands_of_a_motor(plants) -> None:
    motion = pushed_cart(1.3, 1e-4)
    moved = dataclasses.replace(
        motion, ctrl=np.zeros_like(motion.ctrl), applied=motion.ctrl.copy()
    )
    by_command, by_force = (fit(plants['cart'], one, 50).theta for one in (motion, moved))
    np.testing.assert_allclose(by_force, by_command, rtol=1e-9)


def test_without_unknowns_only_the_starts_are_estimated(plants, swing) -> None:
    plant, motion = plants['pendulum'], swing()
    known = Plant(plant.at(PENDULUM_TRUTH), (), plant.write)
    cut = windows.cut(motion, 40)
    starts = windows.guess_starts(cut, STEP_S)
    found = estimate(known, motion, cut, np.empty(0), starts, threads=1)
    # as with the true values among the unknowns, which cost three degrees of freedom
    np.testing.assert_allclose(found.scale, fit(plant, motion, 40).scale, rtol=0.02)


def test_bounds_hold_and_are_reached(plants) -> None:
    plant = plants['cart']
    narrow = dataclasses.replace(
        plant, unknowns=(dataclasses.replace(plant.unknowns[0], lower=1.6),)
    )
    assert fit(narrow, pushed_cart(1.3, 1e-4), 50).theta[0] == pytest.approx(1.6, abs=1e-9)


def test_a_start_from_which_the_model_diverges_is_an_error(plants) -> None:
    plant, motion = plants['cart'], pushed_cart(1.3, 1e-4)
    motion.ctrl[7] = np.nan
    with pytest.raises(Exception, match='diverges where the search starts'):
        fit(plant, motion, 50)

"""Stribeck friction: without it nothing changes, with it a motion explains itself."""

import mujoco
import numpy as np
import pytest

from benchmarks import ASSETS
from benchmarks.identify import pendulums
from emppi_ros.cli import main
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states import forecast, residuals
from emppi_ros.identification.states.estimation import estimate
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.identification.states.stribeck import stribeck_friction
from emppi_ros.recordings.motion import Motion, split

FILE, TRUTH = ASSETS / 'pendulum.yaml', pendulums.STRIBECK_TRUTH


@pytest.fixture(scope='module')
def plant():
    return Plant.from_file(FILE)


def observe(qpos):
    return Motion(qpos, np.ones_like(qpos), np.zeros((len(qpos), 0)), np.zeros_like(qpos))


def swing(plant, theta, steps, start=2.9):
    """Return a release whose friction is that of eq. 4.1 in each step."""
    model = plant.at(theta)
    data, qpos = mujoco.MjData(model), np.empty((steps, 1))
    data.qpos[:] = start
    for row in qpos:
        row[:] = data.qpos
        above = theta[3] * np.exp(-abs(data.qvel[0]) / theta[4])
        model.dof_frictionloss[0] = theta[2] + above
        mujoco.mj_step(model, data)
    return qpos


def test_without_the_term_residuals_and_derivatives_are_those_of_dry_friction(plant):
    dry = pendulums.pendulum_plant('dry')
    theta, motion = TRUTH * [1, 1, 1, 0, 1], observe(swing(plant, TRUTH, 200))
    # body_inertia scales all moments, and the plant of pendulums keeps the third, which is at rest
    ours, theirs = (
        residuals.evaluate(one, motion, 1.0, values, motion.qpos)
        for one, values in ((plant, theta), (dry, theta[:3]))
    )
    assert np.array_equal(ours.impulses, theirs.impulses)
    ours, theirs = (
        residuals.linearize(one, motion, 1.0, values, motion.qpos)
        for one, values in ((plant, theta), (dry, theta[:3]))
    )
    for left, right in zip(ours.impulses, theirs.impulses, strict=True):
        assert np.array_equal(left, right)
    assert not ours.unknowns[:, :, 4].any()  # a velocity of no friction


def test_a_simulated_motion_needs_no_impulse_and_is_forecast_exactly(plant):
    motion = observe(swing(plant, TRUTH, 600))
    ours = residuals.evaluate(plant, motion, 1.0, TRUTH, motion.qpos)
    # rounding, as in test_residuals.py; without the term 3e-3 N m are missing, over 5 ms
    assert np.abs(ours.impulses).max() < 1e-11
    none = residuals.evaluate(plant, motion, 1.0, TRUTH * [1, 1, 1, 0, 1], motion.qpos)
    assert np.abs(none.impulses).max() > 1e-6
    known, later = split(motion, 0.2)
    forecasts = forecast.forecast(plant, TRUTH[None], known, later)[0]
    np.testing.assert_allclose(forecasts, later.qpos, atol=1e-9)  # as in test_forecast.py


def test_friction_falls_from_rest_to_motion(plant):
    model = plant.at(TRUTH)
    law = stribeck_friction(plant, model, TRUTH)
    for speed, expected in ((0.0, 5.4e-3), (-2.0, 2.4e-3 + 3e-3 / np.e), (1e3, 2.4e-3)):
        law.write(model, np.array([speed]))
        np.testing.assert_allclose(model.dof_frictionloss, [expected], rtol=1e-12)  # rounding


def test_derivatives_by_configurations_are_those_of_finite_differences(plant):
    qpos = swing(plant, TRUTH, 140)[-12:]  # a reversal is before, none inside
    motion = observe(qpos)
    blocks = residuals.linearize(plant, motion, 1.0, TRUTH, qpos).impulses
    size, middle = 1e-7, 5
    ends = []
    for sign in (1.0, -1.0):
        moved = qpos.copy()
        moved[middle] += sign * size
        ends.append(residuals.evaluate(plant, motion, 1.0, TRUTH, moved).impulses[:, 0])
    slope = (ends[0] - ends[1]) / (2.0 * size)
    analytic = [blocks[late][middle - late, 0, 0] for late in (2, 1, 0)]
    # MuJoCo's forward differences over 1e-6, of forces that are nearly linear so closely
    np.testing.assert_allclose(analytic, slope[[middle - 2, middle - 1, middle]], rtol=1e-5)


@pytest.mark.slow
def test_a_release_tells_the_friction_at_rest_from_that_in_motion(plant):
    qpos = swing(plant, TRUTH, 2000)
    noisy = qpos + 2e-4 * np.random.default_rng(11).standard_normal(qpos.shape)
    fit = estimate(plant, observe(noisy), SolverConfig())
    # white noise and the exact model: five errors within 95 % intervals
    assert np.all(np.abs(fit.theta - TRUTH) < 1.96 * fit.uncertainty.sd)
    assert np.all(fit.uncertainty.sd < 0.1 * TRUTH)  # of each, an effect is seen


def record(plant, folder, steps, **columns):
    """Return the words of `emppi identify` for a recorded release."""
    time = plant.model.opt.timestep * np.arange(steps)
    table = {'time_s': time, 'position/hinge [rad]': swing(plant, TRUTH, steps)[:, 0], **columns}
    values, header = np.column_stack(list(table.values())), ','.join(table)
    np.savetxt(folder / 'release.csv', values, delimiter=',', comments='', header=header)
    return ['identify', '--data', str(folder / 'release.csv'), '--model', str(FILE)]


@pytest.mark.parametrize('method', ['shooting', 'sysid', 'csvgd', 'bayessim', 'rigid-body'])
def test_other_methods_name_the_field_and_another_method(plant, method, tmp_path, capsys):
    torque = {'effort/hinge [N m]': 1e-3 * np.sin(np.arange(400))}
    words = record(plant, tmp_path, 400, **(torque if method == 'rigid-body' else {}))
    assert main([*words, '--method', method]) != 0
    said = capsys.readouterr().err
    assert 'stribeck_friction' in said
    assert ('use another method' if method == 'rigid-body' else '--method states') in said


@pytest.mark.slow
def test_a_model_file_leaves_the_term_out_and_says_so(plant, tmp_path, capsys):
    words = [*record(plant, tmp_path, 100), '--held-out', '0', '--json']
    assert main([*words, '--mjcf', str(tmp_path / 'known.xml')]) == 0
    assert 'without the stribeck_friction, which has no place' in capsys.readouterr().out
    known = mujoco.MjModel.from_xml_path(str(tmp_path / 'known.xml'))
    assert known.body_inertia[1, 0] == pytest.approx(TRUTH[0], rel=0.02)

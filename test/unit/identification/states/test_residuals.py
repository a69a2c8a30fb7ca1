"""Residuals of the inverse dynamics are those of MuJoCo's steps, and so are their derivatives."""

import mujoco
import numpy as np
import pytest

from benchmarks.identify import pendulums
from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.identification.common.plant import Plant, UnknownParameter
from emppi_ros.identification.states import residuals
from emppi_ros.recordings.motion import Motion, difference, displace

BALL = """<mujoco><option timestep="0.01" integrator="{integrator}"/><worldbody>
  <body name="free"><freejoint/>
    <inertial pos="0.02 0 0.01" mass="0.5" diaginertia="0.002 0.003 0.004"/>
    <body name="ball"><joint type="ball" damping="0.01"/>
      <inertial pos="0 0 -0.2" mass="0.2" diaginertia="0.001 0.0012 0.0004"/></body></body>
</worldbody></mujoco>"""


def ball() -> Plant:
    """Return a floating body with another one on a ball joint."""

    def write(model, theta):
        model.body_inertia[2] = theta

    unknowns = tuple(
        UnknownParameter(f'moment_{axis}', 'kg m^2', 0.001, 1e-5, 1.0) for axis in 'xyz'
    )
    return Plant(mujoco.MjModel.from_xml_string(BALL.format(integrator='Euler')), unknowns, write)


def tumble(plant, theta, steps):
    model = plant.at(theta)
    data = mujoco.MjData(model)
    data.qvel[:] = np.random.default_rng(0).normal(0.0, 2.0, model.nv)
    qpos = np.empty((steps, model.nq))
    for row in qpos:
        row[:] = data.qpos
        mujoco.mj_step(model, data)
    return qpos


def observe(qpos, model, ctrl=None):
    ctrl = np.zeros((len(qpos), model.nu)) if ctrl is None else ctrl
    free = np.ones((len(qpos), model.nv))
    return Motion(qpos, free, ctrl, np.zeros_like(free))


CASES = {
    'viscous': lambda: (
        pendulums.pendulum_plant('viscous'),
        pendulums.PENDULUM_TRUTH[:2],
        [3.0],
        None,
    ),
    'dry': lambda: (pendulums.pendulum_plant('dry'), pendulums.PENDULUM_TRUTH, [3.0], None),
    'furuta': lambda: (
        pendulums.furuta_plant(),
        pendulums.FURUTA_TRUTH,
        [0.0, 0.3],
        pendulums.swing_up,
    ),
}


@pytest.mark.parametrize('name', CASES)
def test_a_simulated_motion_needs_no_impulse_with_the_true_parameters(name):
    plant, theta, start, control = CASES[name]()
    qpos, ctrl = pendulums.simulate(plant, theta, start, 300, control)
    found = residuals.evaluate(plant, observe(qpos, plant.model, ctrl), 1.0, theta, qpos)
    # rounding: velocities of 10 rad/s are differences of angles of 10 rad over 5 ms, each to
    # 2e-15 rad, so impulses are exact to 1e-2 kg m^2 * 2e-15 / 5e-3; stiff friction: times 1000
    assert np.abs(found.impulses).max() < 1e-11
    assert not found.observed.any()


def test_a_floating_body_needs_no_impulse_either():
    plant = ball()
    theta = np.array([0.001, 0.0012, 0.0004])
    qpos = tumble(plant, theta, 100)
    found = residuals.evaluate(plant, observe(qpos, plant.model), 1.0, theta, qpos)
    assert np.abs(found.impulses).max() < 1e-11  # as above


def test_residual_impulses_are_those_of_external_forces():
    plant, theta = pendulums.furuta_plant(), pendulums.FURUTA_TRUTH
    model, rng = plant.at(theta), np.random.default_rng(1)
    data = mujoco.MjData(model)
    pushes, qpos = rng.normal(0.0, 0.01, (100, 2)), np.empty((100, 2))
    for row, push in zip(qpos, pushes, strict=True):
        row[:], data.qfrc_applied[:] = data.qpos, push
        mujoco.mj_step(model, data)
    motion = observe(qpos, model)
    found = residuals.evaluate(plant, motion, 4.0, theta, qpos)
    # the weight multiplies squares
    expected = 2.0 * model.opt.timestep * pushes[1:-1]
    np.testing.assert_allclose(found.impulses, expected, atol=1e-11)  # as above
    known = Motion(qpos, motion.weights, motion.ctrl, pushes)
    assert np.abs(residuals.evaluate(plant, known, 4.0, theta, qpos).impulses).max() < 1e-11


def test_forces_of_a_pendulum_are_those_of_its_equation_of_motion():
    plant, rng = pendulums.pendulum_plant('viscous'), np.random.default_rng(2)
    inertia, viscous = 0.005, 0.003
    h, qpos = plant.model.opt.timestep, rng.normal(0.0, 1.0, (20, 1))
    found = residuals.evaluate(
        plant, observe(qpos, plant.model), 1.0, np.array([inertia, viscous]), qpos
    )
    v = np.diff(qpos, axis=0) / h
    # MuJoCo applies damping at the end of a step (implicitfast)
    hinge = inertia + 0.2 * 0.15**2
    expected = (
        hinge * np.diff(v, axis=0)
        + h * viscous * v[1:]
        + h * 0.2 * 9.81 * 0.15 * np.sin(qpos[1:-1])
    )
    np.testing.assert_allclose(found.impulses, expected, rtol=1e-10)  # rounding, of large numbers


@pytest.mark.parametrize('name', [*CASES, 'ball'])
def test_derivatives_are_those_of_finite_differences(name):
    if name == 'ball':
        plant, theta = ball(), np.array([0.001, 0.0012, 0.0004])
        qpos, ctrl = tumble(plant, theta, 8), None
    else:
        plant, theta, start, control = CASES[name]()
        qpos, ctrl = pendulums.simulate(plant, theta, start, 40, control)
        qpos, ctrl = qpos[-8:], ctrl[-8:]
    model, rng = plant.model, np.random.default_rng(3)
    seen = displace(model, qpos, rng.normal(0.0, 0.05, (8, model.nv)))  # away from the states
    theta = theta * 1.1
    motion = observe(seen, model, ctrl)

    def flat(theta, qpos):
        found = residuals.evaluate(plant, motion, 10.0, theta, qpos)
        return np.concatenate([found.observed.ravel(), found.impulses.ravel()])

    given = dense(residuals.linearize(plant, motion, 10.0, theta, qpos), 8, model.nv)
    size = 1e-6
    columns = []
    for index in range(8 * model.nv):
        moves = np.zeros((2, 8 * model.nv))
        moves[:, index] = size, -size
        ends = [flat(theta, displace(model, qpos, move.reshape(8, -1))) for move in moves]
        columns.append((ends[0] - ends[1]) / (2 * size))
    for index, unknown in enumerate(plant.unknowns):
        move = np.zeros(len(theta))
        move[index] = size * unknown.scale
        ends = flat(theta + move, qpos) - flat(theta - move, qpos)
        columns.append(ends / (2 * move[index]))
    # forward differences of 1e-6 are off by 1e-6 of the curvature, here up to 100 times the slope
    np.testing.assert_allclose(given, np.array(columns).T, atol=1e-4 * np.abs(given).max())


def dense(jacobian, n, nv):
    """Return a Jacobian as a matrix: observations and impulses by states and parameters."""
    p = jacobian.unknowns.shape[2]
    matrix = np.zeros(((2 * n - 2) * nv, n * nv + p))
    for k in range(n):
        matrix[k * nv : (k + 1) * nv, k * nv : (k + 1) * nv] = jacobian.observed[k]
    for k in range(n - 2):
        rows = slice((n + k) * nv, (n + k + 1) * nv)
        for late, blocks in enumerate(jacobian.impulses):
            matrix[rows, (k + late) * nv : (k + late + 1) * nv] = blocks[k]
        matrix[rows, n * nv :] = jacobian.unknowns[k]
    return matrix


def test_displacements_are_undone_by_differences():
    model, rng = ball().model, np.random.default_rng(4)
    start = tumble(ball(), np.array([0.001, 0.0012, 0.0004]), 5)
    moves = rng.normal(0.0, 0.5, (5, model.nv))
    again = difference(model, start, displace(model, start, moves))
    np.testing.assert_allclose(again, moves, atol=1e-12)  # rounding


def test_unsupported_models_are_named():
    def build(xml):
        return Plant(mujoco.MjModel.from_xml_string(xml), (), lambda model, theta: None)

    with pytest.raises(IdentificationError, match="RK4.*use 'implicitfast' or 'Euler'"):
        build(BALL.format(integrator='RK4')).require_inverse()
    build(BALL.format(integrator='Euler')).require_inverse()
    with pytest.raises(IdentificationError, match='some have internal state'):
        build(
            '<mujoco><worldbody><body><joint name="j"/><geom size="0.1"/></body></worldbody>'
            '<actuator><general joint="j" dyntype="filter" dynprm="0.1"/></actuator></mujoco>'
        )
    with pytest.raises(ConfigError, match=r'mass: initial: found 2, expected .* 0 to 1 kg'):
        UnknownParameter('mass', 'kg', 2.0, 0.0, 1.0)
    with pytest.raises(ConfigError, match='tilt: size: found 0, expected a number'):
        UnknownParameter('tilt', 'rad', 0.0, -1.0, 1.0)

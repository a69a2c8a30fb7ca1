"""The solver agrees with dense solvers and closed forms."""

import dataclasses

import mujoco
import mujoco.minimize
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

from benchmarks.identify import pendulums
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant, UnknownParameter
from emppi_ros.identification.states import forecast, residuals, solver
from emppi_ros.identification.states.estimation import estimate, estimate_uncertainty
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.recordings.motion import Motion, displace, join

CART = """<mujoco><option timestep="0.02" integrator="Euler" gravity="0 0 0"/><worldbody>
  <body><joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body>
</worldbody><actuator><motor joint="slide"/></actuator></mujoco>"""


def cart(lower=0.0, upper=10.0):
    """Return a cart whose motor's gain is unknown: residuals are linear in states and gain."""

    def write(model, theta):
        model.actuator_gainprm[0, 0] = theta[0]

    unknown = UnknownParameter('gain', 'N', 1.0, lower, upper)
    return Plant(mujoco.MjModel.from_xml_string(CART), (unknown,), write)


def drive(steps=40, noise=0.01):
    rng = np.random.default_rng(0)
    ctrl = np.sin(0.3 * np.arange(steps))[:, None]
    qpos, _ = pendulums.simulate(
        cart(), np.array([3.0]), [0.0], steps, lambda data: [np.sin(0.3 * data.time / 0.02)]
    )
    seen = qpos + noise * rng.standard_normal(qpos.shape)
    return Motion(seen, np.ones_like(seen), ctrl, np.zeros_like(seen))


def swing(kind, steps=60, noise=1e-3):
    rng = np.random.default_rng(1)
    plant = pendulums.pendulum_plant(kind)
    plant.model.opt.timestep = 0.02
    qpos, _ = pendulums.simulate(
        plant, pendulums.PENDULUM_TRUTH[: len(plant.unknowns)], [2.5], steps
    )
    seen = qpos + noise * rng.standard_normal(qpos.shape)
    return plant, Motion(seen, np.ones_like(seen), np.zeros((steps, 0)), np.zeros_like(seen))


def stack(found):
    return np.concatenate([found.observed.ravel(), found.impulses.ravel()])


def matrix_of(plant, motion, weight):
    """Return the Jacobian by differences, and the residuals at the start: both dense."""
    n = motion.steps

    def flat(x):
        return stack(residuals.evaluate(plant, motion, weight, x[n:], x[:n, None]))

    x = np.concatenate([motion.qpos[:, 0], plant.initial])
    base = flat(x)
    steps = 1e-6 * np.eye(len(x))  # any step is exact for a linear problem
    return np.array([(flat(x + step) - base) / 1e-6 for step in steps]).T, base, x


@pytest.mark.parametrize('upper', [10.0, 2.0])
def test_a_linear_problem_has_the_closed_form_solution_within_bounds(upper):
    plant, motion, weight = cart(upper=upper), drive(), 5.0
    matrix, base, x = matrix_of(plant, motion, weight)
    box = np.full(len(x), np.inf)
    box[-1] = upper - x[-1]
    expected = x + scipy.optimize.lsq_linear(matrix, -base, (-np.inf, box), tol=1e-14).x
    found = solver.solve(plant, motion, SolverConfig(weight, 30, 1e-14, 1e-10))
    # differences of 1e-6 have a relative error of about 1e-10; damping stops within 1e-7
    assert found.theta[0] == pytest.approx(expected[-1], rel=1e-5)
    np.testing.assert_allclose(found.qpos[:, 0], expected[:-1], atol=1e-5)
    assert found.converged and found.iterations <= 8


def noise_of(found, known, weight):
    """Return the standard deviation of each residual; correlated ones count as fewer."""
    observation = known.observation_sd[0] * np.sqrt(known.correlation[0])
    return np.concatenate(
        [
            np.full(found.residuals.observed.size, observation),
            np.full(found.residuals.impulses.size, known.impulse_sd[0] * np.sqrt(weight)),
        ]
    )


def test_the_covariance_of_a_linear_problem_is_the_closed_form():
    plant, motion, weight = cart(), drive(200), 5.0
    matrix = matrix_of(plant, motion, weight)[0]
    found = solver.solve(plant, motion, SolverConfig(weight))
    known = estimate_uncertainty(plant, motion, weight, found)
    spread = noise_of(found, known, weight)
    inverse = np.linalg.pinv(matrix)
    covariance = (inverse * spread**2) @ inverse.T
    # the prior standard deviation of 1 adds a share of (sd / 1)^2
    expected = covariance[-1, -1]
    assert known.covariance[0, 0] == pytest.approx(expected / (1.0 + expected), rel=1e-5)


@pytest.mark.slow
def test_the_end_of_a_linear_problem_is_as_uncertain_as_the_closed_form():
    plant, motion, weight = cart(), drive(200), 5.0
    matrix = matrix_of(plant, motion, weight)[0]
    result = estimate(plant, motion, SolverConfig(weight))
    (end,) = forecast.end_states(result)
    spread = noise_of(result.solution, result.uncertainty, weight)
    inverse = np.linalg.pinv(matrix[:, :-1])  # for a given parameter
    covariance = (inverse * spread**2) @ inverse.T
    np.testing.assert_allclose(end.root @ end.root.T, covariance[-2:, -2:], rtol=1e-5)
    slope = -(inverse @ matrix[:, -1])[-2:, None] / plant.scales
    np.testing.assert_allclose(end.slope, slope, rtol=1e-5)


@pytest.mark.slow
def test_a_nonlinear_problem_has_the_solution_that_scipy_and_mujoco_find():
    plant, motion = swing('viscous')
    weight, n = 1e3, motion.steps
    scales = np.concatenate([np.ones(n), plant.scales])

    def flat(z):
        x = z * scales
        return stack(residuals.evaluate(plant, motion, weight, x[n:], x[:n, None]))

    start = np.concatenate([motion.qpos[:, 0], plant.initial]) / scales
    lower = np.concatenate([np.full(n, -100.0), plant.bounds[0]]) / scales
    upper = np.concatenate([np.full(n, 100.0), plant.bounds[1]]) / scales
    scipys = scipy.optimize.least_squares(
        flat, start, bounds=(lower, upper), ftol=1e-15, xtol=1e-15, gtol=1e-15
    )
    mujocos, _ = mujoco.minimize.least_squares(
        start,
        lambda z: np.array([flat(column) for column in np.atleast_2d(z.T)]).T,
        bounds=(lower, upper),
        verbose=0,
    )
    settings = SolverConfig(weight, cost_tolerance=1e-12, step_tolerance=1e-9)
    found = solver.solve(plant, motion, settings)
    ours = found.theta / plant.scales
    # they stop when finite differences show no decrease, at 1e-8 of the cost: 1e-4 of a step
    np.testing.assert_allclose(ours, scipys.x[n:], rtol=1e-4)
    np.testing.assert_allclose(ours, mujocos[n:], rtol=1e-4)
    assert found.residuals.cost <= 2.0 * scipys.cost * (1.0 + 1e-7)


def test_the_box_qp_has_the_solution_of_scipy():
    rng = np.random.default_rng(5)
    for _ in range(20):
        root, target = rng.standard_normal((8, 5)), rng.standard_normal(8)
        lower, upper = -rng.uniform(0.0, 0.5, 5), rng.uniform(0.0, 0.5, 5)
        found = solver.solve_box_qp(root.T @ root, -root.T @ target, lower, upper)
        expected = scipy.optimize.lsq_linear(root, target, (lower, upper), tol=1e-14).x
        np.testing.assert_allclose(found, expected, atol=1e-7)  # accuracy of lsq_linear
        assert np.all(found >= lower) and np.all(found <= upper)


def test_a_free_bound_may_be_infinite():
    found = solver.solve_box_qp(
        np.eye(2), np.array([-3.0, 3.0]), np.array([-np.inf, -1.0]), np.array([np.inf, np.inf])
    )
    np.testing.assert_allclose(found, [3.0, -1.0], rtol=1e-12)  # rounding


def test_orientations_are_estimated_on_their_manifold():
    xml = """<mujoco><option timestep="0.01"/><worldbody><body><joint type="ball"/>
      <inertial pos="0 0 -0.2" mass="0.2" diaginertia="0.004 0.005 0.002"/></body></worldbody>
    </mujoco>"""
    truth = np.array([0.004, 0.005, 0.002])

    def write(model, theta):
        model.body_inertia[1] = theta

    unknowns = tuple(UnknownParameter(axis, 'kg m^2', 0.0035, 1e-5, 1.0) for axis in 'xyz')
    plant = Plant(mujoco.MjModel.from_xml_string(xml), unknowns, write)
    model, rng = plant.at(truth), np.random.default_rng(6)
    data = mujoco.MjData(model)
    data.qvel[:] = 3.0, 6.0, 9.0
    qpos = np.empty((400, 4))
    for row in qpos:
        row[:] = data.qpos
        mujoco.mj_step(model, data)
    ones = np.ones((400, 3))
    seen = displace(model, qpos, 1e-4 * rng.standard_normal((400, 3)))
    motion = Motion(seen, ones, np.zeros((400, 0)), 0.0 * ones)
    found = estimate(plant, motion, SolverConfig(1e5))
    np.testing.assert_allclose(np.linalg.norm(found.solution.qpos, axis=1), 1.0, atol=1e-12)
    # noise of 1e-4 rad on motions of radians, 400 times: well below a percent
    np.testing.assert_allclose(found.theta, truth, rtol=0.01)
    assert found.knowledge == ('found',) * 3


def test_a_parameter_without_effect_stays_and_is_unexcited():
    plant = pendulums.pendulum_plant('viscous')
    still = np.zeros((200, 1))  # hanging at rest, neither inertia nor friction shows
    motion = Motion(still, np.ones_like(still), np.zeros((200, 0)), still)
    found = estimate(plant, motion, SolverConfig())
    np.testing.assert_array_equal(found.theta, plant.initial)
    assert found.knowledge == ('unexcited', 'unexcited')
    np.testing.assert_allclose(found.uncertainty.sd, plant.scales)
    assert found.uncertainty.directions.shape == (2, 2)


def test_states_between_observations_follow_the_dynamics():
    plant, motion = swing('viscous', steps=200, noise=0.0)
    weights = np.zeros_like(motion.weights)
    weights[::5] = 1.0  # a slow tracker
    start = np.zeros_like(motion.qpos)
    start[:] = np.interp(np.arange(200), np.arange(200)[::5], motion.qpos[::5, 0])[:, None]
    sparse = dataclasses.replace(motion, weights=weights)
    found = solver.solve(plant, sparse, SolverConfig(1e3, 60, 1e-12, 1e-9), start)
    np.testing.assert_allclose(found.theta, pendulums.PENDULUM_TRUTH[:2], rtol=1e-3)
    # no noise: the remaining error is that of the stopping criteria
    np.testing.assert_allclose(found.qpos[:196], motion.qpos[:196], atol=1e-4)


def test_a_motion_without_observations_is_an_error():
    plant, motion = swing('viscous')
    blind = dataclasses.replace(motion, weights=np.zeros_like(motion.weights))
    with pytest.raises(IdentificationError, match='nothing was observed: record positions'):
        solver.solve(plant, blind, SolverConfig())


def test_non_finite_residuals_are_an_error():
    plant, motion = swing('viscous')
    broken = motion.qpos.copy()
    broken[3] = np.nan
    with pytest.raises(IdentificationError, match='not finite: check its units'):
        solver.solve(plant, dataclasses.replace(motion, qpos=broken), SolverConfig())


def test_the_problem_of_several_recordings_is_the_sum_of_theirs():
    parts, weight = [drive(40), drive(25)], 5.0
    plant, motion = cart(), join(parts)
    assert motion.begins == (0, 40) and motion.parts == [slice(0, 40), slice(40, 65)]
    matrices, lacks = [], []
    for part in parts:
        matrix, base, x = matrix_of(plant, part, weight)
        matrices.append(matrix)
        lacks.append(base)
    states = scipy.linalg.block_diag(*(matrix[:, :-1] for matrix in matrices))
    matrix = np.column_stack([states, np.concatenate([matrix[:, -1] for matrix in matrices])])
    expected = np.linalg.lstsq(matrix, -np.concatenate(lacks))[0]
    found = solver.solve(plant, motion, SolverConfig(weight, 30, 1e-14, 1e-10))
    # as above: errors of derivatives, and of stopping
    assert found.theta[0] == pytest.approx(x[-1] + expected[-1], rel=1e-5)
    np.testing.assert_allclose(found.qpos, motion.qpos + expected[:-1, None], atol=1e-5)


def test_each_recording_has_its_own_noise():
    plant, parts, weight = cart(), [drive(200), drive(150, noise=0.05)], 5.0
    motion = join(parts)
    found = solver.solve(plant, motion, SolverConfig(weight))
    known = estimate_uncertainty(plant, motion, weight, found)
    for i, (part, rows) in enumerate(zip(parts, motion.parts, strict=True)):
        qpos = found.qpos[rows]
        left = residuals.evaluate(plant, part, weight, found.theta, qpos)
        alone = estimate_uncertainty(
            plant, part, weight, found._replace(qpos=qpos, residuals=left)
        )
        # the same sums, up to rounding
        np.testing.assert_allclose(known.observation_sd[i], alone.observation_sd[0], rtol=1e-9)
        np.testing.assert_allclose(known.impulse_sd[i], alone.impulse_sd[0], rtol=1e-9)

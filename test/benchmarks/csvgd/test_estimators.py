"""Estimators sample a posterior that is known: that of a weight on a spring, almost normal."""

import mujoco
import numpy as np
import pytest

from benchmarks.csvgd.estimators import ESTIMATORS, SamplerBudget
from benchmarks.csvgd.pendulums import noisy_problem
from benchmarks.csvgd.target import DEFECT_VARIANCE, SamplerTarget
from emppi_ros.identification.multiple_shooting.particles import evaluate
from emppi_ros.identification.multiple_shooting.training_data import LIMIT
from emppi_ros.model.parameters import Parameter

XML = """
<mujoco><option timestep="0.02" integrator="implicitfast" gravity="0 0 0"/>
  <worldbody><body name="weight"><joint name="slide" type="slide" axis="1 0 0" stiffness="1"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody></mujoco>"""
PARAMETERS = (
    Parameter('stiffness', 'jnt_stiffness', 'slide', 0, 1.0, 9.0, 'N/m'),
    Parameter('damping', 'dof_damping', 'slide', 0, 0.0, 4.0, 'N s/m'),
)
TRUTH, STEPS, WINDOWS = np.array([4.0, 1.0]), 60, 3
BUDGET = SamplerBudget(24, 60)


@pytest.fixture(scope='module')
def problem():
    model = mujoco.MjModel.from_xml_string(XML)
    start, controls = np.array([1.0, 0.0]), np.zeros((STEPS, 0))
    return noisy_problem(model, PARAMETERS, TRUTH, start, controls, 0.3, 3)


def exact(problem):
    """Return mean and covariance (2,), (2, 2) of the posterior on a grid, in coordinates."""
    target = SamplerTarget(problem, 1600, 1)
    axis = np.linspace(-LIMIT, LIMIT, 40)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    weight = np.exp((log_p := target.log_p(grid)) - log_p.max())
    mean = np.average(grid, axis=0, weights=weight)
    return mean, np.cov(grid.T, aweights=weight)


@pytest.mark.parametrize('windows', [1, WINDOWS])
def test_densities_with_and_without_slopes_agree_and_slopes_are_theirs(problem, windows):
    target = SamplerTarget(problem, 4, windows)
    z = target.start(4) + 0.05
    log_p, slopes = target.slopes(z)
    np.testing.assert_allclose(target.log_p(z), log_p, rtol=1e-9)
    step = 1e-5
    for column in range(target.dimension):
        up, down = z.copy(), z.copy()
        up[:, column] += step
        down[:, column] -= step
        difference = (target.log_p(up) - target.log_p(down)) / (2.0 * step)
        # forward differences of 1e-6, of densities whose derivatives are of order 1e2
        np.testing.assert_allclose(slopes[:, column], difference, rtol=1e-3, atol=1e-2)


def test_defects_count_as_a_normal_likelihood(problem):
    target = SamplerTarget(problem, 1, WINDOWS)
    z = target.start(1)
    now = evaluate(target._sloped, z)
    gap = now.defects[:, target.unknown :]
    # eq. 5
    assert target.log_p(z) == pytest.approx(
        now.log_p - 0.5 * np.sum(gap**2) / DEFECT_VARIANCE, rel=1e-12
    )
    z[0, 0] = LIMIT + 0.1
    assert target.log_p(z) == -np.inf


@pytest.mark.slow
@pytest.mark.parametrize('name', ['csvgd', 'emcee', 'nuts'])
def test_samplers_sample_the_posterior(problem, name):
    mean, covariance = exact(problem)
    sd = np.sqrt(np.diag(covariance))
    theta = ESTIMATORS[name](problem, BUDGET, 1, 0).theta
    z = problem.coordinates(theta)
    # 24 samples, some of them of a chain: four standard errors of a mean of ten
    assert np.all(np.abs(z.mean(axis=0) - mean) < 4.0 * sd / np.sqrt(10.0))
    assert np.all(np.abs(np.log(z.std(axis=0) / sd)) < np.log(2.0))


@pytest.mark.parametrize('windows', [1, WINDOWS])
@pytest.mark.parametrize('name', ESTIMATORS)
def test_all_return_particles_within_limits_for_the_same_physics_steps(problem, name, windows):
    budget = SamplerBudget(8, 10)
    theta, steps = ESTIMATORS[name](problem, budget, windows, 1)
    assert theta.shape == (8, 2)
    assert np.all(theta >= problem.limits[0]) and np.all(theta <= problem.limits[1])
    cost = SamplerTarget(problem, 1, windows).slope_cost
    allowed = budget.particles * budget.iterations * cost * STEPS
    # emcee evaluates its start, NUTS ends its last trajectory, CMA-ES may stop early
    assert steps <= 1.2 * allowed + 256 * cost * STEPS
    assert name in ('csvgd', 'cma-es') or steps >= 0.7 * allowed

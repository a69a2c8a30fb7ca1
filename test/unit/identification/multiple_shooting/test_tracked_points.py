"""Densities of particles from positions of points of a body alone, without joints."""

import dataclasses

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError, SceneError
from emppi_ros.identification.csvgd import csvgd
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    evaluate,
    initial_particles,
    log_likelihood,
)
from emppi_ros.identification.multiple_shooting.training_data import (
    ShootingProblem,
    TrackedPoints,
)
from emppi_ros.model.parameters import Parameter, with_parameters

XML = """
<mujoco><option timestep="0.01" integrator="implicitfast"/>
  <worldbody>
    <body name="rod"><joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <inertial pos="0 0 -0.3" mass="1" diaginertia="0.02 0.02 0.02"/>
      <site name="tip" pos="0 0 -0.6"/><site name="side" pos="0.2 0 0"/>
    </body>
  </worldbody>
</mujoco>"""
STEPS, TRUTH, NOISE = 60, np.array([-0.4, 0.3]), 1e-3  # m, N m s/rad; m
PARAMETERS = (
    Parameter('centre', 'body_ipos', 'rod', 2, -0.8, -0.1, 'm'),
    Parameter('damping', 'dof_damping', 'hinge', 0, 0.0, 1.0, 'N m s/rad'),
)


def problem(noise=0.0, **changes):
    """Return the problem of a falling rod whose points are measured before each step."""
    model = mujoco.MjModel.from_xml_string(XML)
    true = with_parameters(model, PARAMETERS, TRUTH)
    data, places, states = mujoco.MjData(true), [], []
    data.qpos[0] = 1.2
    for _ in range(STEPS):
        mujoco.mj_kinematics(true, data)
        places.append(data.site_xpos.copy())
        mujoco.mj_step(true, data)
        states.append([*data.qpos, *data.qvel])
    measured = np.array(places)
    measured += noise * np.random.default_rng(0).standard_normal(measured.shape)
    points = TrackedPoints(('side', 'tip'), measured[:, ::-1], NOISE)
    values = {
        'start': np.array([1.2, 0.0]), 'controls': np.zeros((STEPS, 0)),
        'references': np.array(states), 'noise': np.full(2, np.inf), 'points': points,
    }  # fmt: skip
    return ShootingProblem(model, PARAMETERS, **(values | changes))


def at_truth(made, windows):
    shooter = MultipleShooting(made, 1, windows, threads=1)
    z = initial_particles(shooter)
    z[:, :2] = made.coordinates(TRUTH)
    return shooter, z


@pytest.mark.parametrize('windows', [1, 3])
def test_the_truth_explains_points_without_an_error(windows):
    shooter, z = at_truth(problem(), windows)
    # rounding of 1e-16 m over a noise of 1e-3 m, squared
    assert abs(log_likelihood(shooter, z)[0]) < 1e-15
    assert np.abs(evaluate(shooter, z).defects).max() < 1e-12


@pytest.mark.parametrize('windows', [1, 3])
def test_the_score_is_the_derivative_of_the_density_of_points(windows):
    shooter, z = at_truth(problem(), windows)
    z += 0.02
    score, step = evaluate(shooter, z).score[0], 1e-5
    for column in range(shooter.size):
        up, down = z.copy(), z.copy()
        up[:, column] += step
        down[:, column] -= step
        slope = (log_likelihood(shooter, up) - log_likelihood(shooter, down))[0] / (2.0 * step)
        # the score is of forward differences of 1e-6 relative to a size of one
        assert score[column] == pytest.approx(slope, rel=1e-3, abs=0.1)


def test_hidden_points_do_not_count():
    whole = problem()
    far = whole.points.positions.copy()
    far[10:20, 1] += 1.0
    hidden = far.copy()
    hidden[10:20, 1] = np.nan
    values = [
        log_likelihood(*at_truth(problem(points=whole.points._replace(positions=places)), 1))[0]
        for places in (far, hidden)
    ]
    # ten samples of three numbers that are 1 m off
    assert values[0] == pytest.approx(-0.5 * 30 / NOISE**2)
    assert abs(values[1]) < 1e-15


def test_points_that_do_not_fit_are_refused():
    points = problem().points
    with pytest.raises(SceneError, match="site 'tap'.*tip"):
        problem(points=points._replace(sites=('side', 'tap')))
    with pytest.raises(IdentificationError, match=r'found positions \(59, 2, 3\).*\(60, 2, 3\)'):
        problem(points=points._replace(positions=points.positions[1:]))
    with pytest.raises(IdentificationError, match='noise 0 m'):
        problem(points=points._replace(noise=0.0))


def test_csvgd_learns_from_points_alone():
    made = problem(NOISE)
    blind = dataclasses.replace(made, references=np.zeros_like(made.references))
    settings = csvgd.CsvgdConfig(particles=20, iterations=40)
    theta = csvgd.infer(blind, settings, threads=1).theta
    # 20 draws: the mean is within five standard deviations of the exact posterior
    exact = evaluate(*at_truth(made, 1)).curvature[0]
    sd = np.sqrt(np.diag(np.linalg.inv(exact)))
    errors = made.coordinates(theta.mean(axis=0)) - made.coordinates(TRUTH)
    assert np.all(np.abs(errors) < 5.0 * sd)
    assert np.all(made.coordinates(theta).std(axis=0) < 2.0 * sd)

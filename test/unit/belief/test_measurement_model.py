"""Predictions, their errors and their likelihood, against exact solutions and references."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
import scipy.stats

from emppi_ros.belief import measurement_model
from emppi_ros.belief.measurement_model import Predictor, residuals
from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.ensemble import State
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.schema import LikelihoodConfig
from emppi_ros.tasks.task import load_task

M = 6
ALL = LikelihoodConfig(0.02, 0.1, 0.004, 0.03)


def _random(model, rng, count=None):
    shape = () if count is None else (count,)
    qpos = model.qpos0 + rng.normal(0.0, 0.02, (*shape, model.nq))
    for row in np.atleast_2d(qpos):
        mujoco.mj_normalizeQuat(model, row)
    return State(qpos, rng.normal(0.0, 0.1, (*shape, model.nv)))


def _wxyz(rotation):
    x, y, z, w = rotation.as_quat()
    return [w, x, y, z]


def _scipy(qpos):
    return Rotation.from_quat(qpos[[5, 6, 7, 4]])


def log_likelihoods(config, model, predicted, *measured):
    found = measurement_model.deviations(config, model, predicted, *measured)
    return measurement_model.log_likelihoods(config, predicted, found)


def test_differences_of_log_likelihoods_are_those_of_normal_densities(block, rng):
    predicted, measured = _random(block, rng, M), _random(block, rng)
    ours = log_likelihoods(ALL, block, predicted, measured).sum(axis=1)
    expected = np.zeros(M)
    for m in range(M):
        turn = (_scipy(measured.qpos).inv() * _scipy(predicted.qpos[m])).as_rotvec()
        for values, sd in (
            (predicted.qpos[m, :1] - measured.qpos[:1], 0.02),
            (predicted.qvel[m, :1] - measured.qvel[:1], 0.1),
            (predicted.qpos[m, 1:4] - measured.qpos[1:4], 0.004),
            (turn, 0.03),
        ):
            expected[m] += scipy.stats.norm(0.0, sd).logpdf(values).sum()
    # exponents up to 1e3 from differences that are rounded at 1e-16 of 0.004: 1e-10 at the worst
    np.testing.assert_allclose(np.diff(ours), np.diff(expected), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    'name', ['joint_position_sd', 'joint_velocity_sd', 'object_position_sd_m']
)
def test_what_is_null_does_not_count(block, rng, name):
    predicted, measured = _random(block, rng, M), _random(block, rng)
    only = LikelihoodConfig(**{name: 0.1})
    value = log_likelihoods(only, block, predicted, measured).sum(axis=1)
    column = {
        'joint_position_sd': predicted.qpos[:, :1] - measured.qpos[:1],
        'joint_velocity_sd': predicted.qvel[:, :1] - measured.qvel[:1],
        'object_position_sd_m': predicted.qpos[:, 1:4] - measured.qpos[1:4],
    }[name]
    np.testing.assert_allclose(value, -0.5 * np.sum((column / 0.1) ** 2, axis=1), rtol=1e-12)


@given(st.integers(0, 10_000))
def test_rotations_are_compared_in_tangent_space_whatever_the_sign_of_quaternions(seed):
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><freejoint/><geom size="1"/></body></worldbody></mujoco>'
    )
    rng = np.random.default_rng(seed)
    measured = Rotation.random(random_state=rng)
    turn = rng.normal(0.0, 0.8, 3)  # below pi, where a rotation vector is unique, for these seeds
    turn *= min(1.0, 3.0 / np.linalg.norm(turn))
    predicted = measured * Rotation.from_rotvec(turn)
    qpos = np.array([[0, 0, 0, *_wxyz(predicted)], [0, 0, 0, *_wxyz(predicted)]])
    qpos[1, 3:] *= -1.0
    zero = np.zeros((2, 6))
    for sign in (1.0, -1.0):
        here = State(np.array([0, 0, 0, *(sign * np.array(_wxyz(measured)))]), zero[0])
        difference = residuals(model, State(qpos, zero), here)[:, 3:]
        # near a half turn the angle's sine loses half of the digits
        np.testing.assert_allclose(difference, [turn, turn], rtol=0, atol=1e-7)


@pytest.mark.parametrize('config', [ALL, LikelihoodConfig(joint_velocity_sd=0.1)])
@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('where', [('qpos', 0), ('qpos', 2), ('qvel', 0), ('qvel', 3)])
def test_a_prediction_that_is_not_finite_is_impossible_and_touches_no_other(
    block, rng, config, bad, where
):
    predicted, measured = _random(block, rng, M), _random(block, rng)
    before = log_likelihoods(config, block, predicted, measured).sum(axis=1)
    getattr(predicted, where[0])[3, where[1]] = bad
    value = log_likelihoods(config, block, predicted, measured).sum(axis=1)
    assert value[3] == -np.inf
    assert np.array_equal(np.delete(value, 3), np.delete(before, 3))


def test_a_likelihood_that_compares_nothing_is_an_error():
    with pytest.raises(ConfigError, match='joint_position_sd, .*nothing to compare'):
        LikelihoodConfig()


def test_students_t_is_its_density_and_a_gaussian_in_the_limit(rng):
    x = rng.normal(0.0, 5.0, 50)
    for dof in (1.0, 3.5):
        ours = measurement_model.log_density(x, dof)
        expected = scipy.stats.t(dof).logpdf(x)
        # logarithms of order 10, rounded a few times
        np.testing.assert_allclose(ours - ours[0], expected - expected[0], rtol=0, atol=1e-13)
    near = measurement_model.log_density(x, 1e9)
    # the next term of the logarithm is x^4 / 4 dof, and x^2 / 2 dof: 1e-4 of numbers up to 200
    np.testing.assert_allclose(near, -0.5 * x**2, rtol=0, atol=1e-4)


def test_what_degrees_of_freedom_say_adds_up(block, rng):
    predicted, measured = _random(block, rng, M), _random(block, rng)
    parts = log_likelihoods(ALL, block, predicted, measured)
    assert parts.shape == (M, block.nv)
    moved = State(predicted.qpos.copy(), predicted.qvel.copy())
    moved.qpos[:, 2] += 0.01  # the block's y: the second of its dofs, the third of all
    changed = log_likelihoods(ALL, block, moved, measured) - parts
    assert np.all(changed[:, 2] != 0.0) and np.all(np.delete(changed, 2, axis=1) == 0.0)


def test_a_jointed_body_is_judged_by_its_pose_and_not_by_its_joint(two_link, rng):
    predicted, measured = _random(two_link, rng, M), _random(two_link, rng)
    position, rotation = rng.normal(0.0, 0.01, (M, 3)), rng.normal(0.0, 0.02, (M, 3))
    config = LikelihoodConfig(joint_position_sd=0.02, object_position_sd_m=0.004)
    parts = log_likelihoods(config, two_link, predicted, measured, {1: (position, rotation)})
    expected = -0.5 * np.sum((position / 0.004) ** 2, axis=1)
    np.testing.assert_allclose(
        parts[:, 1], expected
    )  # the elbow's own position counts for nothing
    alone = log_likelihoods(config, two_link, predicted, measured)
    assert np.array_equal(parts[:, 0], alone[:, 0])


DT = 0.02


def _filter(gain, joint_gain=1.0):
    task = load_task('panda_push')
    task.belief = dataclasses.replace(
        task.belief, object_gain=gain, joint_gain=joint_gain, particles=3
    )
    return task, ParticleFilter(task, np.random.default_rng(0))


def _moved(task, state, shift, turn):
    """Return the state with the block shifted, and turned about the vertical."""
    place = task.objects['block'].qpos
    qpos = state.qpos.copy()
    qpos[place : place + 3] += shift
    x, y, z, w = Rotation.from_rotvec([0.0, 0.0, turn]).as_quat()
    qpos[place + 3 : place + 7] = [w, x, y, z]
    return State(qpos, state.qvel)


def _particles(state, count=3):
    return State(np.tile(state.qpos, (count, 1)), np.tile(state.qvel, (count, 1)))


@pytest.mark.parametrize('gain', [0.1, 0.5, 0.9])
def test_the_gain_is_the_share_of_the_way_in_position_and_rotation(gain):
    task, filter_ = _filter(gain)
    start, shift, turn = task.start(), np.array([0.01, -0.02, 0.0]), 0.3
    measured = _moved(task, start, shift, turn)
    after = filter_._predictor.correct(
        _particles(start), Observation(measured, measured, {}), measured, DT
    )
    block = task.objects['block']
    wanted = _moved(task, start, gain * shift, gain * turn)
    # two rotations composed in double precision
    np.testing.assert_allclose(after.qpos, np.tile(wanted.qpos, (3, 1)), atol=1e-12)
    # Benedict and Bordner's velocity gain, of the same innovation
    velocity = gain**2 / (2.0 - gain) * shift / DT
    np.testing.assert_allclose(
        after.qvel[:, block.qvel : block.qvel + 3], np.tile(velocity, (3, 1)), atol=1e-12
    )


def test_a_gain_of_one_is_the_papers_start_from_the_estimate():
    task, filter_ = _filter(1.0)
    estimated = _moved(task, task.start(), [0.1, 0.0, 0.0], 0.2)
    after = filter_._predictor.correct(
        _particles(task.start()), Observation(estimated, estimated, {}), estimated, DT
    )
    np.testing.assert_array_equal(after.qpos, np.tile(estimated.qpos, (3, 1)))


def test_the_joint_gain_is_the_share_of_the_way_to_the_measured_joints():
    task, filter_ = _filter(0.2, joint_gain=0.3)
    measured = task.start()
    measured.qpos[task.map.qpos] += 0.1
    measured.qvel[task.map.qvel] -= 1.0
    after = filter_._predictor.correct(
        _particles(task.start()), Observation(measured, measured, {}), measured, DT
    )
    expected = task.start()
    np.testing.assert_allclose(
        after.qpos[:, task.map.qpos] - expected.qpos[task.map.qpos], 0.03, atol=1e-12
    )
    np.testing.assert_allclose(
        after.qvel[:, task.map.qvel] - expected.qvel[task.map.qvel], -0.3, atol=1e-12
    )


def test_with_a_joint_gain_of_one_joints_are_as_measured_and_a_diverged_particle_starts_again():
    task, filter_ = _filter(0.2)
    estimated = task.start()
    estimated.qpos[task.map.qpos] += 0.1
    predicted = _particles(task.start())
    predicted.qpos[1] = np.nan
    after = filter_._predictor.correct(
        predicted, Observation(estimated, estimated, {}), estimated, DT
    )
    assert np.all(after.qpos[:, task.map.qpos] == estimated.qpos[task.map.qpos])
    np.testing.assert_array_equal(after.qpos[1], estimated.qpos)


def test_one_fine_prediction_corrects_the_joints_of_all_particles(rng):
    task = load_task('fr3_follow')
    draws = task.prior.sample(8, rng)
    theta = draws[0] + 0.1 * (draws - draws[0])  # a belief of a tenth of the prior's width
    commands = TimeSeries('commands')
    for stamp in (0.0, 0.1):
        commands.append(stamp, np.full(task.model.nu, 0.3))
    start = task.start()

    def velocities(typical, substep_s, fine_substep_s=None):
        task.belief = dataclasses.replace(
            task.belief, substep_s=substep_s, fine_substep_s=fine_substep_s
        )
        predictor = Predictor(task, len(theta), 1, fine=True)
        predictor.write(theta)
        return predictor.predict((0.0, start), 0.02, commands, typical).qvel

    coarse, exact = velocities(0, 0.0025), velocities(0, 0.0005)
    corrected = velocities(0, 0.0025, 0.0005)
    # the same operations for the particle that is predicted finely
    np.testing.assert_allclose(corrected[0], exact[0], rtol=0, atol=1e-9)
    # the error depends on the parameters, but a tenth of the prior's width changes it little
    assert np.abs(corrected - exact).max() < 0.2 * np.abs(coarse - exact).max()
    assert np.array_equal(velocities(None, 0.0025, 0.0005), coarse)

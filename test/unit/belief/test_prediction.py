"""A particle's object stays where its physics brought it, moved a share of the way to the pose."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.belief.measurement_model import Predictor
from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.model.ensemble import State
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.task import load_task

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

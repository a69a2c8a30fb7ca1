"""A door's estimated opening is that of the joint in which the belief believes."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.pose import Pose
from emppi_ros.model import parameters as registry
from emppi_ros.priors.particles import Belief
from emppi_ros.state.estimated_scene import EstimatedScene
from emppi_ros.state.estimator import Estimator
from emppi_ros.tasks.task import load_task

DRAWER = np.array([1.0, 0.02, -0.05, 0.0, 0.0, 0.0])  # axis and pivot
DOOR = np.array([0.03, -0.02, 1.0, 0.01, -0.2, 0.0])
ANGLE = 0.4  # rad: the handle moves 8 cm


@pytest.fixture(scope='module')
def task():
    return load_task('panda_cabinet')


@pytest.fixture(scope='module')
def opened(task):
    """Return an estimator that has seen the handle of an opened door, and its true model."""
    model = registry.with_parameters(task.model, task.parameters, DOOR)
    data, item = mujoco.MjData(model), task.jointed['handle']
    data.qpos[:] = task.start().qpos
    data.qpos[item.qpos] = ANGLE
    mujoco.mj_kinematics(model, data)
    estimator = Estimator(task)
    home = np.array(task.robot.home)
    for stamp in (0.0, 0.01):
        estimator.add_joints(stamp, home, np.zeros_like(home))
        estimator.add_pose(
            'handle', stamp, Pose(data.xpos[item.body].copy(), data.xquat[item.body].copy())
        )
    return estimator, data


def _belief(*share):
    """Return a belief from pairs of parameters and their number of particles."""
    theta = np.concatenate([np.tile(row, (count, 1)) for row, count in share])
    return Belief(theta, np.full(len(theta), -np.log(len(theta))))


def _scene(task, estimator, belief):
    scene = EstimatedScene(task)
    data = scene.update(estimator.state(0.01), estimator.tracks(0.01), belief)
    return data, task.error(scene.model, data)


@pytest.mark.parametrize('sign', [1.0, -1.0])
def test_a_door_is_open_for_a_belief_in_a_door(task, opened, sign):
    estimator, true = opened
    door = DOOR * np.array([sign, sign, sign, 1.0, 1.0, 1.0])  # the same joint, turned over
    data, error = _scene(task, estimator, _belief((door, 6), (DRAWER, 4)))
    item = task.jointed['handle']
    # up to the rounding of a fit in closed form
    assert data.qpos[item.qpos] == pytest.approx(sign * ANGLE, abs=1e-6)
    assert data.xpos[item.body] == pytest.approx(true.xpos[item.body], abs=1e-6)
    assert error == 0.0


def test_it_is_not_open_for_a_belief_in_a_drawer_or_without_a_belief(task, opened):
    estimator, true = opened
    moved = np.linalg.norm(true.xpos[task.jointed['handle'].body] - [0.58, 0.0, 0.2])
    for belief in (_belief((DOOR, 4), (DRAWER, 6)), None):
        _, error = _scene(task, estimator, belief)
        assert 0.2 - moved < error < 0.2


@pytest.mark.parametrize('lost', ['belief', 'track'])
def test_a_joint_is_again_that_of_the_scene_when_its_belief_or_track_is_lost(task, opened, lost):
    estimator, _ = opened
    state, tracks = estimator.state(0.01), estimator.tracks(0.01)
    scene, belief = EstimatedScene(task), _belief((DOOR, 1))
    left = (tracks, None) if lost == 'belief' else ({}, belief)
    expected = EstimatedScene(task).update(state, *left).xpos.copy()
    assert not np.array_equal(scene.update(state, tracks, belief).xpos, expected)
    assert np.array_equal(scene.update(state, *left).xpos, expected)


def test_what_is_not_uncertain_is_as_estimated():
    task = load_task('panda_push')
    state = task.start()
    data = EstimatedScene(task).update(state, {}, None)
    reference = mujoco.MjData(task.model)
    reference.qpos[:] = state.qpos
    mujoco.mj_forward(task.model, reference)
    assert np.array_equal(data.xpos, reference.xpos)

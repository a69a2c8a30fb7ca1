"""The frames of a scene place every link of its description, and the axes that are believed."""

import xml.etree.ElementTree as ET

import mujoco
import numpy as np
import pytest

from emppi_ros.core import paths
from emppi_ros.core.pose import Pose
from emppi_ros.model import scene
from emppi_ros.model.parameters import with_parameters
from emppi_ros.priors.particles import Belief, uniform
from emppi_ros.robots import urdf_check
from emppi_ros.state import tracking
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.scene_frames import SceneFrames

TASKS = sorted(path.stem for path in (paths.share() / 'config' / 'tasks').glob('*.yaml'))
ROUNDING = 1e-9  # of some ten products of rotations


def tracks_at_start(task):
    """Return a track of each object at its pose in the start state."""
    data = mujoco.MjData(task.model)
    data.qpos[:] = task.start().qpos
    mujoco.mj_kinematics(task.model, data)
    bodies = {name: item.body(task.model) for name, item in task.objects.items()}
    bodies |= {name: item.body for name, item in task.jointed.items()}
    return data, {
        name: tracking.start(task.tracked[name], 0.0, Pose(data.xpos[body], data.xquat[body]))
        for name, body in bodies.items()
    }


@pytest.mark.parametrize('name', TASKS)
def test_every_link_of_the_description_has_one_frame_where_its_body_is(name):
    task = load_task(name)
    made = SceneFrames(task)
    root = ET.fromstring(made.description())
    data, tracks = tracks_at_start(task)
    frames = [*made.links(data.qpos[task.map.qpos]), *made.objects(tracks)]
    names = [frame.name for frame in frames]
    assert sorted([task.robot.frame, *names]) == sorted(
        link.get('name') for link in root.findall('link')
    )
    parents = {joint.find('child').get('link'): joint for joint in root.findall('joint')}
    by_name = {frame.name: frame for frame in frames}
    for frame in frames:
        assert frame.parent == parents[frame.name].find('parent').get('link')
        body = mujoco.mj_name2id(task.model, mujoco.mjtObj.mjOBJ_BODY, frame.name)
        if body < 0:
            continue  # inserted between two joints of a body
        pose, parent = frame.pose, frame.parent
        while parent in by_name:
            pose, parent = by_name[parent].pose @ pose, by_name[parent].parent
        np.testing.assert_allclose(pose.position, data.xpos[body], atol=ROUNDING)
        assert abs(pose.quaternion @ data.xquat[body]) > 1.0 - ROUNDING


@pytest.mark.parametrize('name', TASKS)
def test_the_description_agrees_with_the_robots_yaml(name):
    task = load_task(name)
    found = urdf_check.check(task.robot, SceneFrames(task).description())
    assert not found.problems and not found.tighter


@pytest.fixture(scope='module')
def drawer():
    return load_task('panda_drawer')


SLIDE = [1.0, 0.1, -0.2, 0.0, 0.0, 0.0]
HINGE = [0.1, 0.2, -1.5, 0.05, -0.2, 0.03]


def turned_z(frame):
    z = np.empty(3)
    mujoco.mju_rotVecQuat(z, np.array([0.0, 0.0, 1.0]), frame.pose.quaternion)
    return z


@pytest.mark.parametrize(('name', 'theta'), [('handle_slide', SLIDE), ('handle_hinge', HINGE)])
def test_the_frame_of_an_axis_lies_where_mujoco_has_the_axis(drawer, name, theta):
    model = with_parameters(drawer.model, drawer.parameters, np.array(theta))
    data = scene.kinematics(model, np.zeros(model.nq))
    joint = model.joint('handle').id
    (frame,) = SceneFrames(drawer, 'left/').axes(uniform(np.array([theta, theta])))
    assert (frame.name, frame.parent) == (f'left/{name}', 'panda_link0')
    np.testing.assert_allclose(np.abs(turned_z(frame) @ data.xaxis[joint]), 1.0, atol=ROUNDING)
    if name == 'handle_hinge':
        np.testing.assert_allclose(frame.pose.position, data.xanchor[joint], atol=ROUNDING)


def test_each_probable_kind_has_a_frame_and_opposite_axes_are_one(drawer):
    opposite = [-x for x in HINGE[:3]] + HINGE[3:]
    theta = np.array([SLIDE, HINGE, opposite])
    even = SceneFrames(drawer).axes(Belief(theta, np.log([0.4, 0.3, 0.3])))
    assert [frame.name for frame in even] == ['handle_slide', 'handle_hinge']
    (alone,) = SceneFrames(drawer).axes(uniform(np.array([HINGE])))
    np.testing.assert_allclose(abs(turned_z(even[1]) @ turned_z(alone)), 1.0, atol=ROUNDING)
    (only,) = SceneFrames(drawer).axes(Belief(theta, np.log([0.004, 0.498, 0.498])))
    assert only.name == 'handle_hinge'


def test_a_task_that_knows_its_joints_has_no_frames_of_axes():
    task = load_task('panda_push')
    theta = np.ones((1, len(task.parameters)))
    assert SceneFrames(task).axes(uniform(theta)) == []

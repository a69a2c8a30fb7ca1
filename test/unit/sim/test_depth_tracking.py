"""Poses from simulated depth images: near the true ones, reproducible, and enough for a push."""

import mujoco
import numpy as np
import pytest

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.model.parameters import with_parameters
from emppi_ros.sim.depth_camera import DepthTracking
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.tasks.task import Task, load_task
from emppi_ros.tracking.camera import Camera
from emppi_ros.viz.renderer import depth_camera

TRUTH = np.array([0.25, 0.4])  # mass and friction of the block


@pytest.fixture
def task() -> Task:
    """Return the push."""
    return load_task('panda_push')


@pytest.fixture
def view(task: Task) -> Camera:
    """Return the camera of its videos."""
    return depth_camera(task, task.visual_model())


@pytest.mark.slow
def test_poses_are_near_the_true_ones_and_the_same_again(task: Task, view: Camera) -> None:
    qpos = task.start().qpos.copy()
    item = task.objects['block']
    found = []
    for _ in range(2):
        tracking, poses = DepthTracking(task, view, seed=3), []
        for i in range(4):  # the block slides by 1 cm an image
            qpos[item.qpos] = task.start().qpos[item.qpos] + 0.01 * i
            poses.append(tracking.measure(0.04 * i, qpos, TRUTH)['block'])
        found.append(poses)
    for i, (one, again) in enumerate(zip(*found, strict=True)):
        true = task.start().qpos[item.qpos : item.qpos + 3] + [0.01 * i, 0.0, 0.0]
        # five of the 0.9 mm that `emppi bench track` finds in 95 % of images
        assert np.linalg.norm(one.position - true) < 5e-3
        assert np.array_equal(one.position, again.position)
        assert np.array_equal(one.quaternion, again.quaternion)


@pytest.mark.slow
def test_an_object_that_is_put_back_is_found_again(task: Task, view: Camera) -> None:
    tracking, item = DepthTracking(task, view, seed=3), task.objects['block']
    away, back = task.start().qpos.copy(), task.start().qpos
    away[item.qpos : item.qpos + 2] += [0.2, -0.15]
    away[item.qpos + 3 : item.qpos + 7] = [np.cos(0.5), 0.0, 0.0, np.sin(0.5)]  # 57 degrees
    # it is searched within what it may have moved, at 1 m/s
    for i, qpos in enumerate([away, away, *[back] * 5]):
        found = tracking.measure(0.04 * i, qpos, TRUTH)
    true = back[item.qpos : item.qpos + 3]
    # five of the 0.9 mm that `emppi bench track` finds in 95 % of images
    assert np.linalg.norm(found['block'].position - true) < 5e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ('name', 'truth'),
    [
        ('panda_drawer', [1.0, 0.1, -0.1, 0.0, 0.0, 0.0]),
        ('panda_cabinet', [0.1, -0.1, 1.0, -0.04, 0.2, 0.0]),
    ],
)
def test_a_thin_handle_is_tracked_on_its_true_joint(name: str, truth: list[float]) -> None:
    task = load_task(name)
    model = with_parameters(task.model, task.parameters, np.array(truth))
    data, item = mujoco.MjData(model), task.jointed['handle']
    tracking = DepthTracking(task, depth_camera(task, task.visual_model()), seed=3)
    data.qpos[:] = task.start().qpos
    for i in range(4):  # m or rad: up to 4 cm an image
        data.qpos[item.qpos] = 0.02 * i * (i + 1)
        mujoco.mj_kinematics(model, data)
        pose = tracking.measure(0.04 * i, data.qpos, np.array(truth))['handle']
        # ten of the 0.2 mm and 0.3 degrees that the covariances say
        assert np.linalg.norm(pose.position - data.xpos[item.body]) < 2e-3
        assert abs(pose.quaternion @ data.xquat[item.body]) > np.cos(np.radians(3.0) / 2)


def test_the_tracker_works_at_the_rate_of_the_camera(task: Task, view: Camera) -> None:
    robot = SimulatedRobot(task, TRUTH, 0, view)
    stamps = []
    while robot.time < 0.3:
        robot.step()
        stamps += [reading.stamp for reading in robot.read_poses()]
    rate = task.simulation.depth_camera.rate_hz
    assert len(stamps) >= 3
    np.testing.assert_allclose(np.diff(stamps), 1.0 / rate, atol=task.simulation.timestep_s)


@pytest.mark.slow
def test_a_push_succeeds_with_depth_images(task: Task, view: Camera) -> None:
    loop = ClosedLoop(task, 1, view=view)
    loop.run()
    assert loop.trace.success

"""An object that is to begin where the robot stands begins beside it, and throws nothing."""

import mujoco
import numpy as np
import pytest

from emppi_ros.sim.object_placement import put_beside
from emppi_ros.sim.simulated_robot import SimulatedRobot, draw_truth
from emppi_ros.tasks.task import load_task


def scene(name):
    task = load_task(name)
    robot = SimulatedRobot(task, draw_truth(task, 0), 0)
    return task, robot, task.objects['block']


@pytest.mark.parametrize('name', ['panda_push', 'panda_reconfigure'])
def test_what_is_in_nobodys_way_stays(name):
    _, robot, item = scene(name)
    before = robot.data.qpos.copy()
    put_beside(robot.model, robot.data, item)
    assert np.array_equal(robot.data.qpos, before)


@pytest.mark.parametrize('name', ['panda_push', 'panda_reconfigure'])
def test_what_overlaps_with_the_arm_is_moved_aside_and_the_arm_stays(name):
    task, robot, item = scene(name)
    tool = robot.data.site('gripper').xpos.copy()
    robot.data.qpos[item.qpos : item.qpos + 3] = tool
    mujoco.mj_forward(robot.model, robot.data)
    arm = robot.data.qpos[task.map.qpos].copy()
    put_beside(robot.model, robot.data, item)
    moved = robot.data.qpos[item.qpos : item.qpos + 3] - tool
    assert moved[2] == 0.0 and 0.0 < np.linalg.norm(moved) <= 0.4 + 1e-9  # rounding
    for _ in range(100):
        robot.step()
    # servos sag by far less than 0.02 rad in 0.1 s; an overlap throws the arm by more
    np.testing.assert_allclose(robot.data.qpos[task.map.qpos], arm, atol=0.02)

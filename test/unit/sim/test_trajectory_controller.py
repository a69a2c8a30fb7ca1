"""The stand-in for a controller: no jumps, and rest at the end."""

import numpy as np

from emppi_ros.bridge import stop_trajectory
from emppi_ros.bridge.joint_trajectory import MotionState
from emppi_ros.robots.robot import load_robot
from emppi_ros.sim.trajectory_controller import TrajectoryController

PANDA = load_robot('panda')
HOME = np.array(PANDA.home)


def _trajectory(speed, position=HOME):
    return stop_trajectory.build(
        PANDA, MotionState(position, np.full(7, speed), np.zeros(7)), 0.02, 0.06
    )


def test_without_a_trajectory_it_holds():
    controller = TrajectoryController(HOME)
    assert not np.any(controller.velocity(3.0))


def test_after_the_last_point_it_rests_there():
    controller, made = TrajectoryController(HOME), _trajectory(0.5)
    controller.accept(made, 1.0)
    np.testing.assert_allclose(controller.velocity(1.02), 0.5)
    assert not np.any(controller.velocity(9.0))


def test_a_newer_trajectory_takes_over_without_a_step():
    controller = TrajectoryController(HOME)
    controller.accept(_trajectory(0.2, HOME + 0.002), 0.0)
    before = controller.desired(0.03)
    controller.accept(_trajectory(0.3, before.position + 0.005), 0.03)
    np.testing.assert_allclose(controller.desired(0.03), before, atol=1e-12)
    np.testing.assert_allclose(controller.desired(0.05).velocity, 0.3)

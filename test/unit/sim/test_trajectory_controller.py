"""The stand-in for a joint_trajectory_controller does what the real one did."""

import math
from pathlib import Path

import numpy as np
import pytest

from emppi_ros.bridge import joint_trajectory, stop_trajectory
from emppi_ros.bridge.joint_trajectory import MotionState, Trajectory
from emppi_ros.robots.robot import load_robot
from emppi_ros.sim.trajectory_controller import TrajectoryController

PANDA = load_robot('panda')
HOME = np.array(PANDA.home)
PERIOD = 0.002
DATA = Path(__file__).resolve().parents[2] / 'data' / 'joint_trajectory_controller.npz'
CASES = 'stamped', 'unstamped', 'future', 'scaling', 'activation', 'late'


def recorded(case):
    """Return the series of a case by name, and its trajectories by the update that takes them."""
    with np.load(DATA) as data:
        series = {
            name: data[f'{case}/{name}']
            for name in ('time', 'reference', 'output', 'feedback', 'scaling')
        }
        accepted = {}
        names = [name for name in data if name.startswith(f'{case}/')]
        for number in range(sum(name.endswith('/accepted') for name in names)):
            update, start = data[f'{case}/{number}/accepted']
            times, *rows = data[f'{case}/{number}']
            accepted[int(update)] = Trajectory(times, *(row[:, None] for row in rows)), start
    return series, accepted


@pytest.mark.parametrize('case', CASES)
def test_it_commands_what_a_real_controller_commanded(case):
    series, accepted = recorded(case)
    controller = TrajectoryController(series['output'][:1], PERIOD)
    commanded, reference, last = [], [], -math.inf
    for k, (time, feedback) in enumerate(zip(series['time'], series['feedback'], strict=True)):
        if time - last > 0.05:  # it sends no states while it is not active
            controller.activate(np.array([feedback]))
        if k in accepted:
            controller.accept(*accepted[k])
        command = controller.update(time, np.array([feedback]), series['scaling'][k])
        commanded.append(command.position[0])
        reference.append(controller.reference.position[0])
        last = time
    # at up to 0.4 rad/s: stamps of the system clock are 10 us off the controller's own, once
    np.testing.assert_allclose(reference, series['reference'], rtol=0, atol=5e-6)
    if case != 'late':  # controller_manager limits the velocity of a step
        np.testing.assert_allclose(commanded, series['output'], rtol=0, atol=5e-6)


def test_a_trajectory_without_a_stamp_makes_it_move_at_twice_the_speed_for_a_cycle():
    controller = TrajectoryController(np.zeros(1), PERIOD)
    speed = np.array([[0.3], [0.3], [0.0]])
    places = np.array([[0.0], [0.3], [0.35]])
    cruise = Trajectory(np.array([0.0, 1.0, 1.3]), places, speed, np.zeros((3, 1)))
    controller.accept(cruise, 0.0)
    command = [controller.update(k * PERIOD, np.zeros(1)).position[0] for k in range(100)]
    controller.accept(Trajectory(*(row[1:] for row in cruise)))
    command += [controller.update(k * PERIOD, np.zeros(1)).position[0] for k in range(100, 110)]
    speeds = np.diff(command) / PERIOD
    assert speeds[98] == pytest.approx(0.3, rel=1e-9)
    assert speeds[99] == pytest.approx(0.6, rel=0.01)
    assert speeds[100] == pytest.approx(0.3, rel=0.01)


def test_without_a_trajectory_it_holds_and_after_one_it_rests_at_its_end():
    controller = TrajectoryController(HOME, PERIOD)
    np.testing.assert_array_equal(controller.update(3.0, HOME).position, HOME)
    state = MotionState(HOME, np.full(7, 0.5), np.zeros(7))
    made = stop_trajectory.build(PANDA, state, 0.02, 0.06)
    controller.accept(made, 4.0)
    controller.update(4.02, HOME)
    np.testing.assert_allclose(controller.reference.velocity, 0.5)
    rest = controller.update(9.0, HOME)
    np.testing.assert_array_equal(rest, joint_trajectory.at_rest(made.positions[-1]))


def test_after_the_command_timeout_it_holds_the_measured_position():
    controller, off = TrajectoryController(HOME, PERIOD, cmd_timeout_s=0.3), HOME + 0.005
    made = stop_trajectory.build(PANDA, joint_trajectory.at_rest(HOME), 0.02, 0.06)
    controller.accept(made, 0.0)
    for time in np.arange(0.0, made.end + 0.29, PERIOD):
        np.testing.assert_allclose(controller.update(time, off).position, HOME)
    controller.update(made.end + 0.301, off)  # a step, where the arm has an offset
    np.testing.assert_array_equal(controller.command.position, off)

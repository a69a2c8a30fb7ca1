"""Joints that turn without end: no limits, no jump where a driver wraps them."""

import numpy as np
import pytest

from emppi_ros.bridge import monitors
from emppi_ros.bridge.commander import BridgeConfig, Commander
from emppi_ros.bridge.monitors import Measurement, MonitorConfig, MonitorState
from emppi_ros.core import config
from emppi_ros.robots import continuous_joints, urdf_check
from emppi_ros.robots.plan import Plan
from emppi_ros.robots.robot import Robot


def _robot(command='velocity', home=(0.0, 3.0)):
    return config.build(
        Robot,
        {
            'name': 'r',
            'joints': ['lift', 'turn'],
            'commanded': ['lift', 'turn'],
            'command': command,
            'home': list(home),
            'limits': {
                'position': {'lower': [-2.0, -np.inf], 'upper': [2.0, np.inf]},
                'velocity': [1.0, 1.0],
                'acceleration': [4.0, 4.0],
            },
        },
        'robot.yaml',
    )


def _wrapped(turn):
    return (turn + np.pi) % (2 * np.pi) - np.pi


def test_infinite_limits_are_those_of_a_continuous_joint():
    robot = _robot()
    assert robot.continuous.tolist() == [1]
    assert np.isfinite(robot.control_limits(0.1).upper).all()


def test_a_wrap_is_no_jump_and_a_jump_is_one():
    robot, state = _robot(), MonitorState()
    turns = 3.0 + 0.9 * 0.01 * np.arange(100)  # over pi
    for i, turn in enumerate(turns):
        position = np.array([0.0, _wrapped(turn)])
        sent = Measurement(10.0 + 0.01 * i, 10.0 + 0.01 * i, position, np.array([0.0, 0.9]))
        state = monitors.measure(MonitorConfig(), robot, state, sent)
        assert state.fault is None
        assert state.last.position[1] == pytest.approx(turn)
    jumped = sent._replace(time=11.0, stamp=11.0, position=position + [0.0, 2.0])
    assert monitors.measure(MonitorConfig(), robot, state, jumped).fault.code == 'state-jump'
    limited = sent._replace(time=11.0, stamp=11.0, position=position + [2 * np.pi, 0.0])
    assert monitors.measure(MonitorConfig(), robot, state, limited).fault is not None


def test_the_first_position_is_on_the_turn_of_home():
    position = continuous_joints.nearest(
        np.array([0.1, -3.1]), np.array([0.0, 3.0]), np.array([1])
    )
    assert position == pytest.approx([0.1, 2 * np.pi - 3.1])


def test_plans_that_count_turns_from_another_start_move_on_from_here():
    robot = _robot('position')
    commander = Commander(BridgeConfig(), robot)
    at = np.array([0.0, 3.0])
    commander.measure(Measurement(10.0, 10.0, at, np.zeros(2)))
    commander.arm(10.0)
    values = np.array([[0.0, 3.0], [0.1, 3.1]]) - [0.0, 2 * np.pi]
    commander.receive(Plan(10.0, np.array([0.0, 0.1]), values))
    commands = []
    for time in 10.0 + 0.004 * np.arange(1, 25):
        commander.measure(Measurement(time, time, at + 0.004 * (time - 10.0), np.zeros(2)))
        commands.append(commander.step(time)[0].value)
    assert np.abs(np.array(commands) - at).max() < 0.2


@pytest.mark.parametrize(
    ('joint', 'problems'),
    [
        ('<joint name="turn" type="continuous"><limit velocity="1" effort="9"/></joint>', 0),
        ('<joint name="turn" type="continuous"/>', 0),
        ('<joint name="turn" type="floating"/>', 1),
    ],
)
def test_a_continuous_joint_fits_its_urdf(joint, problems):
    text = (
        '<robot><joint name="lift" type="revolute"><limit lower="-2" upper="2" velocity="1"/>'
        f'</joint>{joint}</robot>'
    )
    found = urdf_check.check(_robot(), text)
    assert len(found.problems) == problems and not found.tighter

"""The controllers of `examples/ros2_control` are those that the robots' YAML names."""

from pathlib import Path

import pytest
import yaml

from emppi_ros.robots.robot import load_robot

FOLDER = Path(__file__).resolve().parents[2] / 'examples' / 'ros2_control'
ROBOTS = sorted(path.stem for path in FOLDER.glob('*.yaml') if '_' not in path.stem)


def parameters(name, controller):
    return yaml.safe_load((FOLDER / f'{name}.yaml').read_text())[controller]['ros__parameters']


@pytest.mark.parametrize('name', ROBOTS)
def test_a_controller_has_the_robots_joints_and_takes_our_trajectories(name):
    robot = load_robot(name)
    controller, topic = robot.topics.commands['trajectory'].split('/')
    assert topic == 'joint_trajectory'
    manager = parameters(name, 'controller_manager')
    assert manager[controller]['type'].endswith('/JointTrajectoryController')
    assert manager['update_rate'] >= 100
    keys = parameters(name, controller)
    assert tuple(keys['joints']) == robot.commanded
    assert keys['interpolate_from_desired_state'] and keys['interpolation_method'] == 'splines'
    assert 'cmd_timeout' not in keys
    velocity = parameters(f'{name}_velocity', controller)
    assert velocity['command_interfaces'] == ['velocity']
    assert {
        j: gain['ff_velocity_scale'] for j, gain in velocity['gains'].items()
    } == dict.fromkeys(robot.commanded, 1.0)


def test_every_arm_that_is_commanded_by_velocity_has_controllers():
    assert {'fr3', 'panda', 'ur5e', 'xarm7'} == set(ROBOTS)

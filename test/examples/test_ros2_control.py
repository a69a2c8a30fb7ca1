"""The controllers of `examples/ros2_control` are those that the robots' YAML names."""

import ast
from pathlib import Path
import xml.etree.ElementTree as ET

import pytest
import yaml

from emppi_ros.robots.robot import load_robot
from emppi_ros.tasks.task import load_task

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


def test_the_launch_file_starts_the_controllers_of_an_arm_and_passes_known_arguments():
    launch = ET.parse(FOLDER / 'ros2_control.launch.xml').getroot()
    defaults = {arg.get('name'): arg.get('default') for arg in launch.findall('arg')}
    assert parameters(defaults['robot'], defaults['controller'])
    assert load_task(defaults['task']).robot.name == defaults['robot']
    source = ast.parse((FOLDER.parents[1] / 'launch' / 'emppi.launch.py').read_text())
    (known,) = [
        {key.value for key in node.value.keys}
        for node in source.body
        if isinstance(node, ast.Assign) and node.targets[0].id == 'ARGUMENTS'
    ]
    passed = {arg.get('name') for arg in launch.find('include').findall('arg')}
    assert passed <= known
    # an included launch file sees the arguments of this one: those that both have are passed on
    assert set(defaults) & known <= passed


def test_every_arm_that_is_commanded_by_velocity_has_controllers():
    assert {'fr3', 'panda', 'ur5e', 'xarm7'} == set(ROBOTS)

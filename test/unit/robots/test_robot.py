"""Robots: joints by name, limits by kind of command, and scenes that do not fit."""

import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.bridge.commander import BridgeConfig, Commander
from emppi_ros.bridge.monitors import Measurement
from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError, JointStateError, SceneError
from emppi_ros.robots import plan as plans
from emppi_ros.robots import robot as robots
from emppi_ros.robots.robot import Robot, select_joints

WANTED = ['elbow', 'shoulder']
DATA = {
    'name': 'r',
    'joints': ['shoulder', 'elbow'],
    'commanded': ['shoulder', 'elbow'],
    'command': 'position',
    'home': [0.0, 0.0],
    'limits': {
        'position': {'lower': [-1.0, -2.0], 'upper': [1.0, 2.0]},
        'velocity': [1.0, 3.0],
        'acceleration': [4.0, 6.0],
        'effort': [7.0, 8.0],
    },
}


def _robot(**changes):
    return config.build(Robot, {**DATA, **changes}, 'robot.yaml')


@pytest.mark.parametrize('names', [['shoulder', 'elbow'], ['x', 'elbow', 'shoulder', 'finger']])
def test_joints_are_taken_by_name_in_whatever_order_and_company(names):
    values = {'shoulder': 1.0, 'elbow': 2.0}
    row = [values.get(name, np.nan) for name in names]  # others may even be NaN
    assert select_joints(WANTED, names, {'position': row})['position'].tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ('names', 'row', 'match'),
    [
        (['elbow'], [0.0], 'missing joints: shoulder; the joint state has: elbow'),
        ([], [], 'missing joints: elbow, shoulder'),
        (['elbow', 'Shoulder'], [0.0, 0.0], 'missing joints: shoulder; .* elbow, Shoulder'),
        (['elbow', 'shoulder', 'elbow'], [0.0] * 3, 'joints given twice: elbow'),
        (['elbow', 'shoulder'], [0.0], 'velocity: 1 values for 2 joints'),
        (['elbow', 'shoulder'], [], 'velocity: 0 values for 2 joints; this robot needs it'),
        (['elbow', 'shoulder'], [0.0, np.nan], 'velocity of shoulder is not finite'),
        (['elbow', 'shoulder'], [np.inf, -np.inf], 'velocity of elbow, shoulder is not finite'),
    ],
    ids=str,
)
def test_joint_states_that_cannot_be_used_are_errors(names, row, match):
    with pytest.raises(JointStateError, match=match):
        select_joints(WANTED, names, {'velocity': row})


def test_control_limits_are_those_of_what_is_commanded():
    velocity = _robot(command='velocity', dynamics_factor=0.5).control_limits(0.1)
    assert velocity.upper.tolist() == [0.5, 1.5] == (-velocity.lower).tolist()
    assert velocity.rate == pytest.approx([0.2, 0.3])
    position = _robot(dynamics_factor=0.5).control_limits(0.1)
    assert position.lower.tolist() == [-1.0, -2.0] and position.upper.tolist() == [1.0, 2.0]
    assert position.rate == pytest.approx([0.05, 0.15])
    effort = _robot(command='effort').control_limits(0.1)
    assert effort.upper.tolist() == [7.0, 8.0] and np.isinf(effort.rate).all()


@pytest.mark.parametrize(
    ('changes', 'match'),
    [
        ({'joints': []}, 'joints: needs at least one name'),
        ({'joints': ['shoulder', 'shoulder']}, 'joints: .*without duplicates'),
        ({'commanded': []}, 'commanded: needs at least one name'),
        ({'commanded': ['elbow', 'elbow']}, 'commanded: .*without duplicates'),
        ({'home': [0.0]}, r'home: 1 values, expected 2 \(as joints\)'),
        ({'commanded': ['elbow']}, r'lower: 2 values, expected 1 \(as commanded\)'),
        (
            {'command': 'torque'},
            "command: found 'torque', expected one of velocity, position, eff",
        ),
        ({'dynamics_factor': 1.5}, r'dynamics_factor: found 1.5, expected in \(0, 1\]'),
        ({'limits': {**DATA['limits'], 'velocity': [0.0, 1.0]}}, 'velocity: every value must be'),
        ({'limits': {**DATA['limits'], 'jerk': [1.0]}}, 'jerk: 1 values, expected 2'),
        (
            {'limits': {**DATA['limits'], 'position': {'lower': [1, 1], 'upper': [0, 2]}}},
            'position: every lower must be below its upper',
        ),
        ({'command': 'effort', 'limits': {**DATA['limits'], 'effort': []}}, 'effort: 0 values'),
    ],
    ids=lambda value: str(value)[:50],
)
def test_keys_that_contradict_one_another_are_errors(changes, match):
    with pytest.raises(ConfigError, match=f'robot.yaml: .*{match}'):
        _robot(**changes)


def test_joints_and_actuators_are_found_by_name_not_by_order(two_link):
    where = robots.bind(
        _robot(joints=['elbow', 'shoulder'], commanded=['elbow', 'shoulder']), two_link
    )
    assert where.qpos.tolist() == where.qvel.tolist() == where.ctrl.tolist() == [1, 0]


def _scene(actuators):
    return mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="shoulder"/><geom size="1"/><body>'
        '<joint name="elbow"/><geom size="1"/></body></body><body name="f"><freejoint name="f"/>'
        f'<geom size="1"/></body></worldbody><actuator>{actuators}</actuator></mujoco>'
    )


BOTH = '<position name="a" joint="shoulder"/><position name="b" joint="elbow"/>'


@pytest.mark.parametrize(
    ('actuators', 'changes', 'match'),
    [
        (
            BOTH,
            {'joints': ['shoulder', 'knee'], 'commanded': ['shoulder', 'knee']},
            "joint 'knee'",
        ),
        (
            BOTH,
            {'joints': ['shoulder', 'f'], 'commanded': ['shoulder', 'f']},
            "'f' of robot 'r' must be",
        ),
        ('<position name="a" joint="shoulder"/>', {}, "'elbow' has 0 actuators, .* actuators: a"),
        (
            BOTH + '<position name="c" joint="elbow"/>',
            {},
            "'elbow' has 2 actuators, of which 2 take a position, expected 1",
        ),
        (
            BOTH,
            {'command': 'velocity'},
            "'a' is a position servo, but robot 'r' commands velocity",
        ),
    ],
)
def test_a_scene_that_does_not_fit_the_robot_is_an_error(actuators, changes, match):
    with pytest.raises(SceneError, match=match):
        robots.bind(_robot(**changes), _scene(actuators))


def test_a_new_robot_is_a_yaml_file_and_a_model(tmp_path):
    model = """<mujoco><option timestep="0.01"/><worldbody><body><joint name="slide" type="slide"
      axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody><actuator><velocity
      joint="slide" kv="10"/></actuator></mujoco>"""
    (tmp_path / 'slider.xml').write_text(model)
    data = {
        'name': 'slider', 'joints': ['slide'], 'commanded': ['slide'], 'command': 'velocity',
        'home': [0.0], 'topics': {'commands': {'velocity': 'slider/commands'}},
        'limits': {
            'position': {'lower': [-1.0], 'upper': [1.0]},
            'velocity': [1.0], 'acceleration': [4.0],
        },
    }  # fmt: skip
    path = tmp_path / 'slider.yaml'
    path.write_text(yaml.safe_dump(data))
    robot = robots.load_robot(str(path))
    bound = robots.bind(robot, mujoco.MjModel.from_xml_path(str(tmp_path / 'slider.xml')))
    assert bound.ctrl.tolist() == [0] and robot.control_limits(0.1).upper.tolist() == [0.5]
    commander = Commander(BridgeConfig(), robot)
    commander.measure(Measurement(0.0, 0.0, np.zeros(1), np.zeros(1)))
    commander.arm(0.0)
    commander.receive(plans.make(robot, 0.0, np.zeros(1), np.full((5, 1), 0.5), 0.1, 'linear'))
    commander.measure(Measurement(0.004, 0.0, np.zeros(1), np.zeros(1)))
    commander.step(0.004)
    commander.measure(Measurement(0.008, 0.0, np.zeros(1), np.zeros(1)))
    assert commander.step(0.008)[0].value[0] > 0.0


def test_a_home_in_degrees_is_refused(tmp_path):
    text = paths.find_config('robots', 'panda').read_text()
    path = tmp_path / 'degrees.yaml'
    path.write_text(text.replace('0.0938, 0.0, -2.7244', '5.37, 0.0, -156.1'))
    words = r'line 9: home: 5.37 of panda_joint2 is not between lower -1.7628 and upper 1.7628'
    with pytest.raises(ConfigError, match=words):
        robots.load_robot(str(path))


def test_a_name_with_a_prefix_belongs_into_ros_joints(two_link):
    robot = _robot(joints=['left_shoulder', 'elbow'], commanded=['left_shoulder', 'elbow'])
    with pytest.raises(SceneError, match="give it in `ros_joints`, and in `joints` 'shoulder'"):
        robots.bind(robot, two_link)

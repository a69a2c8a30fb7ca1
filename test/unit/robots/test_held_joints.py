"""What no command moves is held, and what nobody measures is refused."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core import config
from emppi_ros.core.errors import SceneError
from emppi_ros.robots import held_joints
from emppi_ros.robots.robot import Robot

SCENE = """<mujoco><worldbody>
  <body name="arm"><joint name="elbow" limited="true" range="-1 1"/><geom size="0.1"/>
    <body name="left"><geom size="0.1"/>
      <joint name="l" type="slide" limited="true" range="0.01 0.04"/>
      <body name="tip"><joint name="passive"/><geom size="0.1"/></body></body>
  </body>
  <body name="door"><joint name="hinge"/><geom size="0.1"/></body>
  <body name="other"><joint name="second"/><geom size="0.1"/>
    <body name="tool"><joint name="third"/><geom size="0.1"/></body></body>
</worldbody><actuator>
  <position name="a" joint="elbow" kp="5"/><position name="finger" joint="l" kp="100"/>ACTUATORS
</actuator>KEY</mujoco>"""


def _robot(**changes):
    data = {
        'name': 'r', 'joints': ['elbow'], 'commanded': ['elbow'], 'command': 'position',
        'home': [0.0],
        'limits': {
            'position': {'lower': [-1.0], 'upper': [1.0]},
            'velocity': [1.0], 'acceleration': [1.0],
        },
    }  # fmt: skip
    return config.build(Robot, data | changes, 'robot.yaml')


def _held(actuators='', keyframe='', tracked=(), **changes):
    text = SCENE.replace('ACTUATORS', actuators).replace('KEY', keyframe)
    model = mujoco.MjModel.from_xml_string(text)
    held = held_joints.find(_robot(**changes), model, tracked)
    return {model.joint(joint).name: value for joint, value in held.items()}


def test_joints_beside_an_actuator_that_no_command_drives_are_held():
    # qpos0, within its range; the door has no actuator, so that it may be a forgotten object
    assert _held() == {'l': 0.01, 'passive': 0.0}
    keyframe = '<keyframe><key qpos="0 0.03 0.2 0 0 0"/></keyframe>'
    assert _held(keyframe=keyframe) == {'l': 0.03, 'passive': 0.2}
    assert _held(held={'l': 0.02, 'hinge': 1.0}) == {'l': 0.02, 'passive': 0.0, 'hinge': 1.0}
    second = '<motor joint="second"/>'
    assert _held(second) == {'l': 0.01, 'passive': 0.0, 'second': 0.0, 'third': 0.0}
    assert _held(second, tracked=['other']) == {'l': 0.01, 'passive': 0.0}


@pytest.mark.parametrize(
    ('held', 'match'),
    [({'elbow': 0.0}, "held: 'elbow' is measured"), ({'lefft': 0.0}, 'robot: held: .*lefft')],
)
def test_a_name_that_cannot_be_held_is_an_error(held, match):
    with pytest.raises(SceneError, match=match):
        _held(held=held)


@pytest.mark.parametrize(
    ('actuator', 'control'),
    [
        ('<position name="x" joint="l" kp="100" kv="3"/>', 0.02),
        ('<motor name="x" joint="l" gear="4"/>', 0.7),
        ('<general name="x" joint="l" gaintype="affine" gainprm="2 3 4" biastype="affine" '
         'biasprm="0.1 -5 -6"/>', 0.7),
    ],
)  # fmt: skip
def test_a_held_actuator_exerts_the_force_of_its_control(actuator, control):
    text = SCENE.replace('ACTUATORS', actuator)
    text = text.replace('<position name="finger" joint="l" kp="100"/>', '')
    key = f'<keyframe><key qpos="0 0.02 0 0 0 0" ctrl="0 {control}"/></keyframe>'
    model, held = (mujoco.MjModel.from_xml_string(text.replace('KEY', key)) for _ in range(2))
    robot = _robot(joints=['elbow', 'l'], home=[0.0, 0.02])
    assert held_joints.hold_actuators(robot, held, held.key_qpos[0]) == {'x': control}
    rng, a, b = np.random.default_rng(0), mujoco.MjData(model), mujoco.MjData(held)
    a.ctrl[1] = control
    a.qpos[:] = b.qpos[:] = rng.normal(size=model.nq)
    a.qvel[:] = b.qvel[:] = rng.normal(size=model.nv)
    mujoco.mj_forward(model, a)
    mujoco.mj_forward(held, b)
    np.testing.assert_allclose(a.actuator_force, b.actuator_force, rtol=1e-12)


def test_without_a_keyframe_a_servo_holds_its_place():
    model = mujoco.MjModel.from_xml_string(SCENE.replace('ACTUATORS', '').replace('KEY', ''))
    robot = _robot(joints=['elbow', 'l'], home=[0.0, 0.03])
    held = held_joints.hold_actuators(robot, model, np.array([0, 0.03, 0, 0, 0, 0]))
    assert held == {'finger': pytest.approx(0.03)}

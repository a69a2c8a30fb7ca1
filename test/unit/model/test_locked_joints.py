"""A scene with locked joints moves as the scene in which these joints stand still."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import SceneError
from emppi_ros.model import locked_joints

# an arm whose gripper has a tendon, coupled fingers, a sensor, and a passive joint
GRIPPER = """<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body name="upper"><joint name="shoulder" axis="0 1 0"/><geom size="0.1" mass="2"/>
      <body name="hand" pos="0.3 0 0.1" euler="0.2 0.3 0.1">
        <joint name="wrist" axis="1 0 0"/><geom size="0.05" pos="0.1 0 0" mass="1"/>
        <body name="left" pos="0.1 0 0" quat="0.9 0.1 0.3 0.2">
          <joint name="l" type="slide" axis="0 1 0"/><geom size="0.03" pos="0 0.1 0" mass="0.4"/>
          <body name="tip" pos="0 0.1 0"><joint name="t" axis="1 0 1" pos="0 0 0.05"/>
            <geom type="box" size="0.02 0.03 0.04" mass="0.2"/></body>
        </body>
        <body name="right" pos="0.1 0 0" euler="0 0 3.1">
          <joint name="r" type="slide" axis="0 1 0"/><geom size="0.03" pos="0 0.1 0" mass="0.4"/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="split"><joint joint="l" coef="0.5"/><joint joint="r" coef="0.5"/></fixed>
  </tendon>
  <equality>
    <joint joint1="l" joint2="r"/><connect body1="left" body2="tip" anchor="0 0 0"/>
  </equality>
  <actuator>
    <position name="grip" tendon="split" kp="10"/><velocity name="turn" joint="wrist" kv="3"/>
  </actuator>
  <sensor><jointpos joint="l"/><jointpos joint="wrist"/></sensor>
  <keyframe><key qpos="0.1 0.2 0.03 0.4 0.03" ctrl="0.05 0"/></keyframe>
</mujoco>"""


def _lock(text, positions):
    spec = mujoco.MjSpec.from_string(text)
    model = spec.compile()
    return model, locked_joints.lock(
        spec, model, {model.joint(name).id: value for name, value in positions.items()}
    )


def test_inertia_and_gravity_are_those_of_joints_that_stand_still():
    model, locked = _lock(GRIPPER, {'l': 0.03, 't': 0.4, 'r': -0.02})
    assert (locked.nq, locked.nu, locked.neq, locked.ntendon, locked.nsensor) == (2, 1, 0, 0, 1)
    assert locked.key_qpos.tolist() == [[0.1, 0.2]] and locked.key_ctrl.tolist() == [[0.0]]
    rng = np.random.default_rng(0)
    for _ in range(5):
        qpos, qvel = rng.normal(size=2), rng.normal(size=2)
        whole, part = mujoco.MjData(model), mujoco.MjData(locked)
        whole.qpos[:] = [*qpos, 0.03, 0.4, -0.02]
        whole.qvel[:2], part.qpos[:], part.qvel[:] = qvel, qpos, qvel
        mujoco.mj_forward(model, whole)
        mujoco.mj_forward(locked, part)
        # two ways to the same numbers: rounding of poses that were written and read again
        np.testing.assert_allclose(part.qfrc_bias, whole.qfrc_bias[:2], atol=1e-10)
        np.testing.assert_allclose(
            _inertia(locked, part), _inertia(model, whole)[:2, :2], atol=1e-10
        )


def _inertia(model, data):
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    return full


@pytest.mark.parametrize(
    ('positions', 'match'),
    [
        ({'l': 0.0}, "couples joint 'l', .* with 'r': name both or none"),
        (
            {'r': 0.0, 'l': 0.0, 'shoulder': 0.0, 'slide': 0.0},
            "joint 'turn' is measured, and other",
        ),
    ],
)
def test_a_part_that_also_moves_is_an_error(positions, match):
    text = GRIPPER.replace(
        '</worldbody>',
        '<body><joint name="slide" type="slide"/><joint name="turn"/><geom size="1"/></body>'
        '</worldbody>',
    ).replace('0.4 0.03"', '0.4 0.03 0 0"')
    with pytest.raises(SceneError, match=match):
        _lock(text, positions)

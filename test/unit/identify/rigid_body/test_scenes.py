"""Whatever else a scene holds, each body of the arm is that of its joint; what is not is named."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import SceneFile
from emppi_ros.identify.rigid_body import arm, named, scene_file, welded
from emppi_ros.identify.rigid_body.regressor import regressor

SCENE = """<mujoco {compiler}>{before}<worldbody>{other}
  <body name="upper"><joint name="shoulder"/>{second}<geom size="0.1 0.1 0.2" type="box" mass="2"/>
    <body {link} pos="0 0 0.3"><joint name="elbow" axis="0 1 0"/>
      <geom size="0.1" mass="1" pos="0.1 0 0"/>
      <body name="tool" pos="0.2 0 0"><geom size="0.05" mass="0.3"/></body>
    </body>
  </body></worldbody>{after}
</mujoco>"""
JOINTS = 'shoulder', 'elbow'
GROUP = '<custom><tuple name="t"><element objtype="body" objname="tool"/></tuple></custom>'
SPOT = '<body name="spot" mocap="true"><geom size="0.01"/></body>'


def write(folder, **parts):
    of = dict.fromkeys(('compiler', 'before', 'other', 'second', 'after'), '')
    text = SCENE.format(**(of | {'link': 'name="fore"'} | parts))
    text = text.replace('<mujoco >', '<mujoco>')
    (folder / 'arm.xml').write_text(text)
    return folder / 'arm.xml'


@pytest.mark.parametrize(
    'parts',
    [
        {'other': '<camera name="eye" mode="targetbody" target="tool"/>'},
        {'other': '<light name="lamp" mode="targetbody" target="tool"/>'},
        {'other': SPOT},
        {'after': GROUP},
        {'before': '<option density="1.2" viscosity="2e-5"/>'},
    ],
)
def test_what_is_no_part_of_the_arm_changes_nothing(parts, tmp_path):
    plain = arm.load(write(tmp_path), joints=JOINTS)
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 20, 2))
    other = arm.load(write(tmp_path, **parts), joints=JOINTS)
    assert other.nbody == 3
    # the same numbers: rounding
    np.testing.assert_allclose(regressor(other, *states), regressor(plain, *states), atol=1e-12)
    np.testing.assert_allclose(arm.torques(other, states), arm.torques(plain, states), atol=1e-12)


def test_a_body_with_two_joints_is_named(tmp_path):
    path = write(tmp_path, second='<joint name="twist" axis="1 0 0"/>')
    with pytest.raises(IdentificationError, match="body 'upper' has 2 degrees of freedom, expec"):
        arm.load(path, joints=(*JOINTS, 'twist'))


def test_a_link_without_a_name_is_told_by_its_joint(tmp_path):
    path = write(tmp_path, link='')
    whole, loose = (arm.load(path, None, JOINTS, fuse) for fuse in (True, False))
    assert named.find((), whole, welded.parts(loose), links=True).bodies == {}
    with pytest.raises(IdentificationError, match="the link of joint 'elbow' has no name"):
        named.find((), whole, welded.parts(loose), links=False)


def test_moments_that_come_back_otherwise_are_named(tmp_path):
    body = scene_file.Body(0.7, [0.0, 0.0, 0.03], [2e-3, 2e-3, 1e-3, 0.0, 0.0, 0.0])
    path = write(tmp_path)
    text = scene_file.to_text(SceneFile(path, tmp_path), {'tool': body}, ({}, {}), 1e-3)
    found = mujoco.MjModel.from_xml_string(text).body('tool').inertia
    np.testing.assert_allclose(np.sort(found), [1e-3, 2e-3, 2e-3], rtol=1e-5)  # six digits
    path = write(tmp_path, before='<compiler boundinertia="0.01"/>')
    with pytest.raises(IdentificationError, match="body 'tool' cannot be written into MJCF: .*m"):
        scene_file.to_text(SceneFile(path, tmp_path), {'tool': body}, ({}, {}), 1e-3)

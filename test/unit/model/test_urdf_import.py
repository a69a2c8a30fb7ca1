"""A URDF becomes a scene with the same links, joints and limits, and with servos."""

import struct

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import SceneError
from emppi_ros.model import scene, urdf_import

INERTIA = '<inertia ixx="0.01" iyy="0.02" izz="0.015" ixy="0" ixz="0" iyz="0"/>'
URDF = """<robot name="arm">
  <link name="base"/>
  <link name="upper">
    <inertial><origin xyz="0.2 0 0"/><mass value="1.5"/>{inertia}</inertial>
    <visual><geometry><mesh filename="{visual}"/></geometry></visual>
    <collision><geometry><mesh filename="{mesh}"/></geometry></collision>
  </link>
  <link name="lower">
    <inertial><origin xyz="0.15 0 0"/><mass value="1.0"/>{inertia}</inertial>
    <collision><geometry><box size="0.3 0.05 0.05"/></geometry></collision>
  </link>
  <link name="tool"/>
  <link name="left"><inertial><mass value="0.1"/>{inertia}</inertial></link>
  <link name="right"><inertial><mass value="0.1"/>{inertia}</inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="50" velocity="2"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/>
    <origin xyz="0.4 0 0"/><axis xyz="0 1 0"/><limit effort="20" velocity="3"/></joint>
  <joint name="flange" type="fixed"><parent link="lower"/><child link="tool"/>
    <origin xyz="0.3 0 0"/></joint>
  <joint name="l" type="prismatic"><parent link="tool"/><child link="left"/><axis xyz="0 1 0"/>
    <limit lower="0" upper="0.04" effort="10" velocity="0.1"/></joint>
  <joint name="r" type="prismatic"><parent link="tool"/><child link="right"/><axis xyz="0 -1 0"/>
    <limit lower="0" upper="0.04" effort="10" velocity="0.1"/><mimic joint="l"/></joint>
</robot>"""


@pytest.fixture
def package(tmp_path):
    """Return a folder `arm_description` with a mesh and a URDF that refers to it."""
    folder = tmp_path / 'arm_description'
    (folder / 'meshes').mkdir(parents=True)
    corners = np.array([[0, 0, 0], [0.4, 0, 0], [0, 0.05, 0], [0, 0, 0.05]], np.float32)
    faces = corners[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]
    rows = b''.join(bytes(12) + face.tobytes() + b'\0\0' for face in faces)
    (folder / 'meshes' / 'upper.stl').write_bytes(bytes(80) + struct.pack('<I', 4) + rows)
    (folder / 'urdf').mkdir()
    return folder


def _write(folder, **changes):
    values = {
        'inertia': INERTIA, 'visual': 'package://arm_description/meshes/upper.dae',
        'mesh': 'package://arm_description/meshes/upper.stl',
    } | changes  # fmt: skip
    (folder / 'meshes' / 'upper.dae').write_text('')
    path = folder / 'urdf' / 'arm.urdf'
    path.write_text(URDF.format(**values))
    return path


@pytest.mark.parametrize('command', ['velocity', 'position'])
def test_the_scene_has_the_links_joints_and_limits_of_the_urdf(package, command, tmp_path):
    conversion = urdf_import.read(_write(package), {}, command)
    assert len(conversion.notes) == 1 and 'upper (upper.dae)' in conversion.notes[0]
    path = tmp_path / 'elsewhere' / 'arm.xml'
    path.parent.mkdir()
    urdf_import.write(conversion, path)
    assert (path.parent / 'arm_meshes' / 'upper.stl').exists()
    model = scene.load_scene(path)  # within the folder that a scene may read from
    assert {'upper', 'lower', 'tool', 'left', 'right'} <= set(scene.names(model, 'body'))
    assert scene.names(model, 'actuator') == ['shoulder', 'elbow', 'l']  # r follows l
    joints = model.joint('shoulder'), model.joint('elbow')
    assert joints[0].range.tolist() == [-2.0, 2.0] and not model.jnt_limited[joints[1].id]
    assert model.jnt_actfrcrange[:2, 1].tolist() == [50.0, 20.0]
    assert model.body('upper').mass[0] == 1.5
    np.testing.assert_allclose(sorted(model.body('upper').inertia), [0.01, 0.015, 0.02])
    data = mujoco.MjData(model)
    wanted = {'velocity': [0.5, -0.5, 0.02], 'position': [0.3, -0.2, 0.01]}[command]
    for step in range(500):  # a ramp, as plans accelerate: no servo reaches its largest effort
        data.ctrl[:] = np.multiply(wanted, min(1.0, step / 250))
        mujoco.mj_step(model, data)
    state = data.qvel if command == 'velocity' else data.qpos
    # servos miss by 5 % of the largest velocity at most, and hold the weight of the links
    np.testing.assert_allclose(state[:3], wanted, atol=0.02)
    assert data.joint('r').qpos == pytest.approx(data.joint('l').qpos, abs=1e-3)


def test_packages_are_those_given_or_sourced(package, tmp_path, monkeypatch):
    path = tmp_path / 'alone.urdf'
    path.write_text(_write(package).read_text())
    package.rename(tmp_path / 'moved')
    with pytest.raises(SceneError, match='--package arm_description=FOLDER'):
        urdf_import.read(path, {}, 'velocity')
    given = urdf_import.read(path, {'arm_description': tmp_path / 'moved'}, 'velocity')
    assert list(given.meshes) == ['upper.stl']
    share = tmp_path / 'install' / 'share'
    share.mkdir(parents=True)
    (tmp_path / 'moved').rename(share / 'arm_description')
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path / 'install'))
    assert list(urdf_import.read(path, {}, 'velocity').meshes) == ['upper.stl']


def test_inertias_that_no_body_can_have_are_repaired_and_said(package):
    wrong = '<inertia ixx="0.01" iyy="0.09" izz="-0.01" ixy="0" ixz="0" iyz="0"/>'
    conversion = urdf_import.read(_write(package, inertia=wrong), {}, 'velocity')
    assert any('not positive' in note and 'upper' in note for note in conversion.notes)
    assert any('A + B < C' in note for note in conversion.notes)


@pytest.mark.parametrize(
    ('text', 'match'),
    [
        ('<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:macro name="a"/></robot>',
         'has macros of xacro: .*: xacro bad.urdf > bad_flat.urdf'),
        ('<mujoco/>', 'begins with <mujoco>; a URDF begins with <robot>'),
        ('<robot', 'cannot be read'),
        ('<!DOCTYPE a><robot/>', 'has a DOCTYPE'),
    ],
)  # fmt: skip
def test_what_is_no_urdf_is_an_error_with_a_remedy(tmp_path, text, match):
    path = tmp_path / 'bad.urdf'
    path.write_text(text)
    with pytest.raises(SceneError, match=f'bad.urdf: {match}'):
        urdf_import.read(path, {}, 'velocity')

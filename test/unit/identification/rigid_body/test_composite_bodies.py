"""Bodies that are welded to a link are parts of a composite body."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import ASSETS, SceneFile
from emppi_ros.identification.rigid_body import (
    arm,
    composite_bodies,
)
from emppi_ros.identification.rigid_body.arm import (
    model_parameters,
    pseudo_inertia,
    regressor,
)
from emppi_ros.model.parameters import Parameter

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


def test_pseudo_inertias_of_parts_add_up_to_those_of_composite_bodies():
    """MuJoCo fuses welded bodies to the sum of the parts, for both arms of the package."""
    for scene, joint in (('fr3_follow.xml', 'fr3_joint1'), ('panda_push.xml', 'panda_joint1')):
        whole, loose = (arm.load(ASSETS / scene, None, [joint], fuse) for fuse in (True, False))
        total = np.zeros((whole.nbody - 1, 10))
        for part in composite_bodies.composite_parts(loose):
            total[part.body_index] += part.parameters
            back = composite_bodies.transform_inertia(part.parameters, np.linalg.inv(part.pose))
            assert np.linalg.eigvalsh(pseudo_inertia(back))[0] > 0.0
        np.testing.assert_allclose(
            total, model_parameters(whole).reshape(-1, 12)[:, :10], atol=1e-12
        )


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
def test_objects_outside_the_arm_do_not_change_its_torques(parts, tmp_path):
    plain = arm.load(write(tmp_path), joints=JOINTS)
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 20, 2))
    other = arm.load(write(tmp_path, **parts), joints=JOINTS)
    assert other.nbody == 3
    # the same numbers: rounding
    np.testing.assert_allclose(regressor(other, *states), regressor(plain, *states), atol=1e-12)
    np.testing.assert_allclose(
        arm.motion_torques(other, states), arm.motion_torques(plain, states), atol=1e-12
    )


def test_a_body_with_two_joints_is_an_error(tmp_path):
    path = write(tmp_path, second='<joint name="twist" axis="1 0 0"/>')
    with pytest.raises(IdentificationError, match="body 'upper' has 2 degrees of freedom, expec"):
        arm.load(path, joints=(*JOINTS, 'twist'))


def test_a_link_without_a_name_is_reported_by_its_joint(tmp_path):
    path = write(tmp_path, link='')
    whole, loose = (arm.load(path, None, JOINTS, fuse) for fuse in (True, False))
    assert (
        composite_bodies.map_parameters(
            (), whole, composite_bodies.composite_parts(loose), links=True
        ).parts
        == {}
    )
    with pytest.raises(IdentificationError, match="the link of joint 'elbow' has no name"):
        composite_bodies.map_parameters(
            (), whole, composite_bodies.composite_parts(loose), links=False
        )


def test_inertias_that_mujoco_changes_are_an_error(tmp_path):
    body = composite_bodies.BodyInertial(0.7, [0.0, 0.0, 0.03], [2e-3, 2e-3, 1e-3, 0.0, 0.0, 0.0])
    path = write(tmp_path)
    text = composite_bodies.to_mjcf(SceneFile(path, tmp_path), {'tool': body}, {}, 1e-3)
    found = mujoco.MjModel.from_xml_string(text).body('tool').inertia
    np.testing.assert_allclose(np.sort(found), [1e-3, 2e-3, 2e-3], rtol=1e-5)  # six digits
    path = write(tmp_path, before='<compiler boundinertia="0.01"/>')
    with pytest.raises(IdentificationError, match="body 'tool' cannot be written to MJCF: .*m"):
        composite_bodies.to_mjcf(SceneFile(path, tmp_path), {'tool': body}, {}, 1e-3)


def test_a_centre_of_the_scene_that_contradicts_the_estimate_is_named(tmp_path, rng):
    path = write(tmp_path)
    whole, loose = (arm.load(path, None, JOINTS, fuse) for fuse in (True, False))
    parts = composite_bodies.composite_parts(loose)
    mass = Parameter('mass', 'body_mass', 'fore', 0, 0.1, 3.0, 'kg')
    centre = Parameter('centre', 'body_ipos', 'fore', 0, 0.0, 1.0, 'm')

    def contradictions(parameters, bodies):
        known = composite_bodies.map_parameters(parameters, whole, parts, links=True)
        constraints = composite_bodies.constraints_from_scene(whole, known, None, viscous=False)
        return list(composite_bodies.contradictions(known, constraints, bodies))

    # the scene has 1 kg at 0.1 m, and a tool welded to it; the estimate has 0.15 m
    scene = model_parameters(whole)
    draws = np.tile(scene, (200, 1))
    assert contradictions((mass,), draws + 1e-3 * rng.standard_normal(draws.shape)) == []
    draws[:, 13] += 0.05
    draws[:, 12:16] += 1e-3 * rng.standard_normal((200, 4))
    ((name, field, moments, stored),) = contradictions((mass,), draws)
    assert name == 'fore' and 'body_ipos' in field and 'element: 0' in field
    assert np.median(moments) == pytest.approx(0.15, abs=1e-3)  # ten standard errors
    assert np.median(stored) == pytest.approx(0.1, abs=1e-3)
    assert contradictions((mass, centre), draws) == []

"""Loading scenes, and finding things in them by name."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core import paths
from emppi_ros.core.errors import SceneError
from emppi_ros.model import scene


def test_every_kind_of_object_is_found_by_name(block, two_link):
    found = {'body': 'block', 'joint': 'push', 'geom': 'floor', 'site': 'goal', 'actuator': 'push'}
    for kind, name in found.items():
        index = scene.find(block, kind, name)
        assert scene.names(block, kind)[index] == name
    assert scene.find(two_link, 'sensor', 'elbow_speed') == 1
    assert scene.names(two_link, 'keyframe') == scene.names(two_link, 'camera') == []


@pytest.mark.parametrize('kind', scene.KINDS)
def test_what_is_missing_is_an_error_that_lists_what_exists(block, kind):
    with pytest.raises(SceneError, match=f"unknown {kind} 'nothing'.*available: ") as error:
        scene.find(block, kind, 'nothing')
    listed = str(error.value).split('available: ')[1].split(', ')
    assert listed == (sorted(filter(None, scene.names(block, kind))) or ['none'])


def test_unnamed_objects_are_counted_but_not_offered():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom size="1"/><geom name="g" size="1"/></worldbody></mujoco>'
    )
    assert scene.names(model, 'geom') == ['', 'g']
    with pytest.raises(SceneError, match='available: g$'):
        scene.find(model, 'geom', 'h')


def test_a_broken_scene_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / 'broken.xml'
    path.write_text('<mujoco><worldbody><geom type="egg"/></worldbody></mujoco>')
    with pytest.raises(SceneError, match='broken.xml'):
        scene.load_scene(path)


def test_actuators_with_hidden_state_are_an_error(tmp_path):
    path = tmp_path / 'muscle.xml'
    path.write_text(
        '<mujoco><worldbody><body><joint name="j"/><geom size="1"/></body></worldbody>'
        '<actuator><general joint="j" dyntype="integrator"/></actuator></mujoco>'
    )
    with pytest.raises(
        SceneError, match="muscle.xml: actuator '' has .* dyntype 'integrator'; expected none, fil"
    ):
        scene.load_scene(path)


def test_a_scene_may_be_loaded_without_some_bodies():
    path = paths.find_scene('panda_push.xml').path
    model = scene.load_scene(path, without=['block'])
    assert 'block' not in scene.names(model, 'body') and model.nq == 7
    with pytest.raises(SceneError, match="panda_push.xml: unknown body 'blok'.*'block'"):
        scene.load_scene(path, without=['blok'])
    with pytest.raises(SceneError, match="unknown body 'world'"):
        scene.load_scene(path, without=['world'])


def test_the_weight_of_some_bodies_may_stay_with_the_joints():
    path = paths.find_scene('fr3_pickup.xml').path
    model = scene.load_scene(path, without_gravcomp=['payload'])
    data, jacobian = mujoco.MjData(model), np.zeros((3, model.nv))
    data.qpos[:] = [0.3, -0.5, 0.2, -2.0, 0.4, 1.7, -0.6]
    mujoco.mj_forward(model, data)
    payload = model.body('payload').id
    mujoco.mj_jacBodyCom(model, data, jacobian, None, payload)
    weight = model.body_mass[payload] * model.opt.gravity
    felt = data.qfrc_bias - data.qfrc_gravcomp
    assert np.abs(felt).max() > 0.5  # N m, of 0.4 kg
    # virtual work of this weight, and of no other; rounding of torques up to 60 N m
    assert felt == pytest.approx(-jacobian.T @ weight, abs=1e-12)
    with pytest.raises(SceneError, match="unknown body 'paylod'.*'payload'"):
        scene.load_scene(path, without_gravcomp=['paylod'])


@pytest.mark.parametrize(
    'name', ['cartpole.xml', 'panda_push.xml', 'fr3_follow.xml', 'fr3_pickup.xml']
)
def test_our_scenes_load_in_silence_and_show_divergence(name, capfd):
    model = scene.load_scene(paths.find_scene(name).path)
    assert model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    assert capfd.readouterr() == ('', '')


def test_visual_geoms_stay_where_inertias_are_inferred_from_them(tmp_path):
    path = tmp_path / 'scene.xml'
    path.write_text(
        '<mujoco><compiler inertiafromgeom="true"/><worldbody><body><freejoint/>'
        '<geom size="0.1" mass="1"/><geom size="0.2" mass="2" contype="0" conaffinity="0"/>'
        '</body></worldbody></mujoco>'
    )
    assert scene.load_scene(path).body_mass[1] == 3.0


def test_meshes_without_a_volume_are_shells(tmp_path):
    path = tmp_path / 'scene.xml'
    path.write_text(
        '<mujoco><asset><mesh name="plate" vertex="0 0 0 1 0 0 0 1 0 0 0 1e-9" '
        'face="0 2 1 0 1 3 0 3 2 1 2 3"/></asset><worldbody><body><freejoint/>'
        '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom type="mesh" mesh="plate"/>'
        '</body></worldbody></mujoco>'
    )
    assert scene.load_scene(path).body_mass[1] == 1.0

"""Cameras: points project to the pixels at which MuJoCo draws them; and scenes without any."""

import re

import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.core import config, paths
from emppi_ros.tasks.task import load_task, parse_task, task_text
from emppi_ros.viz.renderer import Renderer, camera_pose, start_camera, task_camera
from emppi_ros.viz.shapes import scene_extent

VIEW = {'body': 'block', 'distance_m': 1.5, 'azimuth_deg': 30.0, 'elevation_deg': -40.0}


@pytest.mark.parametrize('name', ['overview', ''])
@pytest.mark.usefixtures('renderer')
def test_a_camera_pose_projects_points_to_where_mujoco_draws_them(name):
    xml = """<mujoco><visual><global offwidth="400" offheight="300"/></visual><worldbody>
    <camera name="overview" pos="1 -2 1" xyaxes="0.9 0.4 0 -0.2 0.45 0.87" fovy="50"/>
    <body><freejoint/><geom type="sphere" size="0.03" rgba="1 1 1 1"/></body>
    </worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    looking = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, looking)
    looking.lookat[:], looking.distance = [0.1, 0.0, 0.0], 2.0
    looking.azimuth, looking.elevation = 70.0, -30.0
    if name:
        looking.type, looking.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED.value, 0
    renderer = Renderer(model, 400, 300, looking)
    places = [[0.0, 0.0, 0.0], [0.3, 0.2, 0.1], [-0.2, 0.3, -0.2]]
    seen = []
    for place in places:
        picture = renderer.render(np.array([*place, 1.0, 0.0, 0.0, 0.0]))
        rows, columns = np.nonzero(picture.max(axis=2) > 20)
        middle = [0.5 * (columns.min() + columns.max() + 1), 0.5 * (rows.min() + rows.max() + 1)]
        seen.append(middle)
    renderer.close()
    expected, _ = camera_pose(model, model.qpos0, looking).project(np.array(places), 400, 300)
    # a pixel for each of two edges of the sphere
    np.testing.assert_allclose(seen, expected, atol=1.0)


def test_the_view_of_a_task_centres_on_its_body(rng):
    push = load_task('panda_push')
    data = {**config.parse(task_text('panda_push'), 'task'), 'view': VIEW}
    task = parse_task(yaml.safe_dump(data))
    qpos = task.start().qpos + 0.1 * rng.standard_normal(task.model.nq)
    camera = task_camera(task, task.model, qpos)
    pose = camera_pose(task.model, qpos, camera)
    data = mujoco.MjData(task.model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(task.model, data)
    middle, depth = pose.project(data.body('block').xpos[None], 400, 300)
    np.testing.assert_allclose(middle[0], (200, 150), atol=1e-9)  # rounding
    np.testing.assert_allclose(depth, VIEW['distance_m'], rtol=1e-12)
    assert camera.type == mujoco.mjtCamera.mjCAMERA_FREE.value
    fixed = task_camera(push, push.model, qpos)  # its scene's `overview`
    assert fixed.type == mujoco.mjtCamera.mjCAMERA_FIXED.value


@pytest.fixture
def bare(tmp_path):
    """Return the cart-pole as a scene without light, sky and camera."""
    text = (paths.ASSETS / 'cartpole.xml').read_text()
    text = re.sub('<visual>.*</visual>|<asset>.*</asset>', '', text, flags=re.DOTALL)
    (tmp_path / 'bare.xml').write_text(re.sub('<(light|camera)[^>]*>', '', text))
    file = tmp_path / 'bare.yaml'
    file.write_text(task_text('cartpole_swingup').replace('cartpole.xml', 'bare.xml'))
    return load_task(str(file))


@pytest.mark.parametrize('aspect', [0.5, 1.0, 2.0])
def test_a_scene_without_a_camera_is_seen_wherever_the_robot_moves(bare, aspect):
    model = bare.visual_model()
    data = mujoco.MjData(model)
    pose = camera_pose(model, data.qpos, start_camera(bare, model, aspect))
    width, height = 300.0 * aspect, 300.0
    for slider in (-1.8, 0.0, 1.8):
        for hinge in np.linspace(0.0, 2.0 * np.pi, 24):
            data.qpos[:] = slider, hinge
            mujoco.mj_kinematics(model, data)
            corners = scene_extent.box_corners(data, np.flatnonzero(model.geom_bodyid > 0))
            pixels, depth = pose.project(corners, width, height)
            assert depth.min() > 0.0 and pixels.min() >= 0.0
            assert pixels[..., 0].max() <= width and pixels[..., 1].max() <= height


@pytest.mark.usefixtures('renderer')
def test_a_scene_without_light_and_sky_is_not_dark(bare):
    model = bare.visual_model()
    renderer = Renderer(model, 320, 240, start_camera(bare, model, 320 / 240))
    picture = renderer.render(bare.start().qpos)
    renderer.close()
    assert picture[0].min() > 150  # the sky
    assert picture.min() > 20  # dark grey geoms, from their unlit side


def test_sky_and_light_of_a_scene_are_kept():
    shipped = load_task('cartpole_swingup').visual_model()
    plain = mujoco.MjModel.from_xml_path(str(paths.ASSETS / 'cartpole.xml'))
    assert (shipped.nlight, shipped.ntex) == (plain.nlight, plain.ntex)
    np.testing.assert_array_equal(shipped.vis.headlight.ambient, plain.vis.headlight.ambient)

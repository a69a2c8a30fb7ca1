"""Rendered depths are those of single rays, wherever a part is put."""

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.tracking import renderer

MOCAP = """
<mujoco><worldbody>
  <body name="box" mocap="true"><geom type="box" size="0.12 0.08 0.06" pos="0.01 0 0.02"/></body>
</worldbody></mujoco>"""


def test_depths_are_those_of_single_rays_at_a_body_that_is_moved_by_kinematics(tilted):
    stage, poses = tilted
    stage.tracked.renderer.place(poses)
    found = stage.tracked.renderer.render()
    model = mujoco.MjModel.from_xml_string(MOCAP)
    data = mujoco.MjData(model)
    data.mocap_pos[0] = poses.position[0]
    x, y, z, w = Rotation.from_matrix(poses.rotation[0]).as_quat()
    data.mocap_quat[0] = w, x, y, z
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    rays, origin = stage.camera.rays(), np.array(stage.camera.position)
    expected, normals = np.full((2, 120, 160, 3), np.inf)
    geom, normal = np.zeros(1, np.int32), np.zeros(3)
    for row in range(30, 90):
        for column in range(50, 120):
            ray = rays[row, column]
            distance = mujoco.mj_ray(model, data, origin, ray, None, 1, -1, geom, normal)
            expected[row, column] = distance if distance >= 0.0 else np.inf
            normals[row, column] = normal
    inside = (slice(30, 90), slice(50, 120))
    depth, hit = expected[inside][..., 0], np.isfinite(expected[inside][..., 0])
    assert hit.sum() > 300
    np.testing.assert_array_equal(np.isfinite(found.depth[inside]), hit)
    # equal up to rounding: directions are normalized, and poses come from quaternions
    np.testing.assert_allclose(found.depth[inside][hit], depth[hit], atol=1e-10)
    np.testing.assert_allclose(found.normal[inside][hit], normals[inside][hit], atol=1e-10)


def test_a_window_shows_the_same_as_the_whole_image(tilted):
    stage, poses = tilted
    stage.tracked.renderer.place(poses)
    whole, window = stage.tracked.renderer.render(), stage.tracked.renderer.window(3)
    part = stage.tracked.renderer.render(window)
    assert part.depth.size < 0.5 * whole.depth.size
    np.testing.assert_array_equal(part.depth, whole.depth[window.slices])
    assert np.isfinite(part.depth).sum() == np.isfinite(whole.depth).sum()


def test_a_scene_is_its_parts_in_front_of_its_background(stage):
    scene = stage('box', 'ball', 'rod')
    data = mujoco.MjData(scene.model)
    mujoco.mj_forward(scene.model, data)
    whole = renderer.render_scene(scene.model, data, scene.camera)
    np.testing.assert_array_equal(whole, scene.image(scene.tracked.initial))


def test_a_camera_projects_points_along_its_rays_onto_their_pixels(tilted):
    camera = tilted[0].camera
    depth = np.random.default_rng(0).uniform(0.5, 3.0, (120, 160))
    points = np.array(camera.position) + camera.rays() * depth[..., None]
    seen = camera.project(points)
    rows, columns = np.mgrid[:120, :160]
    # rounding only
    np.testing.assert_allclose(seen, np.stack([columns, rows, depth], axis=-1), atol=1e-9)

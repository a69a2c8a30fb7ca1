"""Rendered depths are those of single rays; a robot at known positions is background."""

from cameras import looking_at
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import SceneError
from emppi_ros.model import scene
from emppi_ros.tracking import renderer
from emppi_ros.tracking.fitting import TrackedParts, TrackerConfig
from emppi_ros.tracking.renderer import MovingBackground, Window
from emppi_ros.tracking.tracker import PartTracker

MOCAP = """
<mujoco><worldbody>
  <body name="box" mocap="true"><geom type="box" size="0.12 0.08 0.06" pos="0.01 0 0.02"/></body>
</worldbody></mujoco>"""
SCENE = """
<mujoco>
  <worldbody>
    <geom type="plane" size="2 2 0.1"/>
    <body name="block" pos="0 0 0.06"><freejoint/><geom type="box" size="0.1 0.07 0.06"/></body>
    <body name="arm" pos="-0.6 0 0.08">
      <joint name="swing" axis="0 0 1"/>
      <geom type="capsule" fromto="0 0 0 0.45 0 0" size="0.04"/>
      <body name="hand" pos="0.45 0 0">
        <joint name="wrist" axis="0 0 1"/>
        <geom type="box" size="0.03 0.09 0.05"/>
      </body>
    </body>
    <body name="ball" pos="0.3 0.4 0.1"><freejoint/><geom type="sphere" size="0.1"/></body>
  </worldbody>
</mujoco>"""
WHOLE = Window(0, 120, 0, 160)
VIEW = looking_at(160, 120, 50.0, [0.7, -1.0, 0.8])


@pytest.fixture(scope='module')
def model():
    return mujoco.MjModel.from_xml_string(SCENE)


def positions(model, **joints):
    """Return positions of all joints, without ball and block."""
    data = scene.kinematics(model, model.qpos0)
    for name, value in joints.items():
        data.joint(name).qpos = value
    return data.qpos.copy()


def test_the_background_is_the_scene_without_parts_and_what_moves_otherwise(model):
    block, ball = (model.body(name).id for name in ('block', 'ball'))
    found = MovingBackground(model, [block], ['swing', 'wrist'], VIEW)
    for swing, wrist in ((0.0, 0.0), (0.4, -1.0)):
        data = scene.kinematics(model, positions(model, swing=swing, wrist=wrist))
        expected = renderer.render_scene(model, data, VIEW, [block, ball])
        found.move({'swing': swing, 'wrist': wrist})
        for window in (Window(50, 60, 70, 90), Window(40, 80, 60, 120), WHOLE):  # and in parts
            np.testing.assert_array_equal(found.crop(window), expected[window.slices])
    # what hangs on a joint that is not known is left out
    short = MovingBackground(model, [block], ['swing'], VIEW)
    short.move({'swing': 0.4})
    hand = model.body('hand').id
    np.testing.assert_array_equal(
        short.crop(WHOLE), renderer.render_scene(model, data, VIEW, [block, ball, hand])
    )


def test_rays_at_what_moves_alone_show_the_whole_scene(model):
    rng, data = np.random.default_rng(0), mujoco.MjData(model)
    fast = renderer.SceneRenderer(model, VIEW)
    for i in range(6):
        data.qpos[:] = model.qpos0 + rng.uniform(-0.5, 0.5, model.nq)
        if i == 5:  # the camera is in the ball
            first = model.jnt_qposadr[model.body('ball').jntadr[0]]
            data.qpos[first : first + 3] = VIEW.position
        mujoco.mj_kinematics(model, data)
        expected = renderer.render_scene(model, data, VIEW)
        np.testing.assert_array_equal(fast.render(data), expected)


def test_an_unknown_joint_is_named(model):
    with pytest.raises(SceneError, match="unknown joint 'swin' .did you mean 'swing'"):
        MovingBackground(model, [1], ['swin'], VIEW)


def test_a_hand_that_touches_a_part_is_not_taken_for_it(model):
    body = [model.body('block').id]
    known = MovingBackground(model, body, ['swing', 'wrist'], VIEW)
    tracked = TrackedParts(TrackerConfig(), model, body, VIEW)
    tracked.background = known
    start = renderer.body_poses(scene.kinematics(model, model.qpos0), body)
    tracker, rng = PartTracker(tracked, start), np.random.default_rng(0)
    for i in range(6):
        swing = 0.5 - 0.1 * i  # the hand comes to the block, and hides a part of it
        data = scene.kinematics(model, positions(model, swing=swing, wrist=0.0))
        depth = renderer.render_scene(model, data, VIEW, [model.body('ball').id])
        seen = np.where(np.isfinite(depth), depth, 0.0)
        depth = seen + tracked.noise(seen) * rng.normal(size=depth.shape)
        known.move({'swing': swing, 'wrist': 0.0})
        (found,) = tracker.track(0.1 * i, depth)
        assert found.status == 'tracked'
        # 5 mm: five of its standard deviations, about
        assert np.linalg.norm(found.position - [0.0, 0.0, 0.06]) < 0.005


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
    np.testing.assert_array_equal(whole, scene.image(scene.initial))


def test_a_camera_projects_points_along_its_rays_onto_their_pixels(tilted):
    camera = tilted[0].camera
    depth = np.random.default_rng(0).uniform(0.5, 3.0, (120, 160))
    points = np.array(camera.position) + camera.rays() * depth[..., None]
    seen = camera.project(points)
    rows, columns = np.mgrid[:120, :160]
    # rounding only
    np.testing.assert_allclose(seen, np.stack([columns, rows, depth], axis=-1), atol=1e-9)

"""Parts that stand on a table, and the camera above it, are found without first poses."""

import dataclasses

from cameras import looking_at
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import PoseError
from emppi_ros.core.pose import Poses
from emppi_ros.model import scene
from emppi_ros.tracking import renderer
from emppi_ros.tracking.fitting import TrackerConfig
from emppi_ros.tracking.parts import PartsFile
from emppi_ros.tracking.standing import find_start

TABLE = """
<mujoco>
  <worldbody>
    <geom type="box" pos="0 0 0.38" size="0.6 0.6 0.02"/>
    <body pos="0 0 0.43"><freejoint/>
      <geom type="box" size="0.08 0.04 0.03"/>
      <geom type="box" size="0.02 0.04 0.01" pos="0.05 0 0.04"/>
    </body>
  </worldbody>
</mujoco>"""
VIEW = looking_at(160, 120, 40.0, [0.5, -0.7, 1.1], [0.0, 0.0, 0.4])


@pytest.fixture
def file():
    model = mujoco.MjModel.from_xml_string(TABLE)
    start = renderer.body_poses(scene.kinematics(model, model.qpos0), [1])
    return PartsFile(('block',), model, (1,), start, TrackerConfig())


def photograph(file, place, yaw):
    """Return the true pose and an image of a part that stands on the table."""
    turn = Rotation.from_euler('z', yaw).as_matrix()[None]
    pose = Poses(np.array([[*place, 0.43]]), turn)
    parts = renderer.PartRenderer(file.model, file.bodies, VIEW)
    parts.place(pose)
    behind = renderer.render_background(file.model, file.bodies, VIEW)
    image = np.minimum(parts.render().depth, behind)
    rng, image = np.random.default_rng(7), np.where(np.isfinite(image), image, np.nan)
    return pose, image + 0.0037 * image**2 * rng.normal(size=image.shape)


def seen_by(camera, pose):
    """Return poses in the frame of a camera."""
    return Poses(np.array(camera.position), camera.matrix).inverse() @ pose


def close(found, true):
    turn = Rotation.from_matrix(found.rotation[0] @ true.rotation[0].T).magnitude()
    # the tracker goes on from here: a pixel is 7 mm, and bridges several times as much
    return np.linalg.norm(found.position - true.position) < 0.008 and turn < 0.07


@pytest.mark.parametrize(('place', 'yaw'), [((0.2, -0.1), 2.0), ((-0.15, 0.2), -1.0)])
def test_a_part_is_found_wherever_it_stands(file, place, yaw):
    true, image = photograph(file, place, yaw)
    found = find_start(file, VIEW, image)
    assert found.camera == VIEW and close(found.poses, true)


def test_a_camera_whose_pose_is_unknown_is_found_above_the_table(file):
    true, image = photograph(file, (0.1, 0.05), 0.6)
    at_origin = dataclasses.replace(VIEW, position=(0.0,) * 3, rotation=tuple(np.eye(3).ravel()))
    found = find_start(file, at_origin, image)
    assert close(seen_by(found.camera, found.poses), seen_by(VIEW, true))
    # its heading and place on the table are those of the file
    assert close(found.poses, file.start)


def test_an_empty_table_is_named(file):
    _, image = photograph(file, (5.0, 5.0), 0.0)
    with pytest.raises(PoseError, match='stands on the table of the scene'):
        find_start(file, VIEW, image)

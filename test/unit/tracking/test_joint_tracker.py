"""Joints are found in images, and parts stay on them."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.pose import Poses
from emppi_ros.tracking.joint_tracker import JointTracker
from emppi_ros.tracking.jointed_parts import JointedParts

from .conftest import errors

MODEL = """
<mujoco>
  <worldbody>
    <body name="box">
      <joint name="box" axis="0.2 0.3 0.9" pos="-0.1 0 0"/><geom size="0.01"/>
    </body>
    <body name="ball" pos="0.4 0 0">
      <joint name="ball" type="slide" axis="0 -0.6 0.8"/><geom size="0.01"/>
    </body>
  </worldbody>
  {}
</mujoco>"""


def jointed(more=''):
    return JointedParts(mujoco.MjModel.from_xml_string(MODEL.format(more)), ('box', 'ball'))


def test_joints_are_found_from_beside_and_followed(stage):
    pair, joints = stage('box', 'ball'), jointed()
    tracker = JointTracker(pair.tracked, joints, np.array([0.15, -0.05]))
    for i in range(3):
        truth = np.array([0.3 + 0.1 * i, 0.02 * i])
        image = pair.image(joints.places(truth).poses)
        found = tracker.track(i / 10, image)
        # exact depths; outlines, of pixels of 9 mm, add errors
        assert np.all(np.abs(tracker.qpos - truth) < [0.005, 0.001])
        assert [one.status for one in found] == ['tracked', 'tracked']
        places = joints.places(tracker.qpos).poses
        np.testing.assert_array_equal(found[0].rotation, places.rotation[0])
    np.testing.assert_allclose(tracker.velocity, [1.0, 0.2], atol=0.05)  # as followed


def test_joints_stay_where_they_were_when_no_part_is_seen(stage):
    pair, joints = stage('box', 'ball'), jointed()
    tracker = JointTracker(pair.tracked, joints, np.array([0.2, 0.0]))
    found = tracker.track(0.0, pair.background)
    assert [one.status for one in found] == ['lost', 'lost']
    np.testing.assert_array_equal(tracker.qpos, [0.2, 0.0])


@pytest.mark.parametrize('sd', [(0.0, 0.0), (0.003, 0.01)])  # m, rad: of the joint of the box
def test_covariances_are_those_of_errors_of_images_and_of_joints(stage, sd):
    pair = stage('box', 'ball')
    matrix = np.diag([sd[0] ** 2] * 3 + [sd[1] ** 2] * 3 + [0.0] * 6)
    numbers = ' '.join(map(str, matrix[np.triu_indices(12)]))
    joints = jointed(f'<custom><numeric name="box_covariance" data="{numbers}"/></custom>')
    qpos, squares = np.array([0.3, 0.0]), []
    places = joints.places(qpos)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        # the joint is elsewhere than the model says
        shift, turn = sd[0] * rng.normal(size=3), Rotation.from_rotvec(sd[1] * rng.normal(size=3))
        position, rotation = places.poses.position.copy(), places.poses.rotation.copy()
        position[0], rotation[0] = turn.apply(position[0]) + shift, turn.as_matrix() @ rotation[0]
        truth = Poses(position, rotation)
        found, _ = JointTracker(pair.tracked, joints, qpos).track(0.0, pair.noisy(truth, rng))
        error, covariance = errors(found, truth), found.covariance
        squares.append(error @ np.linalg.solve(covariance, error) / 6.0)
    # errors of outlines are taken for larger than they are, as those of free parts. Without
    # errors of joints there is one direction of six: less than 1/6, and else less than 1, plus 4.5
    # standard deviations of the mean of 10 chi squares over 1 or 6
    count = 6.0 if sd[0] else 1.0
    assert 0.3 < 6.0 / count * np.mean(squares) < 1.0 + 4.5 * np.sqrt(2.0 / 10.0 / count)

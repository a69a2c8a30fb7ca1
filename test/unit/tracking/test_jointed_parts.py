"""Parts on joints: derivatives of poses, couplings, wrong models; joints found in images."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import SceneError
from emppi_ros.core.pose import Poses
from emppi_ros.tracking.jointed_parts import JointedParts, JointTracker

from .conftest import errors

MODEL = """
<mujoco>
  <worldbody>
    <body name="base" pos="0.1 0 0.2" euler="10 20 30">
      <joint name="x" type="slide" axis="1 0.2 0"/><joint name="turn" pos="0 0.1 0"/>
      <geom size="0.02"/>
      <body name="lid" pos="0.2 0.1 0" euler="0 40 0">
        <joint name="lid" axis="0.1 0 1" pos="0.05 0 0"/>
        <joint name="thread" type="slide" axis="0.1 0 1"/>
        <geom size="0.02"/>
      </body>
    </body>
    <body name="ball" pos="0 0 1"><freejoint/><geom size="0.02"/></body>
  </worldbody>
  <equality><joint joint1="thread" joint2="lid" polycoef="0 0.01 0.002 0 0"/></equality>
</mujoco>"""
PARTS = ('lid', 'base', 'ball')
PAIR = """
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


def with_numeric(numbers):
    text = ' '.join(map(str, numbers))
    numeric = f'<custom><numeric name="lid_covariance" data="{text}"/></custom>'
    return mujoco.MjModel.from_xml_string(MODEL.replace('</mujoco>', f'{numeric}</mujoco>'))


def displacements(before, after):
    turn = Rotation.from_matrix(after.rotation @ np.swapaxes(before.rotation, 1, 2))
    return np.concatenate([after.position - before.position, turn.as_rotvec()], axis=1)


def test_jacobians_are_differences_of_poses_and_couplings_hold():
    jointed = JointedParts(mujoco.MjModel.from_xml_string(MODEL), PARTS)
    assert len(jointed.free) == 9  # x, turn, lid, and six of the ball
    rng = np.random.default_rng(1)
    qpos = jointed.moved(jointed.model.qpos0, rng.uniform(-1.0, 1.0, 9))
    lid = jointed.model.joint('lid').qposadr[0]
    thread = jointed.model.joint('thread').qposadr[0]
    np.testing.assert_allclose(qpos[thread], 0.01 * qpos[lid] + 0.002 * qpos[lid] ** 2)
    places = jointed.places(qpos)
    size = 1e-6
    for column, step in enumerate(size * np.eye(9)):
        ahead, behind = (jointed.places(jointed.moved(qpos, one)) for one in (step, -step))
        difference = displacements(behind.poses, ahead.poses) / (2.0 * size)
        # second order of the step, and rounding divided by it
        np.testing.assert_allclose(places.jacobian[:, :, column], difference, atol=1e-8)
        back = jointed.step_between(qpos, jointed.moved(qpos, step))
        np.testing.assert_allclose(back, step, atol=1e-12)


def test_joints_are_exact_unless_the_model_says_how_uncertain_they_are():
    exact = JointedParts(mujoco.MjModel.from_xml_string(MODEL), PARTS)
    assert not exact.places(exact.model.qpos0).covariance.any()
    matrix = np.zeros((12, 12))
    matrix[4, 4], matrix[8, 8] = 0.01**2, 0.002**2  # the joint about y, the part along z
    uncertain = JointedParts(with_numeric(matrix[np.triu_indices(12)]), PARTS)
    covariance = uncertain.places(uncertain.model.qpos0).covariance
    assert not covariance[6:].any()  # of base and ball
    data = mujoco.MjData(uncertain.model)
    mujoco.mj_kinematics(uncertain.model, data)
    base, lid = data.body('base'), data.body('lid')
    y, z = base.xmat.reshape(3, 3)[:, 1], lid.xmat.reshape(3, 3)[:, 2]
    turned = np.concatenate([np.cross(y, lid.xpos - base.xpos), y])
    moved = np.concatenate([z, np.zeros(3)])
    expected = 0.01**2 * np.outer(turned, turned) + 0.002**2 * np.outer(moved, moved)
    np.testing.assert_allclose(covariance[:6, :6], expected, atol=1e-15)


def test_models_that_do_not_fit_are_named():
    model = mujoco.MjModel.from_xml_string(MODEL)
    with pytest.raises(SceneError, match=r"unknown body 'lidd' \(did you mean 'lid'"):
        JointedParts(model, ['lidd'])
    with pytest.raises(SceneError, match="'lid_covariance': found 3 numbers, expected 78"):
        JointedParts(with_numeric([1.0, 2.0, 3.0]), PARTS)
    welded = MODEL.replace('<equality>', '<equality><weld body1="lid" body2="ball"/>')
    with pytest.raises(SceneError, match='found mjEQ_WELD, expected one that couples two joints'):
        JointedParts(mujoco.MjModel.from_xml_string(welded), PARTS)
    chained = MODEL.replace('</equality>', '<joint joint1="lid" joint2="x"/></equality>')
    with pytest.raises(SceneError, match="joint 'lid': it is coupled to a joint, and another"):
        JointedParts(mujoco.MjModel.from_xml_string(chained), PARTS)
    still = '<mujoco><worldbody><body name="lid"><geom size="0.1"/></body></worldbody></mujoco>'
    with pytest.raises(SceneError, match='no joint moves'):
        JointedParts(mujoco.MjModel.from_xml_string(still), ['lid'])


def jointed(more=''):
    return JointedParts(mujoco.MjModel.from_xml_string(PAIR.format(more)), ('box', 'ball'))


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

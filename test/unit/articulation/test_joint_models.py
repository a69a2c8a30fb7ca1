"""Laws of rigid motions, and of residuals of joints."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from emppi_ros.articulation import fitting, joint_models, rigid_motion
from emppi_ros.articulation.joint_models import DOF, JointModel
from emppi_ros.core.pose import Poses

EXACT = 1e-9  # a few operations in double precision on numbers of order 1


def random_poses(rng, *shape, spread=1.0):
    count = int(np.prod(shape))
    rotation = Rotation.random(count, random_state=rng).as_matrix().reshape(*shape, 3, 3)
    return Poses(spread * rng.standard_normal((*shape, 3)), rotation)


def single(rng):
    return random_poses(rng, 1).at(0)


def a_joint(kind, rng):
    pitch = np.array(0.05 if kind == 'screw' else 0.0)
    return JointModel(kind, single(rng), single(rng), pitch)


def observed(poses, sd=(0.002, 0.02), covariance=None):
    if covariance is None:
        covariance = np.tile(
            np.diag([sd[0] ** 2] * 3 + [sd[1] ** 2] * 3), (len(poses.position), 1, 1)
        )
    return fitting.observe(poses, covariance)


def matrix(poses):
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = poses.rotation, poses.position
    return result


def test_exp_is_the_matrix_exponential_and_log_its_inverse():
    rng = np.random.default_rng(0)
    twists = rng.standard_normal((20, 6))
    twists[:5] *= 1e-7  # the series of small angles
    for twist in twists:
        generator = np.zeros((4, 4))
        generator[:3, :3], generator[:3, 3] = rigid_motion.skew(twist[3:]), twist[:3]
        moved = rigid_motion.exp(twist)
        np.testing.assert_allclose(matrix(moved), expm(generator), atol=EXACT)
        np.testing.assert_allclose(rigid_motion.log(moved), twist, atol=1e-8)


def test_logarithms_near_half_a_turn_are_those_of_scipy():
    vectors = np.array([[3.1, 0.0, 0.0], [0.0, 0.0, np.pi - 1e-9], [1.8, -1.8, 1.8]])
    rotation = Rotation.from_rotvec(vectors)
    found = Rotation.from_rotvec(rigid_motion.rotation_vectors(rotation.as_matrix()))
    assert np.all((found * rotation.inv()).magnitude() < 1e-7)  # arccos near its end


def test_the_adjoint_moves_twists_as_conjugation_moves_motions():
    rng = np.random.default_rng(1)
    poses, twist = single(rng), 0.3 * rng.standard_normal(6)
    conjugate = poses @ rigid_motion.exp(twist) @ poses.inverse()
    moved = rigid_motion.exp(rigid_motion.adjoint(poses) @ twist)
    np.testing.assert_allclose(matrix(conjugate), matrix(moved), atol=EXACT)


@pytest.mark.parametrize('kind', DOF)
def test_residuals_vanish_exactly_on_the_joint(kind):
    rng = np.random.default_rng(2)
    model, q = a_joint(kind, rng), rng.uniform(-1.5, 1.5, (30, DOF[kind]))
    found_q, found = joint_models.fit_positions(model, observed(joint_models.predict(model, q)))
    assert found.squares.max() < 1e-12  # Gauss-Newton converged
    np.testing.assert_allclose(found_q, q, atol=1e-7)


@pytest.mark.parametrize('kind', DOF)
def test_residuals_do_not_change_when_parent_or_child_frames_move(kind):
    # the covariance moves with the frames: it is isotropic for a move of the parent, and for one
    # of the child in its own rotation only
    rng = np.random.default_rng(3)
    model, q = a_joint(kind, rng), rng.uniform(-1.0, 1.0, (20, DOF[kind]))
    noise = rigid_motion.exp(0.01 * rng.standard_normal((20, 6)))
    poses = noise @ joint_models.predict(model, q)
    _, before = joint_models.fit_positions(model, observed(poses))
    moved = single(rng)
    turned = Poses(np.zeros(3), single(rng).rotation)
    other = model._replace(
        frame=moved @ model.frame,
        child=model.child @ turned,
    )
    both = moved @ poses @ turned
    _, after = joint_models.fit_positions(other, observed(both))
    np.testing.assert_allclose(after.squares, before.squares, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize('kind', ['static', 'prismatic', 'revolute', 'screw'])
def test_residuals_do_not_change_when_parent_and_child_are_exchanged(kind):
    rng = np.random.default_rng(4)
    model, q = a_joint(kind, rng), rng.uniform(-1.0, 1.0, (25, DOF[kind]))
    parent = random_poses(rng, 25)
    exact = parent @ joint_models.predict(model, q)
    child = Poses(exact.position + 0.002 * rng.standard_normal((25, 3)), exact.rotation)
    shape = (25, 6, 6)
    ours = np.broadcast_to(np.diag([1e-6] * 3 + [1e-4] * 3), shape)
    theirs = np.broadcast_to(np.diag([4e-6] * 3 + [3e-4] * 3), shape)
    forth = parent.inverse() @ child
    back = child.inverse() @ parent
    one = observed(forth, covariance=rigid_motion.relative_covariance(parent, ours, child, theirs))
    two = observed(back, covariance=rigid_motion.relative_covariance(child, theirs, parent, ours))
    q_one, first = joint_models.fit_positions(model, one)
    q_two, second = joint_models.fit_positions(joint_models.inverted(model), two)
    # equal to second order in the noise: 2 mm and arms of 1 m, so some 1e-2
    np.testing.assert_allclose(second.squares, first.squares, rtol=0.05, atol=1e-6)
    np.testing.assert_allclose(q_two, q_one, atol=1e-4)


@pytest.mark.parametrize('oriented', [True, False])
@pytest.mark.parametrize('kind', DOF)
def test_derivatives_are_those_of_finite_differences(kind, oriented):
    rng = np.random.default_rng(5)
    model, q = a_joint(kind, rng), rng.uniform(-1.0, 1.0, (6, DOF[kind]))
    noise = rigid_motion.exp(0.02 * rng.standard_normal((6, 6)))
    poses = noise @ joint_models.predict(model, q)
    seen = observed(poses, sd=(0.01, 0.1 if oriented else 100.0))
    assert seen.oriented == oriented
    found = joint_models.residuals(model, q, seen)
    slope = found.slope(joint_models.derivatives(model, q))
    for i in range(slope.shape[-1]):
        step = np.zeros(slope.shape[-1])
        step[i] = 1e-6
        more = joint_models.residuals(joint_models.changed(model, step), q, seen)
        less = joint_models.residuals(joint_models.changed(model, -step), q, seen)
        # the series of the left Jacobian is cut after its second term: 1e-4 at 0.05 rad
        expected = (more.values - less.values) / 2e-6
        np.testing.assert_allclose(slope[..., i], expected, rtol=1e-3, atol=0.05)


def test_a_roll_that_was_not_measured_does_not_count():
    rng = np.random.default_rng(6)
    model, q = a_joint('revolute', rng), rng.uniform(-1.0, 1.0, (40, 1))
    exact = joint_models.predict(model, q)
    roll_axis = np.array([0.0, 0.0, 1.0])  # of the child, a cylinder
    rolls = Rotation.from_rotvec(rng.uniform(-1.0, 1.0, (40, 1)) * roll_axis).as_matrix()
    poses = Poses(exact.position, exact.rotation @ rolls)
    axes = exact.rotation @ roll_axis
    covariance = np.tile(np.diag([4e-6] * 3 + [3e-4] * 3), (40, 1, 1))
    blind = covariance.copy()
    blind[:, 3:, 3:] += 1e4 * axes[:, :, None] * axes[:, None, :]
    _, seen = joint_models.fit_positions(model, observed(poses, covariance=blind))
    _, trusted = joint_models.fit_positions(model, observed(poses, covariance=covariance))
    assert seen.squares.max() < 1e-3  # a roll of 1 rad at an sd of 100 rad is 1e-4
    assert np.median(trusted.squares) > 10.0
    assert np.all(observed(poses, covariance=blind).dimensions == 5)

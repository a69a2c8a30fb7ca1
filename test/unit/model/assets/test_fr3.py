"""The FR3 of the package is an FR3: its names, limits and kinematics."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core import paths
from emppi_ros.model import scene
from emppi_ros.robots.robot import load_robot

# Franka's documentation: modified (Craig) Denavit-Hartenberg parameters a [m], d [m], alpha [rad]
DH = [
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -np.pi / 2),
    (0.0, 0.316, np.pi / 2),
    (0.0825, 0.0, np.pi / 2),
    (-0.0825, 0.384, -np.pi / 2),
    (0.0, 0.0, np.pi / 2),
    (0.088, 0.0, np.pi / 2),
]
FLANGE, HAND_TURN = 0.107, -np.pi / 4
ROUNDING = 1e-12  # of seven products of numbers up to 1: a few 1e-16 each


def arm(name: str) -> mujoco.MjModel:
    return scene.load_scene(paths.find_scene(name).path)


def hand(model: mujoco.MjModel, prefix: str, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return position and rotation matrix of the hand's frame, in the base's."""
    data = mujoco.MjData(model)
    for i, angle in enumerate(q):
        data.joint(f'{prefix}_joint{i + 1}').qpos[0] = angle
    mujoco.mj_kinematics(model, data)
    base, body = data.body(f'{prefix}_link0'), data.body(f'{prefix}_hand')
    frame = base.xmat.reshape(3, 3)
    return frame.T @ (body.xpos - base.xpos), frame.T @ body.xmat.reshape(3, 3)


def by_table(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same by the table: Rot_x(alpha) Trans_x(a) Rot_z(q) Trans_z(d) per joint."""
    position, rotation = np.zeros(3), Rotation.identity()
    for (a, d, alpha), angle in zip(DH, q, strict=True):
        position = position + rotation.apply([a, 0.0, 0.0])
        rotation = rotation * Rotation.from_euler('x', alpha) * Rotation.from_euler('z', angle)
        position = position + rotation.apply([0.0, 0.0, d])
    position = position + rotation.apply([0.0, 0.0, FLANGE])
    return position, (rotation * Rotation.from_euler('z', HAND_TURN)).as_matrix()


@pytest.mark.parametrize('seed', range(20))
def test_forward_kinematics_are_the_table_s_and_the_panda_s(seed: int) -> None:
    limits = load_robot('fr3').limits.position
    q = np.random.default_rng(seed).uniform(limits.lower, limits.upper)
    position, rotation = hand(arm('fr3_follow.xml'), 'fr3', q)
    for other in (by_table(q), hand(arm('panda_push.xml'), 'panda', q)):
        np.testing.assert_allclose(position, other[0], atol=ROUNDING)
        np.testing.assert_allclose(rotation, other[1], atol=ROUNDING)


def test_joints_and_their_limits_are_the_robot_file_s() -> None:
    robot, model = load_robot('fr3'), arm('fr3_follow.xml')
    position = robot.limits.position
    for i, name in enumerate(robot.commanded):
        assert tuple(model.joint(name).range) == (position.lower[i], position.upper[i])
        assert model.actuator(name).trnid[0] == model.joint(name).id
        limits = robot.limits
        assert tuple(model.actuator(name).ctrlrange) == (-limits.velocity[i], limits.velocity[i])
        assert tuple(model.actuator(name).forcerange) == (-limits.effort[i], limits.effort[i])


def test_links_weigh_what_franka_publishes() -> None:
    """The sum over links 1 to 7 in franka_description: a slip in one entry would show."""
    model = arm('fr3_follow.xml')
    masses = [float(model.body(f'fr3_link{i}').mass[0]) for i in range(1, 8)]
    # entries are written with six digits: seven times half of the last one of 2.93547
    assert sum(masses) == pytest.approx(15.494801, abs=7 * 5e-6)


def test_an_arm_that_is_driven_by_torques_differs_in_its_actuators_and_damping_only() -> None:
    servos, torques = arm('fr3_follow.xml'), arm('fr3_pickup.xml')
    for i in range(1, servos.nbody):
        name = servos.body(i).name
        if name == 'target':
            continue
        for field in ('pos', 'quat', 'ipos', 'iquat', 'mass', 'inertia'):
            ours, others = getattr(torques.body(name), field), getattr(servos.body(name), field)
            assert np.array_equal(ours, others), (name, field)
        assert torques.body_gravcomp[torques.body(name).id] == servos.body_gravcomp[i] == 1.0
    velocity, effort = load_robot('fr3'), load_robot('fr3_torque')
    assert effort.limits == velocity.limits and effort.home == velocity.home
    for i, name in enumerate(effort.commanded):
        assert np.array_equal(torques.joint(name).range, servos.joint(name).range)
        assert torques.joint(name).armature == servos.joint(name).armature
        limit = effort.limits.effort[i]
        assert tuple(torques.actuator(name).ctrlrange) == (-limit, limit)

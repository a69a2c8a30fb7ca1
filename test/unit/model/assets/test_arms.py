"""The UR5e and the xArm7 of the package have the published kinematics, masses and limits."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core import paths
from emppi_ros.model import scene
from emppi_ros.robots.robot import load_robot

TURN = np.pi / 2
# Universal Robots, "DH Parameters for calculations of kinematics and dynamics": a [m], d [m],
# alpha [rad]
UR5E = [
    (0.0, 0.1625, TURN),
    (-0.425, 0.0, 0.0),
    (-0.3922, 0.0, 0.0),
    (0.0, 0.1333, TURN),
    (0.0, 0.0997, -TURN),
    (0.0, 0.0996, 0.0),
]
# UFACTORY, xArm7 User Manual, modified Denavit-Hartenberg parameters
XARM7 = [
    (0.0, 0.267, 0.0),
    (0.0, 0.0, -TURN),
    (0.0, 0.293, TURN),
    (0.0525, 0.0, TURN),
    (0.0775, 0.3425, TURN),
    (0.0, 0.0, TURN),
    (0.076, 0.097, -TURN),
]
SCENES = {
    'ur5e': 'ur5e_push.xml',
    'ur5e_position': 'ur5e_reach.xml',
    'xarm7': 'xarm7_push.xml',
}
FLANGES = {'ur5e': 'wrist_3_link', 'ur5e_position': 'wrist_3_link', 'xarm7': 'link7'}
ROUNDING = 1e-12  # of seven products of numbers up to 1: a few 1e-16 each


def arm(name: str) -> mujoco.MjModel:
    return scene.load_scene(paths.find_scene(SCENES[name]).path)


def product(steps: list[tuple[Rotation, list[float]]]) -> tuple[np.ndarray, np.ndarray]:
    """Return position and rotation matrix of successive steps: a rotation, then a translation."""
    position, rotation = np.zeros(3), Rotation.identity()
    for turn, way in steps:
        rotation = rotation * turn
        position = position + rotation.apply(way)
    return position, rotation.as_matrix()


def about(axis: str, angle: float) -> Rotation:
    return Rotation.from_euler(axis, angle)


def by_table(name: str, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pose of the flange in the base's frame, by the published table."""
    if name == 'xarm7':  # Rot_x(alpha) Trans_x(a) Rot_z(q) Trans_z(d) per joint
        steps = [
            step
            for (a, d, alpha), angle in zip(XARM7, q, strict=True)
            for step in ((about('x', alpha), [a, 0, 0]), (about('z', angle), [0, 0, d]))
        ]
        return product(steps)
    steps = [(about('z', np.pi), [0, 0, 0])]  # `base_link` and the table's base face each other
    for (a, d, alpha), angle in zip(UR5E, q, strict=True):
        # Rot_z(q) Trans_z(d) Trans_x(a) Rot_x(alpha) per joint
        steps += [(about('z', angle), [a, 0, d]), (about('x', alpha), [0, 0, 0])]
    return product(steps)


@pytest.mark.parametrize('name', SCENES)
def test_forward_kinematics_are_the_table_s(name: str) -> None:
    robot, model = load_robot(name), arm(name)
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    for _ in range(20):
        q = rng.uniform(robot.limits.position.lower, robot.limits.position.upper)
        for joint, angle in zip(robot.commanded, q, strict=True):
            data.joint(joint).qpos[0] = angle
        mujoco.mj_kinematics(model, data)
        flange = data.body(FLANGES[name])
        position, rotation = by_table(name, q)
        np.testing.assert_allclose(flange.xpos, position, atol=ROUNDING)
        np.testing.assert_allclose(flange.xmat.reshape(3, 3), rotation, atol=ROUNDING)


@pytest.mark.parametrize('name', SCENES)
def test_limits_of_the_model_are_the_robot_file_s(name: str) -> None:
    robot, model = load_robot(name), arm(name)
    limits = robot.limits
    for i, joint in enumerate(robot.commanded):
        assert tuple(model.joint(joint).range) == (
            limits.position.lower[i],
            limits.position.upper[i],
        )
        assert tuple(model.actuator(joint).forcerange) == (-limits.effort[i], limits.effort[i])
        commands = tuple(model.actuator(joint).ctrlrange)
        if robot.command == 'velocity':
            assert commands == (-limits.velocity[i], limits.velocity[i])
        else:
            assert commands == (limits.position.lower[i], limits.position.upper[i])


# kg, links without base and tool: the sums of the published tables
@pytest.mark.parametrize(
    'name, links, mass',
    [
        ('ur5e', ['shoulder_link', 'upper_arm_link', 'forearm_link', 'wrist_1_link',
                  'wrist_2_link', 'wrist_3_link'], 17.7),
        ('xarm7', [f'link{i}' for i in range(1, 8)], 6.98727),
    ],
)  # fmt: skip
def test_links_weigh_what_is_published(name: str, links: list[str], mass: float) -> None:
    model = arm(name)
    assert sum(float(model.body(link).mass[0]) for link in links) == pytest.approx(mass, abs=1e-9)


def test_ur5es_by_velocity_and_by_position_differ_in_their_servos_only() -> None:
    velocity, position = load_robot('ur5e'), load_robot('ur5e_position')
    assert velocity.limits == position.limits and velocity.home == position.home
    models = arm('ur5e'), arm('ur5e_position')
    names = [models[1].body(i).name for i in range(1, models[1].nbody)]
    for name in names:
        for field in ('pos', 'quat', 'ipos', 'iquat', 'mass', 'inertia'):
            ours, others = (getattr(model.body(name), field) for model in models)
            assert np.array_equal(ours, others), (name, field)
    for joint in velocity.commanded:
        for field in ('range', 'armature', 'damping'):
            ours, others = (getattr(model.joint(joint), field) for model in models)
            assert np.array_equal(ours, others), (joint, field)


@pytest.mark.parametrize('name', SCENES)
def test_the_rod_points_down_at_home(name: str) -> None:
    robot, model = load_robot(name), arm(name)
    data = mujoco.MjData(model)
    for joint, angle in zip(robot.commanded, robot.home, strict=True):
        data.joint(joint).qpos[0] = angle
    mujoco.mj_kinematics(model, data)
    gripper = data.site('gripper')
    # home is written with four digits: half a digit times a reach of 1 m, per joint
    np.testing.assert_allclose(gripper.xpos, [0.4, 0.0, 0.03], atol=7 * 5e-5)
    np.testing.assert_allclose(gripper.xmat.reshape(3, 3)[:, 2], [0, 0, -1], atol=7 * 5e-5)

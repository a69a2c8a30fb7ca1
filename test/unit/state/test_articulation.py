"""A jointed body's pose and its joint's position are each other's inverse, in every model."""

import mujoco
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.spatial.transform import Rotation

from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.parameters import Parameter
from emppi_ros.state import articulation
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.objects import bind_object
from emppi_ros.tasks.schema import TrackedObjectConfig

DOOR = """
<mujoco><option gravity="0 0 0"/>
  <worldbody>
    <body pos="0.5 -0.2 0.3" quat="0.8 0.2 -0.4 0.4">
      <body name="door" pos="0.1 0.2 -0.3" quat="0.5 0.1 0.7 -0.5">
        <joint name="door" type="slide" axis="1 0 0"/>
        <geom size="0.1 0.2 0.3" type="box" mass="1" pos="0.1 0 0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
MODEL = mujoco.MjModel.from_xml_string(DOOR)
ITEM = bind_object(MODEL, 'door', TrackedObjectConfig('door', 'jointed'))
PARAMETERS = [
    *(Parameter(f'axis{i}', 'jnt_articulation', 'door', i) for i in range(3)),
    *(Parameter(f'pivot{i}', 'jnt_pos', 'door', i) for i in range(3)),
]
COUNT = 40


@pytest.fixture
def models(rng):
    """Return an ensemble of random doors and drawers, and its articulation."""
    ensemble = Ensemble(MODEL, PARAMETERS, COUNT)
    ensemble.write(rng.normal(0.0, 1.0, (COUNT, 6)))
    joints = articulation.from_joints(ITEM, *ensemble.joint_axes(ITEM.joint))
    assert 5 < joints.hinge.sum() < COUNT - 5  # both kinds are there
    return ensemble, joints


def _track(position, rotation, velocity=(0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0)):
    zero = np.zeros((2, 2))
    turn = Rotation.from_matrix(rotation)
    return Track(0.0, position, np.array(velocity), turn, np.array(spin), zero, zero)


def _moved(ensemble, row, q, speed=0.0):
    """Return MuJoCo's own pose and velocity of the door in one model of an ensemble."""
    model = mujoco.MjModel.from_xml_string(DOOR)
    axis, place, hinge = ensemble.joint_axes(ITEM.joint)
    model.jnt_axis[0], model.jnt_pos[0] = axis[row], place[row]
    model.jnt_type[0] = 3 if hinge[row] else 2
    mujoco.mj_setConst(model, mujoco.MjData(model))
    data = mujoco.MjData(model)
    data.qpos[0], data.qvel[0] = q, speed
    mujoco.mj_forward(model, data)
    velocity = np.empty(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, ITEM.body, velocity, 0)
    return data.xpos[ITEM.body], data.xmat[ITEM.body].reshape(3, 3), velocity[3:], velocity[:3]


def test_poses_are_mujocos(models, rng):
    ensemble, joints = models
    q = rng.uniform(-2.0, 2.0, COUNT)
    position, rotation = articulation.poses(joints, q)
    for row in range(COUNT):
        expected = _moved(ensemble, row, q[row])
        # some ten products of numbers of order 1
        np.testing.assert_allclose(position[row], expected[0], rtol=0, atol=1e-13)
        np.testing.assert_allclose(rotation[row], expected[1], rtol=0, atol=1e-13)


def test_a_pose_that_a_model_can_reach_is_its_joint_position_and_velocity(models, rng):
    ensemble, joints = models
    for row in range(COUNT):
        q, speed = rng.uniform(-2.0, 2.0, 2)
        fitted, fitted_speed = articulation.fit(
            ITEM, joints, _track(*_moved(ensemble, row, q, speed))
        )
        # the same products, through a quaternion and an arc tangent
        assert fitted[row] == pytest.approx(q, abs=1e-11)
        assert fitted_speed[row] == pytest.approx(speed, abs=1e-11)
        position, rotation = articulation.residuals(
            joints, fitted, _track(*_moved(ensemble, row, q)[:2])
        )
        assert np.abs([position[row], rotation[row]]).max() < 1e-10


def test_another_pose_is_fitted_by_least_squares(models, rng):
    """Against a general minimizer, for poses a few standard deviations of a tracker off."""
    ensemble, joints = models
    sds = ITEM.settings.position_sd_m, ITEM.settings.rotation_sd_rad
    for row in range(COUNT):
        q = rng.uniform(-1.5, 1.5)
        position, rotation, *_ = _moved(ensemble, row, q)
        turn = Rotation.from_rotvec(sds[1] * rng.standard_normal(3)).as_matrix()
        seen = _track(position + sds[0] * rng.standard_normal(3), turn @ rotation)

        def cost(x, row=row, seen=seen):
            errors = articulation.residuals(joints, np.full(COUNT, x), seen)
            return sum(np.sum((e[row] / sd) ** 2) for e, sd in zip(errors, sds, strict=True))

        best = minimize_scalar(cost, bracket=(q - 0.1, q + 0.1), options={'xtol': 1e-10})
        fitted = articulation.fit(ITEM, joints, seen)[0][row]
        # 2 - 2 cos e and e^2 differ by e^4 / 12: for 0.05 rad the best angle moves by e^3 / 6,
        # 2e-5, at most
        assert fitted == pytest.approx(best.x, abs=2e-5)


def test_a_state_is_spread_only_where_something_is_jointed(models, make_task):
    task = make_task('block')
    state = task.start()
    ensemble = Ensemble(task.model, task.parameters, 3)
    assert articulation.fit_state(task, ensemble, state, {}) is state


def test_a_grasp_holds_two_bodies_together_until_it_is_let_go():
    model = mujoco.MjModel.from_xml_string("""
<mujoco><option gravity="0 0 0" integrator="implicitfast"/>
  <worldbody>
    <body name="hand"><joint name="x" type="slide" axis="1 0 0"/><geom size="0.01" mass="1"/>
      <site name="hand"/></body>
    <body name="thing"><joint name="y" type="slide" axis="1 0 0"/><geom size="0.01" mass="1"/>
      <site name="thing"/></body>
  </worldbody>
  <contact><exclude body1="hand" body2="thing"/></contact>
  <equality><connect name="grasp" site1="hand" site2="thing" active="false"/></equality>
  <actuator><velocity joint="x" kv="100"/></actuator>
</mujoco>""")
    ensemble = Ensemble(model, [], 2)
    start = State(np.zeros(2), np.zeros(2))
    controls = np.full((200, 1), 0.5)
    free = ensemble.predict(start, controls, 0.002)
    ensemble.activate([0])
    held = ensemble.predict(start, controls, 0.002)
    ensemble.activate([])
    again = ensemble.predict(start, controls, 0.002)
    assert np.array_equal(free.qpos, again.qpos) and np.all(free.qpos[:, 1] == 0.0)
    assert np.all(held.qpos[:, 0] > 0.1)
    # a constraint of MuJoCo's default stiffness gives way by some millimetres at 0.5 m/s
    np.testing.assert_allclose(held.qpos[:, 1], held.qpos[:, 0], rtol=0, atol=0.01)

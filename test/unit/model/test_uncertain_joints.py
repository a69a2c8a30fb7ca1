"""A joint whose axis is open: how it moves by theta is what the registry writes into models."""

import mujoco
import numpy as np

from emppi_ros.model import uncertain_joints
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.parameters import Parameter, with_parameters

DOOR = """
<mujoco>
  <worldbody>
    <body name="door" pos="0.1 0.2 0.3">
      <joint name="door" type="slide" axis="1 0 0"/>
      <geom size="0.1 0.2 0.3" type="box" mass="1"/>
    </body>
    <body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body>
  </worldbody>
</mujoco>
"""
MODEL = mujoco.MjModel.from_xml_string(DOOR)
OPEN = (
    Parameter('mass', 'body_mass', 'cart', lower=0.1),
    *(Parameter(f'axis{i}', 'jnt_articulation', 'door', i) for i in range(3)),
    *(Parameter(f'pivot{i}', 'jnt_pos', 'door', i) for i in (0, 2)),
)
CHOSEN = (
    Parameter('axis', 'jnt_axis', 'x', lower=0.0, upper=2.0, choices=((1, 0, 0), (0, 0, 2))),
)


def test_only_joints_whose_axis_is_open_are_found():
    (door,) = uncertain_joints.uncertain(MODEL, OPEN)
    assert door == (0, 'door', (1, 2, 3), (4, 5), None)
    (cart,) = uncertain_joints.uncertain(MODEL, CHOSEN)
    assert cart == (1, 'x', (0,), (), 0)
    assert uncertain_joints.uncertain(MODEL, OPEN[:1]) == []


def test_a_motion_is_that_of_the_ensembles_models(rng):
    theta = np.hstack([rng.uniform(1.0, 2.0, (30, 1)), rng.normal(size=(30, 5))])
    ensemble = Ensemble(MODEL, OPEN, 30)
    ensemble.write(theta)
    (door,) = uncertain_joints.uncertain(MODEL, OPEN)
    found = uncertain_joints.motion(MODEL, OPEN, door, theta)
    for one, other in zip(found, ensemble.joint_axes(door.id), strict=True):
        np.testing.assert_array_equal(one, other)
    kinds = uncertain_joints.kinds(MODEL, OPEN, door, theta)
    np.testing.assert_array_equal(kinds, np.argmax(np.abs(theta[:, 1:4]), axis=1) > 0)


def test_the_kind_of_a_choice_is_its_number():
    (cart,) = uncertain_joints.uncertain(MODEL, CHOSEN)
    theta = np.array([[0.0], [0.999], [1.0], [2.0]])
    np.testing.assert_array_equal(uncertain_joints.kinds(MODEL, CHOSEN, cart, theta), [0, 0, 1, 1])


def test_a_body_has_moved_where_the_true_joint_brings_it():
    (door,) = uncertain_joints.uncertain(MODEL, OPEN)
    qpos = np.array([[0.0, 9.0], [0.5, 0.0], [1.0, 0.0], [1.5, 0.0]])  # the cart does not count
    start = State(np.zeros(2), np.zeros(2))
    slide = with_parameters(MODEL, OPEN, np.array([1.0, 1.0, 0.1, 0.0, 0.0, 0.0]))
    assert uncertain_joints.first_moved(slide, door, start, qpos, 0.99) == 2
    hinge = with_parameters(MODEL, OPEN, np.array([1.0, 0.0, 0.0, 1.0, 0.4, 0.0]))
    # a chord of a circle of 0.4 m: 0.8 sin(q / 2)
    for i in (1, 2, 3):
        chord = 0.8 * np.sin(qpos[i, 0] / 2.0)
        assert uncertain_joints.first_moved(hinge, door, start, qpos, chord - 1e-9) == i
    assert uncertain_joints.first_moved(hinge, door, start, qpos, 0.8) is None
    about_itself = with_parameters(MODEL, OPEN, np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]))
    assert uncertain_joints.first_moved(about_itself, door, start, qpos, 1e-6) is None


def test_the_mean_axis_has_the_largest_mean_squared_cosine(rng):
    axes = rng.normal(size=(50, 3)) + [0.0, 0.0, 1.5]
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    shares = rng.dirichlet(np.ones(50))
    best = uncertain_joints.mean_axis(shares, axes)
    others = rng.normal(size=(1000, 3))
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    most = shares @ (axes @ best) ** 2 + 1e-12  # rounding
    assert np.all(shares @ (axes @ others.T) ** 2 <= most)
    pair = np.array([[np.cos(0.4), np.sin(0.4), 0.0], [-np.cos(0.4), np.sin(0.4), 0.0]])
    middle = uncertain_joints.mean_axis(np.array([0.5, 0.5]), pair)
    np.testing.assert_allclose(np.abs(middle), [1.0, 0.0, 0.0], atol=1e-7)  # of an eigenvector

"""Drake's plant moves like the MuJoCo model it was built from, but for contacts."""

import itertools
import logging

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import ConfigError
from emppi_ros.sim import drake_engine
from emppi_ros.sim.drake_engine import DrakeEngine
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.sim.true_parameters import draw_truth
from emppi_ros.tasks.task import load_task

GRAVITY = 9.81
ARM = """
<mujoco>
  <option timestep="0.001" integrator="implicitfast"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="upper" pos="0.1 0.2 1" euler="10 20 30">
      <joint name="shoulder" axis="0 1 0.5" pos="0.01 0 0.02" ref="20" damping="0.1"
        armature="0.05"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03" mass="1"/>
      <body name="fixed" pos="0 0 -0.4" gravcomp="1">
        <geom type="box" size="0.05 0.06 0.07" mass="0.3"/>
        <body name="lower" pos="0 0.1 0">
          <joint name="slide" type="slide" axis="0 1 1" stiffness="20" springref="0.05"
            damping="0.2"/>
          <geom type="box" size="0.03 0.02 0.2" pos="0.05 0 0" mass="0.5"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="shoulder" kp="20" kv="1" gear="1.5" forcerange="-4 4"/>
    <velocity name="slide" joint="slide" kv="5" ctrlrange="-0.2 0.2"/>
  </actuator>
</mujoco>
"""
TUMBLING = """
<mujoco>
  <option timestep="0.0001"/>
  <worldbody>
    <body name="plate" pos="0 0 1" euler="30 40 50">
      <freejoint/>
      <geom type="box" size="0.05 0.1 0.2" pos="0.03 0.02 0.01" mass="0.7"/>
    </body>
  </worldbody>
</mujoco>
"""
DRY = """
<mujoco>
  <option timestep="0.001" gravity="0 0 0"/>
  <worldbody>
    <body>
      <joint name="x" type="slide" axis="1 0 0" frictionloss="3" range="-1 0.1" limited="true"/>
      <geom size="0.1" mass="2" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><motor joint="x"/></actuator>
</mujoco>
"""
UNSUPPORTED = """
<mujoco>
  <worldbody>
    <body name="a"><joint type="ball"/><geom size="0.1" mass="1"/></body>
    <body name="b" gravcomp="0.5"><joint name="x" type="slide"/><joint name="y" type="slide"
      axis="0 1 0"/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <equality><joint joint1="x" joint2="y"/></equality>
</mujoco>
"""

installed = pytest.mark.skipif(
    drake_engine.DiagramBuilder is None, reason='Drake is not installed (extra `drake`)'
)


def _both(text, control=0.0, speed=None):
    """Return a model with a state of each engine."""
    model = mujoco.MjModel.from_xml_string(text)
    states = mujoco.MjData(model), mujoco.MjData(model)
    for data in states:
        data.ctrl[:] = control
        if speed is not None:
            data.qvel[:] = speed
    return model, *states


@pytest.mark.slow
@installed
@pytest.mark.parametrize(
    ('limit', 'tolerance'),
    [('', 1e-12), ('forcerange="-4 4"', 3e-3)],  # damping of a servo at its limit differs
)
def test_an_arm_moves_as_in_mujoco(limit, tolerance):
    """Anchors, references, springs, servos, welds and compensated gravity."""
    text = ARM.replace('forcerange="-4 4"', limit)
    model, ours, theirs = _both(text, control=[0.8, 0.1], speed=[0.5, -0.2])
    engine = DrakeEngine(model)
    furthest = 0.0
    for _ in range(1000):
        engine.step(ours)
        mujoco.mj_step(model, theirs)
        furthest = max(furthest, np.abs(ours.qpos - model.qpos0).max())
        # both treat damping implicitly, and all else explicitly
        np.testing.assert_allclose(ours.qpos, theirs.qpos, atol=tolerance)
        np.testing.assert_allclose(ours.qvel, theirs.qvel, atol=10.0 * tolerance)
    assert furthest > 0.1 and ours.time == pytest.approx(1.0)


@pytest.mark.slow
@installed
def test_a_free_body_tumbles_as_in_mujoco():
    model, ours, theirs = _both(TUMBLING, speed=[0.3, -0.2, 3.0, 4.0, -5.0, 6.0])
    engine = DrakeEngine(model)
    for _ in range(5000):
        engine.step(ours)
        mujoco.mj_step(model, theirs)
    # half a second of turning at 9 rad/s; both err in proportion to the step of 0.1 ms
    np.testing.assert_allclose(ours.qpos, theirs.qpos, atol=5e-3)
    np.testing.assert_allclose(ours.qvel, theirs.qvel, atol=5e-2)


@installed
def test_dry_friction_holds_and_slows_and_a_limit_stops():
    model, held, moving = _both(DRY)
    engine = DrakeEngine(model)
    held.ctrl[:], moving.ctrl[:] = 2.0, 8.0
    for _ in range(100):
        engine.step(held)
        engine.step(moving)
    assert 0.0 <= held.qpos[0] < 1e-3
    assert moving.qvel[0] == pytest.approx((8.0 - 3.0) / 2.0 * 0.1, rel=0.02)
    for _ in range(500):
        engine.step(moving)
    assert moving.qpos[0] == pytest.approx(0.1, abs=1e-3)  # it would be at 0.45 m


def _block(make_task, task_data, **settings):
    data = task_data('block')
    data['simulation'].update(engine='drake', **settings)
    return SimulatedRobot(make_task('block', data), np.array([1.0]), 0)


@installed
def test_a_block_slides_to_a_stop(make_task, task_data):
    robot = _block(make_task, task_data)
    for _ in range(200):
        robot.step()
    assert robot.data.qpos[1:4] == pytest.approx([0.0, 0.0, 0.05], abs=1e-4)  # it rests
    robot.data.qvel[1:3] = 0.6, 0.8
    for _ in range(150):
        robot.step()
    speed = np.linalg.norm(robot.data.qvel[1:3])
    assert speed == pytest.approx(1.0 - 0.4 * GRAVITY * 0.15, abs=0.02)
    for _ in range(300):
        robot.step()
    distance = np.linalg.norm(robot.data.qpos[1:3])
    assert distance == pytest.approx(1.0 / (2.0 * 0.4 * GRAVITY), rel=0.02)
    assert np.abs(robot.data.qvel[1:4]).max() < 1e-3


@installed
def test_a_pusher_pushes_the_block_and_not_the_floor(make_task, task_data):
    """The pusher would touch the floor if it were not for the collision bits."""
    robot = _block(make_task, task_data)
    robot.data.qpos[0] = 0.0
    robot.command(np.array([0.5]))
    for _ in range(1000):
        robot.step()
    assert robot.data.qvel[0] == pytest.approx(0.5, abs=0.1)
    gap = robot.data.qpos[1] - (robot.data.qpos[0] - 0.2)
    assert gap == pytest.approx(0.08, abs=2e-3)  # half a block and the radius of the pusher


@installed
def test_a_reset_gives_the_same_bits(make_task, task_data):
    robot = _block(make_task, task_data)
    ends = []
    for _ in range(2):
        robot.reset()
        robot.command(np.array([0.5]))
        for _ in range(700):
            robot.step()
        ends.append(np.concatenate([robot.data.qpos, robot.data.qvel]).tobytes())
    assert ends[0] == ends[1] and robot.data.qpos[1] > 0.1  # it was pushed


@installed
def test_a_mass_that_changes_accelerates_less(make_task, task_data):
    data = task_data('slider')
    data['simulation']['engine'] = 'drake'
    task = make_task('slider', data)
    robot = SimulatedRobot(task, draw_truth(task, 0, {'mass': [(0.0, 1.0), (0.05, 4.0)]}), 0)
    robot.command(np.array([10.0]))
    accelerations = []
    for _ in range(100):
        before = robot.data.qvel[0]
        robot.step()
        accelerations.append((robot.data.qvel[0] - before) / 0.001)
    assert accelerations[49] == pytest.approx(10.0, rel=0.05)  # less 0.25 N of damping
    assert accelerations[50] == pytest.approx(2.4, rel=0.05)


@installed
@pytest.mark.parametrize('name', ['panda_push', 'panda_reconfigure', 'fr3_follow'])
def test_our_arms_move_as_in_mujoco_where_they_touch_nothing(name):
    task = load_task(name)
    engine = DrakeEngine(task.model)
    ours, theirs = mujoco.MjData(task.model), mujoco.MjData(task.model)
    for data in (ours, theirs):
        data.qpos[:] = task.start().qpos
        data.ctrl[:] = 0.1 * np.cos(np.arange(7))
    for _ in range(50):  # of 10 ms
        engine.step(ours)
        mujoco.mj_step(task.model, theirs)
    arm = task.map.qpos
    np.testing.assert_allclose(ours.qpos[arm], theirs.qpos[arm], atol=1e-6)
    assert np.abs(ours.qpos[arm] - task.start().qpos[arm]).max() > 0.02


def test_pairs_have_the_friction_of_mujoco():
    model = load_task('panda_push').model
    model.geom('block').friction[0] = 0.2  # less than on the hand, which has priority over it
    geoms = list(range(model.ngeom))
    pairs = [p for p in itertools.combinations(geoms, 2) if drake_engine._may_touch(model, *p)]
    found = drake_engine._friction(model, geoms, pairs)
    names = {model.geom(i).name: found[i] for i in geoms}
    block = names['block']
    for other, expected in (('table', 0.2), ('gripper', 0.3), ('panda_hand_collision', 0.3)):
        combined = 2.0 * block * names[other] / (block + names[other])
        assert combined == pytest.approx(expected, rel=1e-6)


@installed
def test_what_drake_lacks_is_named():
    model = mujoco.MjModel.from_xml_string(UNSUPPORTED)
    lacking = 'equality constraints, ball joints, bodies with several joints, partly compensated'
    with pytest.raises(ConfigError, match=f'engine: drake does not support {lacking} gravity'):
        DrakeEngine(model)


def test_a_missing_package_is_named(monkeypatch, make_task, task_data):
    monkeypatch.setattr(drake_engine, 'DiagramBuilder', None)
    with pytest.raises(ConfigError, match=r"pip install 'emppi_ros\[drake\]'"):
        _block(make_task, task_data)
    assert logging.getLogger('drake').level == logging.ERROR

"""A task made from an MjModel and a cost in Python runs like one from YAML."""

import dataclasses

import command_series
import mujoco
import numpy as np
import pytest

import emppi_ros as emppi
from emppi_ros.core.errors import ConfigError, SceneError
from emppi_ros.model import scene
from emppi_ros.tasks.schema import LikelihoodConfig
from emppi_ros.tasks.task import load_task

XML = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body name="cart">
      <joint name="slider" type="slide" axis="1 0 0" range="-1.8 1.8" limited="true"/>
      <geom type="box" size="0.1 0.1 0.1" mass="1" contype="0" conaffinity="0"/>
      <body name="pole">
        <joint name="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size="0.03" mass="0.2" contype="0"/>
        <site name="tip" pos="0 0 1"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="force" joint="slider" ctrlrange="-20 20" ctrllimited="true"/></actuator>
</mujoco>"""
MASS = {
    'field': 'body_mass',
    'of': 'pole',
    'prior': {'distribution': 'uniform', 'lower': 0.05, 'upper': 0.6},
    'lower': 0.02,
}
SMALL = {'models': 4, 'rollouts': 2, 'horizon': 8}


def _model(xml=XML):
    return mujoco.MjModel.from_xml_string(xml)


def _cost(x):
    return x.qpos[..., 1] ** 2 + 1e-4 * x.ctrl[..., 0] ** 2


def _task(cost=_cost, parameters=None, xml=XML, **options):
    parameters = {'mass': MASS} if parameters is None else parameters
    options = {'planner': SMALL, 'belief': {'particles': 16}} | options
    return emppi.Task.from_model(_model(xml), cost, parameters, **options)


def test_a_run_learns_and_ends_at_success():
    task = _task(success=lambda x: x.qpos[..., 1] > -1.0, hold_s=0.1, truth={'mass': 0.3})
    loop = emppi.ClosedLoop(task, seed=0)
    trace = loop.run(1.0)
    assert trace.truth.tolist() == [0.3]
    assert trace.beliefs
    assert trace.success_time == pytest.approx(0.1, abs=0.03)


def test_the_same_seed_gives_the_same_bits():
    runs = [emppi.ClosedLoop(_task(), seed=3).run(0.5) for _ in range(2)]
    first, second = (np.array([value for _, value in run.commands]) for run in runs)
    assert first.tobytes() == second.tobytes()


def test_a_cost_in_python_equals_the_same_cost_in_yaml():
    yaml = load_task('cartpole_swingup')
    path, root = yaml.scene_file

    def cost(x):
        angle = 2.0 * np.sin(x.qpos[..., 1] / 2.0)
        spin, place, speed = x.qvel[..., 1], x.qpos[..., 0], x.qvel[..., 0]
        return 2.0 * angle**2 + 0.05 * spin**2 + 0.5 * place**2 + 0.05 * speed**2

    def terminal(x):
        angle = 2.0 * np.sin(x.qpos[..., 1] / 2.0)
        return 10.0 * angle**2 + 0.2 * x.qvel[..., 1] ** 2

    ours = emppi.Task.from_model(
        scene.load_scene(path, root=root), cost, {}, terminal_cost=terminal,
        start=[0.0, 3.14159], planner=yaml.planner,
    )  # fmt: skip
    plans = []
    for task in (yaml, ours):
        planner = emppi.Planner(task, np.random.default_rng(0), models=1)
        if task.parameters:
            theta = np.array([[0.2, 0.0167]])
            planner.set_belief(emppi.Belief(theta, np.zeros(1)))
        plan, _ = planner.plan_from(task.start(), 0.0, 0.03, command_series.held(np.zeros(1)))
        plans.append(plan.values)
    np.testing.assert_allclose(*plans, rtol=1e-6, atol=1e-9)


def test_a_cost_may_read_any_array_of_mjdata():
    task = _task(lambda x: -x.site_xpos[..., 0, 2] + 0.1 * x.qvel[..., 0] ** 2)
    assert task.stages[0].cost.record == ('qvel', 'site_xpos')
    assert len(emppi.ClosedLoop(task, seed=0).run(0.2).plan_s) > 1


@pytest.mark.parametrize(
    ('change', 'error', 'match'),
    [
        ({'cost': lambda x: x.qpos[0]}, ConfigError, r'cost: returned shape .*one value per'),
        ({'cost': lambda x: x.qpos[..., 0] + np.nan}, ConfigError, 'cost: is nan in the initial'),
        ({'cost': lambda x: x.qpose[..., 0]}, ConfigError, "did you mean 'qpos'"),
        ({'success': lambda x: x.qpos}, ConfigError, 'success: returned shape'),
        ({'parameters': {'m': MASS | {'of': 'pol'}}}, SceneError, "did you mean 'pole'"),
        ({'parameters': {'m': MASS | {'field': 'mass'}}}, ConfigError, "did you mean 'body_mass'"),
        ({'truth': {'mas': 0.3}}, ConfigError, "truth: .*did you mean 'mass'"),
        ({'start': [0.0]}, ConfigError, r'start: shape \(1,\), expected 2 finite values'),
        ({'planner': {'model': 3}}, ConfigError, "planner: .*did you mean 'models'"),
        ({'xml': XML.replace('ctrlrange="-20 20" ctrllimited="true"', '')}, SceneError,
         "actuator 'force' needs a ctrlrange"),
        ({'xml': XML.replace('name="hinge"', '')}, SceneError, 'joint 1 needs a name'),
    ],
)  # fmt: skip
def test_errors_name_what_is_wrong(change, error, match):
    with pytest.raises(error, match=match):
        _task(**change)


@pytest.mark.parametrize(
    ('part', 'change', 'match'),
    [
        ('planner', {'temperature': -1.0}, 'temperature: found -1.0, expected a number above 0'),
        ('planner', {'rate_hz': 0.0}, 'rate_hz: found 0.0, expected from 0.01'),
        ('planner', {'horizon': 8.5}, 'horizon: found 8.5, expected an integer'),
        ('planner', {'risk': 'most'}, "risk: found 'most', expected one of none"),
        ('belief', {'particles': 0}, 'particles: found 0, expected from 1'),
        ('belief', {'likelihood': LikelihoodConfig(joint_position_sd=-1.0)},
         'likelihood: joint_position_sd: found -1.0'),
        ('simulation', {'tracking_rate_hz': -5.0}, 'tracking_rate_hz: found -5.0'),
    ],
)  # fmt: skip
def test_values_of_config_objects_are_checked(part, change, match):
    wrong = dataclasses.replace(getattr(_task(), part), **change)
    with pytest.raises(ConfigError, match=f'{part}: {match}'):
        _task(**{part: wrong})


def test_config_objects_are_used_unchanged():
    first = _task(planner=SMALL | {'temperature': 2.0}, simulation={'tracking_delay_s': 0.1})
    again = _task(planner=first.planner, belief=first.belief, simulation=first.simulation)
    assert again.file == first.file


@pytest.mark.parametrize(
    ('change', 'match'),
    [
        ({'duration_s': -1.0}, 'duration_s: found -1.0'),
        ({'hold_s': -1.0}, 'hold_s: found -1.0, expected a non-negative number'),
        ({'truth': {'mass': np.nan}}, 'truth: mass: .* expected a finite number'),
    ],
)
def test_other_values_are_checked(change, match):
    with pytest.raises(ConfigError, match=match):
        _task(**change)


def test_the_model_of_the_caller_is_not_changed():
    model = _model()
    emppi.Task.from_model(model, _cost)
    assert model.opt.timestep == 0.01
    assert not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_AUTORESET


ODD = """<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
  <body>
    <joint name="a" axis="0 1 0" limited="true" range="20 60"/><geom size="0.1" pos="0.4 0 0"/>
  </body>
  <body pos="1 0 0"><joint name="b" type="slide"/><geom size="0.1" mass="1"/></body>
  <body pos="2 0 0"><joint name="c" type="slide"/><geom size="0.1" mass="1"/></body>
</worldbody>
<tendon>
  <fixed name="both"><joint joint="b" coef="1"/><joint joint="c" coef="-0.5"/></fixed>
</tendon>
<actuator>
  <position joint="a" kp="9" kv="1"/>
  <position name="pull" tendon="both" kp="9" kv="1" ctrllimited="true" ctrlrange="-1 1"/>
  <velocity name="brake" joint="c" kv="2"/>
</actuator></mujoco>"""


def test_actuators_of_tendons_are_commanded_and_those_of_another_kind_held():
    model = mujoco.MjModel.from_xml_string(ODD)
    task = emppi.Task.from_model(model, lambda x: (x.qpos**2).sum(-1))
    assert task.robot.command == 'position' and task.robot.commanded == ('a', 'pull')
    assert task.held == {'brake': 0.0}
    assert task.robot.home[0] == pytest.approx(np.radians(20))  # qpos0 is outside of the range
    position = np.array([0.5, 0.3, 0.2])
    assert task.commanded_state(position, position)[0] == pytest.approx([0.5, 0.3 - 0.5 * 0.2])
    loop = emppi.ClosedLoop(task, seed=0)
    trace = loop.run(0.5)
    assert not trace.faults and len(trace.plan_s) > 10
    np.testing.assert_array_equal(loop.robot.data.ctrl[2], 0.0)


def test_soft_limits_of_a_model_do_not_stop_a_run():
    # a motor pushes the joint by 0.3 rad beyond its soft limit
    text = (
        '<mujoco><option timestep="0.005" gravity="0 0 0"/><default><joint solreflimit="-20 -2"/>'
        '</default><worldbody><body><joint name="j" axis="0 0 1" limited="true" range="-10 10"/>'
        '<geom size="0.1" mass="1"/></body></worldbody><actuator><motor joint="j" gear="10" '
        'ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>'
    )
    model = mujoco.MjModel.from_xml_string(text)
    task = emppi.Task.from_model(model, lambda x: -x.qpos[..., 0])
    loop = emppi.ClosedLoop(task, seed=0)
    trace = loop.run(2.0)
    assert max(frame.qpos[0] for frame in trace.frames) > np.radians(10) + 0.1
    assert not trace.faults


def test_tendons_without_a_range_are_no_joints_that_turn_endlessly():
    text = ODD.replace('<position joint="a" kp="9" kv="1"/>', '<motor name="m" tendon="both"/>')
    text = text.replace('name="pull" tendon="both"', 'name="pull" joint="b"')
    text = text.replace('<motor name="m"', '<motor name="m" ctrllimited="true" ctrlrange="-2 2"')
    text = text.replace('<position name="pull" joint="b" kp="9" kv="1"', '<motor joint="b"')
    model = mujoco.MjModel.from_xml_string(text)
    task = emppi.Task.from_model(model, lambda x: (x.qpos**2).sum(-1))
    assert task.robot.commanded == ('m', 'b') and task.robot.continuous.tolist() == [1]
    trace = emppi.ClosedLoop(task, seed=0).run(0.3)
    assert not trace.faults and len(trace.plan_s) > 5

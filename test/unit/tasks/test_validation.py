"""Checks that simulate a task: parameters without an effect, and steps that are too coarse."""

import re

import mujoco
import pytest

from emppi_ros import Task
from emppi_ros.core import paths
from emppi_ros.tasks import validation
from emppi_ros.tasks.task import load_task

XML = """
<mujoco><option timestep="0.01"/><worldbody>
  <geom name="floor" type="plane" size="2 2 0.1"/>
  <body name="cart" pos="0 0 1">
    <joint name="slider" type="slide" axis="1 0 0" stiffness="1" damping="1"/>
    <geom size="0.1" mass="1" contype="0" conaffinity="0"/>
    <body name="arm" pos="0.1 0 0"><joint name="hinge" axis="0 0 1" damping="1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" contype="0" conaffinity="0"/>
    </body>
  </body>
  <body name="box" pos="0 1 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>
</worldbody><actuator>
  <velocity name="slider" joint="slider" kv="10" ctrlrange="-1 1"/>
  <velocity name="hinge" joint="hinge" kv="10" ctrlrange="-1 1"/>
</actuator></mujoco>
"""


def _task(field, of, element=0, **keys):
    prior = {'distribution': 'uniform', 'lower': 0.5, 'upper': 1.0}
    entry = {'field': field, 'of': of, 'element': element, 'prior': prior, 'lower': 0.1, **keys}
    model = mujoco.MjModel.from_xml_string(XML)
    return Task.from_model(model, lambda x: x.qpos[..., 0], {'p': entry})


@pytest.mark.parametrize(
    'place',
    [
        ('jnt_pos', 'hinge', 2),  # along its axis
        ('jnt_pos', 'slider', 1),
        ('jnt_axis', 'hinge', 2),  # its length, which is 1
        ('body_inertia', 'cart'),  # it does not turn
    ],
)
def test_what_moves_nothing_differently_is_told(place):
    (sentence,) = validation.without_effect(_task(*place))
    assert sentence.startswith(f"parameters: p: {place[0]} of '{place[1]}' has no effect: ")
    assert sentence == validation.without_effect(_task(*place))[0]


@pytest.mark.parametrize(
    'place',
    [
        ('jnt_pos', 'hinge', 1),
        ('jnt_axis', 'hinge', 0),
        ('jnt_stiffness', 'slider'),
        ('dof_damping', 'slider'),
        ('dof_armature', 'hinge'),
        ('actuator_gain', 'hinge'),
        ('body_mass', 'cart'),
        ('body_mass', 'box'),  # sliding without a push, it would not depend on its mass
        ('body_inertia', 'arm'),
        ('body_inertia', 'box'),
        # may have an effect in contacts to come, or later
        ('geom_friction', 'floor', 2),
        ('dof_frictionloss', 'hinge'),
    ],
)
def test_what_may_have_an_effect_is_not_told(place):
    assert validation.without_effect(_task(*place)) == []


def test_a_certain_parameter_and_none_at_all_are_not_told():
    fixed = {'distribution': 'fixed', 'value': 0.5}
    assert validation.without_effect(_task('jnt_pos', 'hinge', 2, prior=fixed)) == []
    model = mujoco.MjModel.from_xml_string(XML)
    assert validation.without_effect(Task.from_model(model, lambda x: x.qpos[..., 0])) == []


ARM = """
<mujoco><option integrator="{integrator}"/><worldbody>
  <body name="arm" pos="0 0 1"><joint name="hinge" axis="0 0 1"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="0.5"/>
  </body>
</worldbody><actuator>
  <velocity name="hinge" joint="hinge" kv="1" ctrlrange="-1 1"/>
</actuator></mujoco>
"""  # 1 / 0.015 kg m^2: an explicit integrator diverges with steps above 30 ms


def _arm(integrator, substeps):
    model = mujoco.MjModel.from_xml_string(ARM.format(integrator=integrator))
    planner = {'step_s': 0.08, 'rate_hz': 12.5, 'substeps': substeps, 'horizon': 10}
    return Task.from_model(model, lambda x: x.qpos[..., 0], planner=planner)


def test_a_step_that_diverges_is_told_with_one_that_does():
    sentence = validation.coarse_step(_arm('Euler', 1))
    assert "the physics step (0.08 s), is too coarse: after 0.8 s of motion 'hinge'" in sentence
    assert 'compared with steps of 0.001 s' in sentence
    assert sentence == validation.coarse_step(_arm('Euler', 1))
    substeps = int(re.search(r'use substeps: (\d+)$', sentence)[1])
    assert validation.coarse_step(_arm('Euler', substeps)) == ''
    assert substeps <= 16


def test_a_step_that_is_fine_enough_is_not_told():
    assert validation.coarse_step(_arm('implicitfast', 1)) == ''
    assert validation.coarse_step(_arm('Euler', 80)) == ''  # that of the simulator


@pytest.mark.slow
@pytest.mark.parametrize('name', paths.available('tasks'))
def test_tasks_of_the_package_have_parameters_with_an_effect_and_fine_steps(name):
    task = load_task(name)
    assert validation.without_effect(task) == []
    assert validation.coarse_step(task) == ''


@pytest.mark.parametrize(('variance', 'warned'), [(0.25, False), (1e-4, True)])
def test_noise_that_brings_the_robot_nowhere_near_an_object_is_named(
    make_task, task_data, variance, warned
):
    data = task_data('block')
    data['planner']['noise_variance'] = [variance]
    sentence = validation.short_noise(make_task('block', data))
    assert bool(sentence) is warned
    if warned:
        assert "'block' is" in sentence and 'raise noise_variance' in sentence

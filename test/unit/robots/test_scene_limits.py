"""Ranges of joints in robot and scene: contradictions are refused, differences are warnings."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import SceneError
from emppi_ros.robots import scene_limits
from emppi_ros.robots.robot import JointLimits, PositionLimits, Robot
from emppi_ros.tasks.task import load_task

XML = """
<mujoco><compiler angle="{unit}"/><worldbody><body>
  <joint name="j" type="{kind}" range="{low} {high}" limited="{limited}"/>
  <geom size="0.1"/>
</body></worldbody></mujoco>
"""
SCENE = {'unit': 'radian', 'kind': 'hinge', 'low': -2.0, 'high': 2.0, 'limited': 'true'}


def _model(**changes):
    return mujoco.MjModel.from_xml_string(XML.format(**{**SCENE, **changes}))


def _robot(home=0.5, low=-2.0, high=2.0):
    limits = JointLimits(PositionLimits((low,), (high,)), (1.0,), (1.0,))
    return Robot('r', ('j',), ('j',), 'velocity', (home,), limits)


MISTAKES = {
    'scene without radians': ({'unit': 'degree'}, (0.5,), 'lacks angle="radian"'),
    'home at zero': ({'unit': 'degree'}, (0.0,), 'limits: position.*lacks angle="radian"'),
    'other limits': ({'unit': 'degree', 'low': -1.5, 'high': 1.5}, (0.5,), 'lacks angle'),
    'a range from zero': ({'unit': 'degree', 'low': 0.0}, (0.5, 0.0, 2.0), 'lacks angle'),
    'robot in degrees': ({}, tuple(np.degrees([0.5, -2.0, 2.0])), 'robots are in radians'),
    'scene in degrees': ({'low': -114.6, 'high': 114.6}, (0.5,), 'with angle="radian".*remove'),
    'home out of range': ({'high': 0.3}, (0.5,), "0.5 of 'j' .* -2 to 0.3 .*: correct `home`"),
    'slide': ({'kind': 'slide', 'high': 0.03}, (0.5,), 'correct `home`'),
}


@pytest.mark.parametrize('case', MISTAKES)
def test_a_contradiction_is_refused_with_joint_numbers_and_remedy(case):
    scene, robot, words = MISTAKES[case]
    with pytest.raises(SceneError, match=f"'j'.*{words}|{words}"):
        scene_limits.check(_robot(*robot), _model(**scene))


@pytest.mark.parametrize(
    ('scene', 'words'),
    [
        ({}, ''),
        ({'low': -3.0, 'high': 3.0}, ''),
        ({'high': 1.95}, ''),
        ({'limited': 'false'}, ''),
        ({'high': 1.5}, "'j' has range -2 to 1.5 in the scene, and the robot has limits -2 to 2"),
    ],
)
def test_limits_beyond_the_range_are_a_warning(scene, words):
    model, robot = _model(**scene), _robot()
    scene_limits.check(robot, model)
    sentences = scene_limits.explain(robot, model)
    assert len(sentences) == bool(words)
    assert all(words in sentence for sentence in sentences)


def test_a_scene_in_degrees_is_refused_when_its_task_is_loaded(tmp_path):
    (tmp_path / 'arm.xml').write_text(
        XML.format(**{**SCENE, 'unit': 'degree'}).replace(
            '</mujoco>', '<actuator><velocity name="j" joint="j"/></actuator></mujoco>'
        )
    )
    (tmp_path / 'robot.yaml').write_text(
        'name: r\njoints: [j]\ncommanded: [j]\ncommand: velocity\nhome: [0.5]\nlimits:\n'
        '  {position: {lower: [-2], upper: [2]}, velocity: [1], acceleration: [1]}\n'
    )
    task = tmp_path / 'task.yaml'
    task.write_text(
        'name: t\nscene: arm.xml\nrobot: robot.yaml\n'
        'cost: {c: {residual: joint_velocity, joints: [j], weight: 1}}\n'
        'success: {residual: {residual: joint_velocity, joints: [j]}, below: 1}\n'
        'planner: {models: 1, rollouts: 1, horizon: 5, step_s: 0.02, substeps: 1, rate_hz: 20, '
        'temperature: 1, noise_variance: [1]}\n'
        'belief: {particles: 1, likelihood: {joint_velocity_sd: 1}}\nsimulation: {truth: {}}\n'
    )
    with pytest.raises(SceneError, match='task.yaml: line 3: robot: home: 0.5 .*degrees?'):
        load_task(str(task))

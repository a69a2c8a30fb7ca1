"""`emppi robot` describes the arm of a model, and a task that it can do."""

from pathlib import Path

import pytest

from emppi_ros.cli import main
from emppi_ros.robots.robot import load_robot
from emppi_ros.tasks.task import load_task

ARM = """<mujoco model="lab arm"><option timestep="0.002" integrator="implicitfast"/><worldbody>
  <body name="upper" pos="0 0 0.5" gravcomp="1">
    <joint name="shoulder" axis="0 0 1" limited="true" range="-114 114"/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" mass="1.5"/>
    <body name="lower" pos="0.4 0 0" gravcomp="1">
      <joint name="elbow" axis="0 0 1" damping="1"/>
      <geom type="capsule" fromto="0 0 0 0.35 0 0" size="0.025" mass="1"/>
      <body name="finger" pos="0.35 0 0"><joint name="f1" type="slide"/><geom size="0.02"/></body>
      <body name="thumb" pos="0.35 0 0"><joint name="f2" type="slide"/><geom size="0.02"/></body>
    </body></body>
  <body name="red cube" pos="1 1 0.1"><freejoint/><geom size="0.1"/></body>
  <geom type="plane" size="3 3 1"/>
</worldbody>
<equality><joint joint1="f1" joint2="f2"/></equality>
<actuator>
  <position joint="shoulder" kp="400" kv="40" ctrllimited="true" ctrlrange="-1.5 1.5"/>
  <position joint="elbow" kp="400" kv="40"/>
  <position name="grip" joint="f1" kp="100"/>
</actuator></mujoco>"""
LIMITS = ['--velocity', '2', '3', '--acceleration', '8']


@pytest.fixture
def arm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'arm.xml').write_text(ARM)
    return tmp_path


def test_an_unmodified_model_does_a_task_after_two_commands(arm, capsys):
    out = ['--out', 'arm.yaml', '--reach', 'reach.yaml']
    assert main(['robot', 'arm.xml', *out, *LIMITS]) == 0
    robot = load_robot('arm.yaml')
    assert robot.name == 'lab' and robot.joints == robot.commanded == ('shoulder', 'elbow')
    assert robot.limits.position.upper == pytest.approx((1.5, 1e6))  # range of the control; none
    assert robot.limits.velocity == (2.0, 3.0) and robot.limits.acceleration == (8.0, 8.0)
    assert robot.topics.commands['position'] == 'position_controller/commands'  # for emppi demo
    task = load_task('reach.yaml')
    assert task.held == {'f1': 0.0, 'f2': 0.0} and list(task.tracked) == ['red_cube']
    capsys.readouterr()
    assert main(['run', 'reach.yaml', '--duration', '3', '--json']) == 0
    assert '"success": true' in capsys.readouterr().out


def test_what_a_model_does_not_have_is_asked_for_by_name(arm, capsys):
    assert main(['robot', 'arm.xml', '--out', 'arm.yaml']) == 2
    text = capsys.readouterr().err
    assert '--velocity and --acceleration: missing' in text and 'shoulder, elbow' in text
    assert main(['robot', 'arm.xml', '--out', 'a.yaml', '--velocity', '1', '2', '3']) == 2
    assert '--velocity: 3 values, expected 1 or 2' in capsys.readouterr().err
    assert not list(arm.glob('*.yaml'))


def test_no_file_is_written_if_the_task_cannot_be(arm, capsys):
    (arm / 'motors.xml').write_text(
        ARM.replace('<position', '<motor').replace('kp="400" kv="40"', 'ctrllimited="true" '
        'ctrlrange="-9 9"').replace('kp="100"', '').replace(
        ' ctrllimited="true" ctrlrange="-1.5 1.5"', '')
    )  # fmt: skip
    out = ['--out', 'm.yaml', '--reach', 'r.yaml']
    assert main(['robot', 'motors.xml', *out, *LIMITS]) == 2
    assert 'commanded by effort' in capsys.readouterr().err
    assert not list(arm.glob('*.yaml'))


def test_models_are_listed_with_how_they_are_commanded_or_why_not(arm, capsys):
    (arm / 'still.xml').write_text('<mujoco><worldbody><geom size="1"/></worldbody></mujoco>')
    assert main(['robot', 'arm.xml', 'still.xml']) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'arm.xml    3 actuators by position'
    assert lines[1] == 'still.xml  has no actuators'
    assert lines[2] == '1 of 2 models can be used'
    assert main(['robot', 'arm.xml', 'still.xml', '--out', 'a.yaml']) == 2


def test_the_models_of_gymnasium_can_be_used(capsys):
    gymnasium = pytest.importorskip('gymnasium', reason='the extra `tasks` is not installed')
    folder = Path(gymnasium.__file__).parent / 'envs' / 'mujoco' / 'assets'
    assert main(['robot', *map(str, sorted(folder.glob('*.xml')))]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == f'{len(lines)} of {len(lines)} models can be used' and len(lines) > 10

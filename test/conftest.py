"""
Small scenes, robots and tasks for every test; no ROS here.

slider        a cart on a rail, pushed by a force: linear, so that closed forms exist
two-link      a double pendulum with two position servos
sliding block a pusher on a rail and a free block on a plane: contact and tracking
"""

from collections.abc import Callable, Iterator
import contextlib
import copy
import json
import os
from pathlib import Path
import subprocess
import sys
import time
from typing import Any

from hypothesis import settings
import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.tasks.task import Task, load_task

# the same examples in every run: a failure is then a change of the code
settings.register_profile('emppi', derandomize=True, deadline=None, max_examples=60, database=None)
settings.load_profile('emppi')

SLIDER = """
<mujoco model="slider">
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <site name="goal" pos="0.5 0 0"/>
    <body name="cart">
      <joint name="x" type="slide" axis="1 0 0" damping="0.5"/>
      <geom name="cart" type="box" size="0.1 0.1 0.1" mass="2"/>
    </body>
  </worldbody>
  <actuator><motor name="x" joint="x"/></actuator>
</mujoco>
"""

TWO_LINK = """
<mujoco model="two_link">
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <site name="goal" pos="0.3 0 0.6"/>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom name="upper" type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03" mass="1"/>
      <body name="lower" pos="0 0 -0.4">
        <joint name="elbow" type="hinge" axis="0 1 0" damping="0.1"/>
        <geom name="lower" type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03" mass="0.5"/>
        <site name="tip" pos="0 0 -0.3"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="shoulder" kp="20" kv="1"/>
    <position name="elbow" joint="elbow" kp="10" kv="0.5"/>
  </actuator>
  <sensor>
    <framepos name="tip_position" objtype="site" objname="tip"/>
    <jointvel name="elbow_speed" joint="elbow"/>
  </sensor>
</mujoco>
"""

BLOCK = """
<mujoco model="sliding_block">
  <option timestep="0.01" integrator="implicitfast" cone="elliptic"/>
  <worldbody>
    <site name="goal" pos="0.5 0 0.05"/>
    <geom name="floor" type="plane" size="2 2 0.1"/>
    <body name="pusher" pos="-0.2 0 0.06">
      <joint name="push" type="slide" axis="1 0 0" damping="1"/>
      <geom name="pusher" type="sphere" size="0.03" mass="1" contype="2" conaffinity="2"/>
      <site name="pusher" pos="0 0 0"/>
    </body>
    <body name="block" pos="0 0 0.05">
      <freejoint name="block"/>
      <geom name="block" type="box" size="0.05 0.05 0.05" mass="0.4" friction="0.4 0.005 0.0001"
            contype="3" conaffinity="3" priority="1" condim="4"/>
    </body>
  </worldbody>
  <actuator><velocity name="push" joint="push" kv="50"/></actuator>
  <sensor><force name="unused" site="pusher"/></sensor>
</mujoco>
"""


class _Plain(yaml.SafeDumper):
    """Writes a value twice rather than with an alias, which our loader refuses."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def dump(data: object) -> str:
    """Return YAML without aliases."""
    return yaml.dump(data, Dumper=_Plain, sort_keys=False)


SCENES = {'slider': SLIDER, 'two_link': TWO_LINK, 'block': BLOCK}


def _robot(command: str, joints: list[str], home: list[float]) -> dict[str, Any]:
    n = len(joints)
    return {
        'name': f'{command}_robot',
        'joints': joints,
        'commanded': joints,
        'command': command,
        'home': home,
        'limits': {
            'position': {'lower': [-2.0] * n, 'upper': [2.0] * n},
            'velocity': [1.0] * n,
            'acceleration': [5.0] * n,
            'effort': [10.0] * n,
        },
        'frame': 'world',
    }


ROBOTS = {
    'slider': _robot('effort', ['x'], [0.0]),
    'two_link': _robot('position', ['shoulder', 'elbow'], [0.3, -0.2]),
    'block': _robot('velocity', ['push'], [0.0]),
}

_PLANNER = {
    'models': 3,
    'rollouts': 4,
    'horizon': 6,
    'step_s': 0.05,
    'rate_hz': 20,
    'substeps': 5,
    'temperature': 0.1,
    'noise_variance': [0.25],
}


def _mass(of: str) -> dict[str, Any]:
    return {
        'field': 'body_mass',
        'of': of,
        'lower': 0.01,
        'upper': 20.0,
        'unit': 'kg',
        'prior': {'distribution': 'lognormal', 'mean': 1.0, 'sd': 0.5},
    }


def _task(name: str, distance: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        'name': name,
        'scene': f'{name}.xml',
        'robot': f'{name}_robot.yaml',
        'duration_s': 1.0,
        'parameters': parameters,
        'cost': {'reach': {'residual': 'distance', **distance, 'weight': 1.0}},
        'success': {'residual': {'residual': 'distance', **distance}, 'below': 0.02},
        'planner': copy.deepcopy(_PLANNER),
        'belief': {'particles': 12, 'likelihood': {'joint_velocity_sd': 0.01}},
        'simulation': {
            'truth': {
                key: {'distribution': 'uniform', 'lower': 0.5, 'upper': 3.0} for key in parameters
            },
            'wrong': dict.fromkeys(parameters, 9.0),
        },
    }


TASKS = {
    'slider': _task('slider', {'of': 'body:cart', 'to': 'goal'}, {'mass': _mass('cart')}),
    'two_link': _task('two_link', {'of': 'tip', 'to': 'goal'}, {'mass': _mass('lower')}),
    'block': {
        **_task(
            'block', {'of': 'body:block', 'to': 'goal', 'axes': 'xy'}, {'mass': _mass('block')}
        ),
        'objects': {'block': {'body': 'block', 'motion': 'planar'}},
        'belief': {
            'particles': 12,
            'likelihood': {'object_position_sd_m': 0.004, 'object_rotation_sd_rad': 0.03},
        },
    },
}


@pytest.fixture
def slider() -> mujoco.MjModel:
    """Return a cart of 2 kg on a rail."""
    return mujoco.MjModel.from_xml_string(SLIDER)


@pytest.fixture
def two_link() -> mujoco.MjModel:
    """Return a double pendulum with servos and sensors."""
    return mujoco.MjModel.from_xml_string(TWO_LINK)


@pytest.fixture
def block() -> mujoco.MjModel:
    """Return a pusher and a free block on a plane."""
    return mujoco.MjModel.from_xml_string(BLOCK)


@pytest.fixture
def task_data() -> Callable[[str], dict[str, Any]]:
    """Return a function name -> a task's YAML as a mapping of its own."""
    return lambda name: copy.deepcopy(TASKS[name])


@pytest.fixture
def robot_data() -> Callable[[str], dict[str, Any]]:
    """Return a function name -> a robot's YAML as a mapping of its own."""
    return lambda name: copy.deepcopy(ROBOTS[name])


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a task with scene and robot, and returns its path."""

    def write(
        name: str,
        data: dict[str, Any] | None = None,
        robot: dict[str, Any] | None = None,
        bodies: str = '',
    ) -> Path:
        data = copy.deepcopy(TASKS[name] if data is None else data)
        scene = SCENES[name].replace('</worldbody>', f'{bodies}</worldbody>')
        (tmp_path / f'{name}.xml').write_text(scene)
        robot_path = tmp_path / f'{name}_robot.yaml'
        robot_path.write_text(dump(ROBOTS[name] if robot is None else robot))
        if data.get('robot') == f'{name}_robot.yaml':
            data['robot'] = str(robot_path)
        path = tmp_path / f'{name}.yaml'
        path.write_text(dump(data))
        return path

    return write


@pytest.fixture
def make_task(write_task: Callable[..., Path]) -> Callable[..., Task]:
    """Return a function that loads one of the small tasks."""
    return lambda *arguments, **keys: load_task(str(write_task(*arguments, **keys)))


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with a fixed seed."""
    return np.random.default_rng(20200127)


@pytest.fixture(scope='session')
def renderer():
    """Skip on a machine without off-screen rendering."""
    from emppi_ros.viz import renderer as rendering

    try:
        rendering.check_renderer()
    except rendering.RenderError:
        pytest.skip('no off-screen rendering on this machine')


class Cluster:
    """A scheduler and workers of its own, each a process on this machine."""

    def __init__(self, folder: Path) -> None:
        """Start it."""
        self._file = folder / 'scheduler.json'
        self._processes = {'scheduler': self._start('scheduler', '--port', '0')}
        self.add_worker()
        self.address = ''

    def wait(self) -> None:
        """Wait until the scheduler has written where it is, all of it."""
        while not self.address:
            assert self._processes['scheduler'].poll() is None
            time.sleep(0.05)
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                self.address = json.loads(self._file.read_text())['address']

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen:
        command = [
            sys.executable, '-m', f'distributed.cli.dask_{kind}', '--host', '127.0.0.1',
            '--scheduler-file', str(self._file), '--no-dashboard', *arguments,
        ]  # fmt: skip
        environment = {**os.environ, 'OMP_NUM_THREADS': '1'}
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def add_worker(self) -> None:
        """Start a worker with two threads."""
        self._processes['worker'] = self._start(
            'worker', '--nthreads', '2', '--no-nanny', '--local-directory', str(self._file.parent)
        )

    def kill(self, *kinds: str) -> None:
        """Kill the scheduler, or the worker that was added last."""
        for kind in kinds:
            self._processes[kind].kill()
            self._processes[kind].wait()

    def stop(self) -> None:
        """Kill all."""
        self.kill(*self._processes)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Return a cluster of one worker with two threads."""
    pytest.importorskip('distributed', reason='Dask is not installed (extra `cluster`)')
    started = Cluster(tmp_path)
    try:
        started.wait()
        yield started
    finally:
        started.stop()

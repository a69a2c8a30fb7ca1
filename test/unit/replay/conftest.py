"""A run without ROS, recorded as the nodes and the recorder do."""

import json
from pathlib import Path

from mcap_ros2.writer import Writer
import numpy as np
import pytest

from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.bridge.commander import BridgeConfig, Commander
from emppi_ros.bridge.monitors import Measurement
from emppi_ros.core.errors import EmppiError
from emppi_ros.journal import journal
from emppi_ros.journal.journal import Journal, describe
from emppi_ros.planning.planner import Planner
from emppi_ros.recordings.message_tables import NANO, belief_table, nanoseconds
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.sim.true_parameters import draw_truth
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import parse_task, task_text

RULE = '\n' + '=' * 80 + '\nMSG: '
TIME = f'{RULE}builtin_interfaces/Time\nint32 sec\nuint32 nanosec'
HEADER = f'{RULE}std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id{TIME}'
TYPES = {
    'std_msgs/msg/String': 'string data',
    'sensor_msgs/msg/JointState': 'std_msgs/Header header\nstring[] name\nfloat64[] position\n'
    f'float64[] velocity\nfloat64[] effort{HEADER}',
    'sensor_msgs/msg/PointCloud2': 'std_msgs/Header header\nuint32 height\nuint32 width\n'
    'sensor_msgs/PointField[] fields\nbool is_bigendian\nuint32 point_step\nuint32 row_step\n'
    f'uint8[] data\nbool is_dense{HEADER}{RULE}sensor_msgs/PointField\nstring name\n'
    'uint32 offset\nuint8 datatype\nuint32 count',
    'trajectory_msgs/msg/JointTrajectory': 'std_msgs/Header header\nstring[] joint_names\n'
    f'trajectory_msgs/JointTrajectoryPoint[] points{HEADER}'
    f'{RULE}trajectory_msgs/JointTrajectoryPoint\nfloat64[] positions\nfloat64[] velocities\n'
    'float64[] accelerations\nfloat64[] effort\nbuiltin_interfaces/Duration time_from_start'
    f'{RULE}builtin_interfaces/Duration\nint32 sec\nuint32 nanosec',
}
TOPICS = {
    'emppi/task': 'std_msgs/msg/String',
    journal.PLANNER: 'std_msgs/msg/String',
    journal.BELIEF: 'std_msgs/msg/String',
    'joint_states': 'sensor_msgs/msg/JointState',
    'emppi/plan': 'trajectory_msgs/msg/JointTrajectory',
    'emppi/belief': 'sensor_msgs/msg/PointCloud2',
}


def stamp(seconds):
    whole, rest = divmod(nanoseconds(seconds), NANO)
    return {'sec': whole, 'nanosec': rest}


def header(seconds):
    return {'stamp': stamp(seconds), 'frame_id': ''}


class Tape:
    """Messages of a run, to be written as a bag: (topic, seconds, message)."""

    def __init__(self, rows=()):
        self.rows = list(rows)

    def add(self, topic, now, message):
        self.rows.append((topic, now, message))

    def write(self, path: Path, chunk_size=2**14, prefix='/') -> Path:
        with path.open('wb') as file, Writer(file, chunk_size) as writer:
            schemas = {name: writer.register_msgdef(name, text) for name, text in TYPES.items()}
            for topic, now, message in self.rows:
                at = nanoseconds(now)
                writer.write_message(prefix + topic, schemas[TOPICS[topic]], message, at, at)
        return path


class Graph:
    """Robot, bridge, and both sessions, in the place of processes."""

    def __init__(self, name, seed, tape, prior='', epoch=0.0):
        self.text, self.epoch = task_text(name), epoch
        self.task, self.tape = parse_task(self.text), tape
        task = self.task.with_prior_text(prior) if prior else self.task
        self.robot = SimulatedRobot(self.task, draw_truth(self.task, seed), seed)
        about = describe(task, self.text, seed, prior)
        self.planner = Journal(Planner(self.task, seed), about)
        self.belief = Journal(BeliefSession(task, seed), about)
        self.config = BridgeConfig(plan_lost_s=1e9, late_plans=10**9)
        self.bridge = Commander(self.config, self.task.robot)
        tape.add('emppi/task', epoch, {'data': self.text})

    def tune(self, **values):
        """Go on with other numbers; dots in their names are written as __."""
        values = {name.replace('__', '.'): value for name, value in values.items()}
        self.task = self.task.tuned(tuning.tune(self.task.data, values))
        text = tuning.to_text(self.task.data)
        self.tape.add('emppi/task', self.epoch + self.robot.time, {'data': text})
        for one in (self.planner, self.belief):
            one.session.tune(json.dumps(self.task.data))

    def run(self, seconds, listen_from=0.0):
        task, robot, rate = self.task, self.robot, self.config.rate_hz
        dt = task.simulation.timestep_s
        period = round(1.0 / task.planner.rate_hz / dt)
        every = max(1, round(1.0 / rate / dt))
        for step in range(round(seconds / dt)):
            now = self.epoch + robot.time
            listeners = int(now >= listen_from)
            if step % every == 0:
                self.measure(now)
                self.command(now)
            if step % (10 * every) == 0:
                self.learn(now, listeners)
            if step % period == 0:
                self.plan(now, listeners)
            robot.step()

    def measure(self, now):
        reading = self.robot.read_joints()
        reading = reading._replace(stamp=self.epoch + reading.stamp)
        message = {
            'header': header(reading.stamp),
            'name': list(self.task.robot.joints),
            'position': reading.position.tolist(),
            'velocity': reading.velocity.tolist(),
        }
        self.tape.add('joint_states', now, message)
        for one in (self.planner, self.belief):
            one.session.add_joints(reading.stamp, reading.position, reading.velocity)
        rows = self.task.commanded_rows
        position, velocity = reading.position[rows], reading.velocity[rows]
        self.bridge.measure(Measurement(now, reading.stamp, position, velocity))
        if not self.bridge.machine.armed:
            self.bridge.arm(now)
        for pose in self.robot.read_poses():
            for one in (self.planner, self.belief):
                one.session.add_pose(pose.name, self.epoch + pose.stamp, *pose.pose)

    def command(self, now):
        command, _ = self.bridge.step(now)
        self.bridge.follow(now, command.value)
        self.robot.command(command.value)
        for one in (self.planner, self.belief):
            one.session.add_command(now, command.value)

    def learn(self, now, listeners):
        self.belief.begin_cycle(listeners, now)
        said = self.belief.session.update()
        while self.belief.session.ready:
            said = said + self.belief.session.update()
        said = said or [self.belief.session.stamped(now)]
        for one in said:
            table = belief_table(one.belief)
            names = ['weight', *(p.name for p in self.task.parameters)]
            fields = [
                {'name': name, 'offset': 8 * i, 'datatype': 8, 'count': 1}
                for i, name in enumerate(names)
            ]
            size = {'point_step': 8 * len(names), 'row_step': table.nbytes}
            cloud = {'header': header(one.stamp), 'height': 1, 'width': len(table), **size}
            self.tape.add(
                'emppi/belief', now, {**cloud, 'fields': fields, 'data': table.tobytes()}
            )
            self.planner.session.set_belief(one.belief)
        self.send(journal.BELIEF, self.belief, now)

    def plan(self, now, listeners):
        self.planner.begin_cycle(listeners, now)
        try:
            plan = self.planner.session.plan(now)
        except EmppiError:
            self.planner.session.reset_plan()
        else:
            self.bridge.receive(plan)
            field = {'velocity': 'velocities', 'effort': 'effort'}[self.task.robot.command]
            points = [
                {field: values.tolist(), 'time_from_start': stamp(time)}
                for time, values in zip(plan.times.tolist(), plan.values, strict=True)
            ]
            message = {'header': header(plan.start), 'points': points}
            message['joint_names'] = list(self.task.robot.commanded)
            self.tape.add('emppi/plan', now, message)
        self.send(journal.PLANNER, self.planner, now)

    def send(self, topic, one, now):
        if text := one.take():
            self.tape.add(topic, now, {'data': text})


@pytest.fixture(scope='session')
def make_tape():
    """Return a function that runs a task and returns its tape."""

    def make(name, seconds, seed=3, listen_from=0.0, prior=''):
        tape = Tape()
        Graph(name, seed, tape, prior).run(seconds, listen_from)
        return tape

    return make


@pytest.fixture(scope='session')
def make_swapped():
    """Return a function that runs, tunes after 0.3 s, and goes over to a task after 0.7 s."""

    def make(listen_from=0.0, first='panda_push', then='panda_reconfigure'):
        tape = Tape()
        one = Graph(first, 3, tape)
        one.run(0.3, listen_from)
        one.tune(planner__temperature=0.05, belief__likelihood__joint_velocity_sd=0.1)
        one.run(0.4, listen_from)
        Graph(then, 3, tape, epoch=0.7).run(0.4)
        return tape

    return make


@pytest.fixture(scope='session')
def swapped(make_swapped):
    """Such a run, heard from its beginning."""
    return make_swapped()


@pytest.fixture(scope='session')
def tape(make_tape):
    """A short run of the cart-pole."""
    return make_tape('cartpole_swingup', 0.8)


@pytest.fixture
def bag(tape, tmp_path):
    """The bag of that run."""
    return tape.write(tmp_path / 'run.mcap')


@pytest.fixture
def rng():
    return np.random.default_rng(0)

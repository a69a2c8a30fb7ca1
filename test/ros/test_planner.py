"""The planner plans from what is good and new, and says why when it does not."""

import signal
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from geometry_msgs.msg import PoseStamped
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState, PointCloud2
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.core import config
from emppi_ros.core.errors import AllDivergedError, StaleInputError
from emppi_ros.core.pose import Pose
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.diagnostics import ERROR
from emppi_ros.nodes.common.graph import NodeSpec
from emppi_ros.nodes.planner.node import PlannerNode
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.priors import distributions
from emppi_ros.priors.particles import uniform
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import load_task


def believes(node):
    """Return whether a belief has been received."""
    return node.report().values['age_s emppi/belief'] < np.inf


class World:
    """Sends everything that a planner needs."""

    def __init__(self, harness, name):
        self.harness, self.task = harness, load_task(name)
        self.robot = self.task.robot
        self._joints = harness.publisher(JointState, 'joint_states', qos.SENSOR)
        self._applied = harness.publisher(JointState, 'emppi/applied')
        self._belief = harness.publisher(PointCloud2, 'emppi/belief', qos.LATCHED)
        self._poses = {
            name: harness.publisher(PoseStamped, f'tracking/{name}', qos.SENSOR)
            for name in self.task.objects
        }
        self.frame = self.robot.frame
        self.order = list(range(len(self.robot.joints)))
        self._believed_at = -np.inf

    def believe(self):
        rng = np.random.default_rng(5)
        theta = distributions.sample(self.task.parameters, self.task.priors, 20, rng)
        self._belief.publish(belief_cloud.write_belief(self.task, 0.0, uniform(theta)))

    def keep_believing(self):
        self.harness.feeds.append(self._believe_at_10_hz)

    def _believe_at_10_hz(self):
        if time.monotonic() > self._believed_at + 0.1:
            self._believed_at = time.monotonic()
            self.believe()

    def measure(self, stamp=None):
        stamp = self.harness.now() if stamp is None else stamp
        home = np.array(self.robot.home)
        message = convert.write_joints(self.robot, stamp, home, np.zeros_like(home))
        message.name = [message.name[i] for i in self.order]
        message.position = [message.position[i] for i in self.order]
        self._joints.publish(message)
        rest = np.zeros(len(self.robot.commanded))
        self._applied.publish(convert.write_applied(self.robot, convert.to_stamp(stamp), rest))
        for name, publisher in self._poses.items():
            item = self.task.objects[name]
            qpos = self.task.start().qpos[item.qpos : item.qpos + 7]
            message = convert.write_pose(self.robot.frame, stamp, Pose(qpos[:3], qpos[3:]))
            message.header.frame_id = self.frame
            publisher.publish(message)

    def keep_measuring(self):
        self.harness.feeds.append(self.measure)


@pytest.mark.slow
def test_it_publishes_the_task_and_plans(harness):
    texts = harness.listen(String, 'emppi/task', qos.LATCHED)
    heard = harness.listen(JointTrajectory, 'emppi/plan')
    world = World(harness, 'cartpole_swingup')
    harness.make(PlannerNode, task='cartpole_swingup')
    world.keep_believing()
    world.keep_measuring()
    harness.spin_until(lambda: len(heard) >= 3)
    assert 'cartpole_swingup' in texts[0].data
    plan = convert.read_plan(world.robot, heard[-1], convert.to_seconds(heard[-1].header.stamp))
    assert not np.any(plan.values[-1])  # it ends at rest
    harness.spin_until(lambda: 'planner' in harness.statuses)
    _, _, values = harness.says('planner')
    assert float(values['plan_ms_p50']) > 0.0 and int(values['cycles']) >= 3


def test_a_permuted_joint_state_gives_the_identical_plan(harness):
    world = World(harness, 'panda_push')
    messages = []
    for stamp, order in ((1000.0, world.order), (1000.0, [3, 0, 6, 1, 5, 2, 4])):
        node = harness.make(PlannerNode, task='panda_push', autostart=False)
        node.trigger_configure()
        world.order = order
        world.keep_believing()

        def told(node=node, stamp=stamp):
            world.measure(stamp)
            node.inputs.poll()
            return np.isfinite(list(node.inputs.ages(stamp).values())).all() and believes(node)

        harness.spin_until(told)
        messages.append(node.plan(stamp + 0.01))
        node.shutdown()
        harness.executor.remove_node(node)
        harness.nodes.remove(node)
        node.destroy_node()
    assert any(np.any(point.velocities) for point in messages[0].points)
    assert messages[0] == messages[1]


def test_without_inputs_there_is_no_plan_and_the_reason_is_said(harness):
    heard = harness.listen(JointTrajectory, 'emppi/plan')
    world = World(harness, 'cartpole_swingup')
    harness.make(PlannerNode, task='cartpole_swingup')
    missing = (ERROR, 'no belief received on emppi/belief yet')  # after the first cycle
    harness.spin_until(lambda: harness.says('planner')[:2] == missing)
    world.keep_believing()
    harness.spin_until(lambda: 'no message newer' in harness.says('planner')[1])
    assert not heard
    world.keep_measuring()
    harness.spin_until(lambda: heard)
    harness.feeds.remove(world.measure)
    harness.spin_until(lambda: 'no message newer' in harness.says('planner')[1])
    assert 'joint_states' in harness.says('planner')[1]
    count = len(heard)
    harness.spin_for(0.3)
    assert len(heard) == count


def test_a_pose_of_the_wrong_frame_is_not_planned_with(harness):
    heard = harness.listen(JointTrajectory, 'emppi/plan')
    world = World(harness, 'panda_push')
    world.frame = 'camera'
    harness.make(PlannerNode, task='panda_push')
    world.keep_believing()
    world.keep_measuring()
    harness.spin_until(lambda: harness.says('planner')[0] == ERROR)  # after a cycle or two
    harness.spin_until(lambda: "'camera'" in harness.says('planner')[1])
    assert world.robot.frame in harness.says('planner')[1]
    assert not heard


def test_a_belief_about_other_parameters_is_rejected_and_the_last_one_kept(harness):
    heard = harness.listen(JointTrajectory, 'emppi/plan')
    world = World(harness, 'cartpole_swingup')
    node = harness.make(PlannerNode, task='cartpole_swingup', belief_timeout_s=60.0)
    other = load_task('panda_push')
    wrong = uniform(np.full((4, len(other.parameters)), 0.3))
    world._belief.publish(belief_cloud.write_belief(other, 0.0, wrong))
    harness.spin_until(lambda: 'pole_mass' in harness.says('planner')[1])
    assert not heard and not believes(node)
    world.believe()
    world.keep_measuring()
    harness.spin_until(lambda: heard)
    world._belief.publish(belief_cloud.write_belief(other, 0.0, wrong))
    harness.spin_until(lambda: 'block_mass' in harness.says('planner')[1])
    count = len(heard)
    harness.spin_until(lambda: len(heard) > count + 2)


@pytest.mark.slow
def test_from_a_belief_that_nobody_holds_any_more_there_is_no_plan(harness):
    heard = harness.listen(JointTrajectory, 'emppi/plan')
    world = World(harness, 'cartpole_swingup')
    harness.make(PlannerNode, task='cartpole_swingup', belief_timeout_s=0.5)
    world.keep_measuring()
    world.believe()
    harness.spin_until(lambda: heard)
    harness.spin_until(lambda: 'is the belief node running?' in harness.says('planner')[1])
    assert harness.says('planner')[0] == ERROR
    count = len(heard)
    harness.spin_for(0.3)
    assert len(heard) == count
    world.keep_believing()
    harness.spin_until(lambda: len(heard) > count + 2)


def test_all_diverged_is_said_and_the_next_cycle_tries_again(harness, monkeypatch):
    heard = harness.listen(JointTrajectory, 'emppi/plan')
    world = World(harness, 'cartpole_swingup')
    node = harness.make(PlannerNode, task='cartpole_swingup')
    world.keep_believing()
    world.keep_measuring()
    harness.spin_until(lambda: heard)

    def diverge(*_):
        raise AllDivergedError('all 64 rollouts diverged: no valid plan')

    with monkeypatch.context() as patch:
        patch.setattr(node.session, 'plan_from', diverge)
        harness.spin_until(lambda: 'diverged' in harness.says('planner')[1])
        harness.spin_for(0.3)  # plans that were on their way
        count = len(heard)
        harness.spin_for(0.3)
        assert len(heard) == count
    harness.spin_until(lambda: len(heard) > count + 2)


def test_a_plan_needs_a_belief(harness):
    node = harness.make(PlannerNode, task='cartpole_swingup', autostart=False)
    node.trigger_configure()
    with pytest.raises(StaleInputError, match='no belief'):
        node.plan(0.0)


@pytest.mark.slow
def test_an_unknown_task_ends_the_process_with_what_exists(harness):
    children = harness.spawn(NodeSpec('planner', {'task': 'panda_pusch'}))
    children.ending.add('planner')
    harness.spin_until(lambda: children.processes['planner'].poll() is not None)
    assert children.processes['planner'].poll() == 2
    assert "did you mean 'panda_push'" in children.last_words('planner')


@pytest.mark.slow
def test_sigint_ends_it_cleanly(harness):
    texts = harness.listen(String, 'emppi/task', qos.LATCHED)
    children = harness.spawn(NodeSpec('planner', {'task': 'cartpole_swingup'}))
    harness.spin_until(lambda: texts)
    children.end('planner', signal.SIGINT)
    harness.spin_until(lambda: children.processes['planner'].poll() is not None)
    assert children.processes['planner'].poll() == 0


def test_the_planner_starts_with_tuned_numbers_of_a_parameter_file(harness):
    texts = harness.listen(String, 'emppi/task', qos.LATCHED)
    task, numbers = load_task('cartpole_swingup'), {'planner.temperature': 0.7}
    node = harness.make(PlannerNode, task=task.name, **numbers)
    assert node.task.planner.temperature == node.session.task.planner.temperature == 0.7
    assert node.get_parameter('planner.temperature').value == 0.7
    harness.spin_until(lambda: texts)
    running = config.parse(texts[-1].data, 'emppi/task')
    assert running == tuning.tune(task.data, numbers)  # nothing else has changed


def test_numbers_that_were_set_are_restored_by_a_start_with_all_parameters(harness):
    first = harness.make(PlannerNode, task='cartpole_swingup')
    first.set_parameters([Parameter('planner.temperature', value=0.3)])
    dumped = {name: first.get_parameter(name).value for name in first.get_parameters_by_prefix('')}
    second = harness.make(PlannerNode, **dumped)
    assert second.task.data == first.task.data
    assert second.task.planner.temperature == 0.3


@pytest.mark.parametrize(
    ('value', 'words'), [(-1.0, 'found -1, expected from'), ('warm', "found 'warm', expected a")]
)
def test_a_start_with_a_wrong_number_is_refused(harness, value, words):
    node = harness.make(PlannerNode, task='cartpole_swingup', **{'planner.temperature': value})
    assert node.failed
    assert f'planner.temperature: {words}' in node.problem


def test_timeouts_of_the_planner_may_be_set_while_it_is_not_active(harness):
    node = harness.make(PlannerNode, task='cartpole_swingup')
    change = [Parameter('input_timeout_s', value=0.4)]
    (result,) = node.set_parameters(change)
    assert not result.successful and 'deactivate it' in result.reason
    node.trigger_deactivate()
    assert node.set_parameters(change)[0].successful
    (result,) = node.set_parameters([Parameter('input_timeout_s', value=-1.0)])
    assert not result.successful and 'a number above 0' in result.reason
    assert node.get_parameter('input_timeout_s').value == 0.4

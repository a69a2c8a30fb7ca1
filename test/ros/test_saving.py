"""What was learned outlives the node that learned it, and other tasks."""

import signal

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from sensor_msgs.msg import PointCloud2
from std_srvs.srv import Trigger

from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.belief.node import BeliefNode
from emppi_ros.nodes.belief.saver import SAVE, with_prior
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.graph import NodeSpec
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.priors import prior_file
from emppi_ros.priors.prior_file import ParameterPrior, PriorFile
from emppi_ros.tasks.task import load_task, parse_task, task_text

CARTPOLE = 'cartpole_swingup'


def ask_to_save(harness):
    return harness.call(Trigger, SAVE, Trigger.Request())


def saved(path, name=CARTPOLE):
    """Return the belief that a file holds."""
    task = load_task(name)
    return task.with_prior(str(path)).prior.initial_belief(
        task.belief.particles, np.random.default_rng()
    )


def test_the_prior_of_the_task_or_of_the_node_is_used_but_never_one_of_two(tmp_path):
    known = tmp_path / 'known.yaml'
    values = ParameterPrior('kg', values=(0.1, 0.2))
    prior_file.write(known, PriorFile('test', (), {'pole_mass': values}, (1.0, 1.0)))
    task = parse_task(f'{task_text(CARTPOLE)}\nprior: {known}\n')
    for name in ('', str(known)):
        changed, text = with_prior(task, name)
        assert (changed.prior.file, text) == (str(known), known.read_text())
    with pytest.raises(ConfigError, match=r"the task names '.*known.yaml', but .* is 'other'"):
        with_prior(task, 'other')


@pytest.mark.slow
def test_a_belief_that_was_killed_goes_on_from_what_was_saved(harness, tmp_path):
    task, path = harness.publish_task(CARTPOLE), tmp_path / f'{CARTPOLE}.yaml'
    places = dict.fromkeys(('prior', 'save_to'), str(tmp_path / '{task}.yaml'))
    belief = NodeSpec('belief', places)
    children = harness.spawn(belief, NodeSpec('bridge'), NodeSpec('simulator'))
    updates = lambda: int(harness.statuses.get('belief', ('', '', {}))[2].get('updates', 0))  # noqa: E731
    harness.spin_until(lambda: updates() > 20, 60.0)
    answer = ask_to_save(harness)
    assert answer.success and answer.message == str(path)
    for name, number in (('belief', signal.SIGKILL), ('bridge', 2), ('simulator', 2)):
        children.end(name, number)
    codes = lambda: [children.processes[name].poll() for name in ('simulator', 'belief')]  # noqa: E731
    harness.spin_until(lambda: None not in codes(), 60.0)
    before = path.read_bytes()
    heard = harness.listen(PointCloud2, 'emppi/belief', qos.LATCHED)
    children.start(belief)
    harness.spin_until(lambda: len(heard) > 1, 60.0)
    expected, found = saved(path), belief_cloud.read_belief(task, heard[-1])
    assert np.array_equal(found.theta, expected.theta)
    # normalized again on the way: an ulp or two of logarithms of about -5
    np.testing.assert_allclose(found.log_weights, expected.log_weights, atol=1e-14)
    assert harness.says('belief')[2]['prior'] == str(path)
    children.end('belief')
    harness.spin_until(lambda: children.processes['belief'].poll() is not None, 60.0)
    assert children.processes['belief'].poll() == 0
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]  # nothing new


def test_each_task_keeps_its_belief_over_swaps_and_the_end(harness, tmp_path):
    places = dict.fromkeys(('prior', 'save_to'), str(tmp_path / '{task}.yaml'))
    harness.publish_task(CARTPOLE)
    node = harness.make(BeliefNode, seed=3, **places)
    harness.spin_until(lambda: node.state == 'active')
    learned = node.session.filter.belief
    node.session.counts['updates'] = 1
    harness.publish_task('panda_push')
    harness.spin_until(lambda: node.task.name == 'panda_push' and node.state == 'active')
    assert np.array_equal(saved(tmp_path / f'{CARTPOLE}.yaml').theta, learned.theta)
    harness.publish_task(CARTPOLE)
    harness.spin_until(lambda: node.task.name == CARTPOLE and node.state == 'active')
    assert np.array_equal(node.session.filter.belief.theta, learned.theta)
    assert [p.stem for p in tmp_path.iterdir()] == [CARTPOLE]  # of the other nothing was learned
    node.session.counts['updates'] = 1
    node.session.filter.belief = learned._replace(theta=learned.theta[::-1])
    node.shutdown()
    assert np.array_equal(saved(tmp_path / f'{CARTPOLE}.yaml').theta, learned.theta[::-1])


def test_infeasible_requests_are_errors(harness, tmp_path):
    harness.publish_task(CARTPOLE)
    path = tmp_path / 'known.yaml'
    node = harness.make(BeliefNode, save_to=str(path))
    harness.spin_until(lambda: node.state == 'active')
    assert ask_to_save(harness).success
    node.shutdown()
    harness.executor.remove_node(node)
    node.destroy_node()
    harness.nodes.remove(node)
    harness.publish_task('panda_push')
    other = harness.make(BeliefNode, prior=str(path))
    words = "task: found 'cartpole_swingup', expected 'panda_push'"
    harness.spin_until(lambda: words in harness.says('belief')[1])
    assert other.state == 'unconfigured'
    answer = ask_to_save(harness)
    assert not answer.success and answer.message == 'no task yet'
    with pytest.raises(ConfigError, match=r'known.txt: .*ending in .yaml'):
        harness.make(BeliefNode, save_to='known.txt')


def test_a_node_that_was_told_no_place_says_so(harness):
    harness.publish_task(CARTPOLE)
    node = harness.make(BeliefNode)
    harness.spin_until(lambda: node.state == 'active')
    answer = ask_to_save(harness)
    assert not answer.success and 'set the parameter save_to' in answer.message


def test_a_reset_reads_a_prior_file_again_that_has_changed(harness, tmp_path):
    path = tmp_path / 'known.yaml'

    def write(mass):
        known = ParameterPrior('kg', values=(mass, mass + 0.001))
        prior = PriorFile('test', (), {'pole_mass': known}, (1.0, 1.0))
        prior_file.write(path, prior, overwrite=True)

    def reset():
        return harness.call(Trigger, 'emppi/reset_belief', Trigger.Request())

    def mass():
        return float(harness.says('belief')[2].get('mean pole_mass', 'nan'))

    write(0.1)
    harness.publish_task(CARTPOLE)
    harness.make(BeliefNode, prior=str(path))
    harness.spin_until(lambda: abs(mass() - 0.1) < 0.005)
    assert reset().message == 'the belief was reset to the prior'
    write(0.2)
    assert f'which was read again: {path}' in reset().message
    harness.spin_until(lambda: abs(mass() - 0.2) < 0.005)
    path.write_text('method: 3')
    answer = reset()
    assert not answer.success and 'known.yaml' in answer.message
    harness.spin_until(lambda: harness.says('belief')[2]['lifecycle'] == 'active')
    assert abs(mass() - 0.2) < 0.005

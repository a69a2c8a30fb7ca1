"""The subscriber prints the weighted mean and standard deviation of a published belief."""

import os
from pathlib import Path
import subprocess
import sys

import numpy as np
import pytest

from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import load_task

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
EXAMPLE = Path(__file__).resolve().parents[2] / 'examples' / 'belief_subscriber.py'
STOP_S = 30


@pytest.fixture
def node(monkeypatch):
    """Return a node in a ROS domain of its own; processes started here are in that domain."""
    import rclpy

    from emppi_ros.nodes.common import middleware
    from emppi_ros.nodes.tools.process_group import isolated_environment, unused_domain

    for name in middleware.CHOICES:
        monkeypatch.delenv(name, raising=False)
    domain = unused_domain()
    for name, value in isolated_environment(domain).items():
        monkeypatch.setenv(name, value)
    context = rclpy.Context()
    context.init(domain_id=domain)
    made = rclpy.create_node('publisher', context=context)
    yield made
    made.destroy_node()
    context.try_shutdown()


def test_the_subscriber_prints_mean_and_sd(node):
    from sensor_msgs.msg import PointCloud2

    from emppi_ros.nodes.common import qos
    from emppi_ros.nodes.topics import belief_cloud

    theta = np.array([[0.8, 0.2], [1.2, 0.4], [1.0, 0.5]])
    belief = Belief(theta, np.log([0.5, 0.25, 0.25]))
    message = belief_cloud.write_belief(load_task('panda_push'), 1.0, belief)
    node.create_publisher(PointCloud2, 'emppi/belief', qos.LATCHED).publish(message)
    run = subprocess.Popen(
        [sys.executable, EXAMPLE], env=os.environ, stdout=subprocess.PIPE, text=True
    )
    try:
        lines = [run.stdout.readline().strip() for _ in range(2)]
    finally:
        run.terminate()
        run.wait(STOP_S)
        run.stdout.close()
    assert lines == [
        'block_mass: mean 0.95, sd 0.1658',
        'block_friction: mean 0.325, sd 0.1299',
    ]

"""Every test has a ROS domain and a context of its own, on this machine only."""

import os
from pathlib import Path
import sys
import time

import pytest

try:
    from emppi_ros.nodes.common import middleware
except ImportError:  # no ROS 2: its tests are skipped
    pass
else:
    for name in middleware.CHOICES:
        os.environ.pop(name, None)
    middleware.configure()

sys.path.insert(0, str(Path(__file__).parent))


class Harness:
    """A context, an executor, and a tester node that talks to the nodes under test."""

    def __init__(self):
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node

        from emppi_ros.nodes.tools.process_group import unused_domain

        self.domain = unused_domain()
        self.context = rclpy.Context()
        self.context.init(domain_id=self.domain)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.tester = Node('tester', context=self.context)
        self.executor.add_node(self.tester)
        self.nodes = [self.tester]
        self.statuses = {}
        self._tasks = None
        self.children = None
        self.feeds, self._subscriptions = [], []
        self._watch_diagnostics()

    def make(self, cls, **parameters):
        """Return a node under test with parameters."""
        from rclpy.parameter import Parameter

        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        node = cls(context=self.context, parameter_overrides=overrides)
        self.nodes.append(node)
        self.executor.add_node(node)
        if hasattr(node, 'startup'):
            node.startup()
        return node

    def spawn(self, *specs):
        """Start nodes as processes."""
        from emppi_ros.nodes.tools.process_group import ProcessGroup, isolated_environment

        self.children = ProcessGroup(specs, isolated_environment(self.domain), None)
        return self.children

    def listen(self, kind, topic, profile=None):
        """Return a list that grows by what arrives on a topic."""
        from emppi_ros.nodes.common import qos

        heard = []
        self._subscriptions.append(
            self.tester.create_subscription(kind, topic, heard.append, profile or qos.DEFAULT)
        )
        return heard

    def stop_listening(self):
        """End what `listen` began."""
        while self._subscriptions:
            self.tester.destroy_subscription(self._subscriptions.pop())

    def publisher(self, kind, topic, profile=None):
        from emppi_ros.nodes.common import qos

        return self.tester.create_publisher(kind, topic, profile or qos.DEFAULT)

    def publish_task(self, name):
        """Publish a task as the planner does: who comes later hears the last one; return it."""
        from std_msgs.msg import String

        from emppi_ros.nodes.common import qos
        from emppi_ros.tasks.task import load_task, task_text

        if self._tasks is None:
            self._tasks = self.publisher(String, 'emppi/task', qos.LATCHED)
        self._tasks.publish(String(data=task_text(name)))
        return load_task(name)

    def call(self, kind, name, request, timeout=10.0):
        """Call a service and return its answer."""
        client = self.tester.create_client(kind, name)
        self.spin_until(client.service_is_ready, timeout)
        future = client.call_async(request)
        self.spin_until(future.done, timeout)
        return future.result()

    def spin_until(self, condition, timeout=20.0):
        """Spin, and call `feeds`, until a condition holds; a timeout is a failure."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, (
                f'timed out; nodes say {self.statuses}, and their logs: {self.logs()}'
            )
            self.spin_for(0.0)

    def logs(self):
        """Return the last lines of each process's log."""
        names = () if self.children is None else self.children.processes
        return {name: self.children.last_words(name) for name in names}

    def spin_for(self, seconds):
        """Spin, and call `feeds`, for a time."""
        deadline = time.monotonic() + seconds
        while True:
            for feed in self.feeds:
                feed()
            if self.children is not None:
                self.children.check()
            self.executor.spin_once(timeout_sec=0.003)
            if time.monotonic() >= deadline:
                return

    def says(self, name):
        """
        Return level, message and values that a node publishes next on /diagnostics.

        A node in this process is asked to report now; the others report once a second.
        """
        self.statuses.pop(name, None)
        for node in self.nodes:
            if node.get_name() == name and hasattr(node, 'diagnostics'):
                node.diagnostics.publish()
        self.spin_until(lambda: name in self.statuses)
        return self.statuses[name]

    def now(self):
        return self.tester.get_clock().now().nanoseconds * 1e-9

    def close(self):
        if self.children is not None:
            self.children.stop()
        for node in self.nodes:
            if hasattr(node, 'shutdown'):
                node.shutdown()
            self.executor.remove_node(node)
            node.destroy_node()
        self.executor.shutdown()
        self.context.try_shutdown()

    def _watch_diagnostics(self):
        from diagnostic_msgs.msg import DiagnosticArray

        def take(message):
            for status in message.status:
                values = {pair.key: pair.value for pair in status.values}
                name = status.name.removeprefix('emppi: ')
                self.statuses[name] = (status.level, status.message, values)

        self.tester.create_subscription(DiagnosticArray, '/diagnostics', take, 10)


@pytest.fixture
def harness():
    pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
    made = Harness()
    yield made
    made.close()


@pytest.fixture(scope='module')
def module_harness():
    """Return the harness of a graph that several tests share, one after the other."""
    pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
    made = Harness()
    yield made
    made.close()

"""A graph to break: a real bridge, a robot and planners that obey, and a record of all it says."""

import collections
import contextlib
import multiprocessing
import time

import numpy as np

from faultlab import actors, oracle
from faultlab.record import Record
from faultlab.witness import Witness

TASK = 'panda_push'
FOLLOWED_RAD = 1e-4  # far above the noise of measurements, far below what a fault leaves
QUIET_S = 0.05  # longer than from one trajectory to the next
_SETTLE_S = 20.0  # for anything to appear; a busy machine is slow


class Graph:
    """One bridge with its own ROS domain; planners come and go."""

    def __init__(self, backend='trajectory', parameters=None, environment=None):
        """Start everything, and wait until the bridge commands rest."""
        from emppi_ros.nodes.common import middleware
        from emppi_ros.nodes.tools.process_group import unused_domain
        from emppi_ros.tasks.task import load_task

        middleware.configure()
        # a server that has imported everything forks planners in a moment; no ROS runs in it
        self._server = multiprocessing.get_context('forkserver')
        self._server.set_forkserver_preload(['faultlab.preload'])
        self.witness = Witness(self._server)
        self.robot_config, self.domain = load_task(TASK).robot, unused_domain()
        self.backend, self._parameters = backend, dict(parameters or {})
        self._environment = dict(environment or {})
        self.good_plan, self.good_state = (self._server.Value('d', -np.inf) for _ in range(2))
        self._spares = collections.deque()
        self.robot, self._robot = self._start(actors.move, self.good_state)
        self._robot.recv()
        self._connect()
        self.start_bridge()
        self.planner = self.pipe = None
        self.new_planner()
        self.position = actors.START.copy()
        self.epoch = int(time.time())  # s, from which motions count
        self.wait_for(lambda: self.applied, 'the bridge commands nothing')

    def start_bridge(self):
        """Start the bridge, for the first time or again."""
        from emppi_ros.nodes.common.graph import NodeSpec
        from emppi_ros.nodes.tools.process_group import ProcessGroup, isolated_environment

        spec = NodeSpec('bridge', {'backend': self.backend, **self._parameters})
        surroundings = {**isolated_environment(self.domain), **self._environment}
        self.children = ProcessGroup([spec], surroundings, None)

    @property
    def bridge(self):
        """The bridge's process."""
        return self.children.processes['bridge']

    def bring_back_bridge(self):
        """Start the bridge again after it ended, and wait until it commands."""
        self.children.stop()
        self._advance()
        self.forget_now()
        self.start_bridge()
        self.wait_for(lambda: len(self.applied) > 2, 'the bridge commands nothing')

    def new_planner(self):
        """Take a planner that stands by; start another for the next time."""
        while len(self._spares) < 2:
            self._spares.append(self._start(actors.plan, self.good_plan))
        self.planner, self.pipe = self._spares.popleft()
        assert self.pipe.poll(_SETTLE_S) and self.pipe.recv() == 'ready'

    def tell(self, *order):
        """Give the planner an order."""
        assert self.planner.is_alive(), f'the planner ended: {self.planner.exitcode}'
        self.pipe.send(order)

    def tell_robot(self, *order):
        """Give the robot an order."""
        self._robot.send(order)

    def arm(self, armed=True):
        """Ask the bridge to arm or not; return its answer."""
        request = self._request(data=armed)
        self.wait_for(self._client.service_is_ready, 'no service emppi/arm')
        future = self._client.call_async(request)
        self.wait_for(future.done, 'no answer from emppi/arm')
        return future.result()

    def wait_for(self, condition, words, timeout=_SETTLE_S):
        """Listen until a condition holds; AssertionError with words if it never does."""
        deadline = time.time() + timeout
        while not condition():
            self.children.check()  # with its last words, if it ended
            assert time.time() < deadline, f'{words}; the bridge says {self.status}'
            self.listen(0.005)

    def listen(self, seconds=0.0):
        """Record what arrives for a time."""
        deadline = time.time() + seconds
        while True:
            self._executor.spin_once(timeout_sec=0.0)
            for topic in self._topics:
                topic.poll()
            left = deadline - time.time()
            if left <= 0.0:
                return
            time.sleep(min(left, 0.02))

    def forget(self):
        """Wait for rest, and begin a new record; what was said before counts no more."""
        self.listen(QUIET_S)
        self.wait_for(lambda: not self.speed, 'it does not come to rest')
        if self.backend == 'trajectory':  # the last of them end at rest, and then they cease
            quiet = lambda: not self.commands or time.time() > self.commands[-1].time + QUIET_S  # noqa: E731
            self.wait_for(quiet, 'trajectories do not cease')
        self._advance()
        for record in (self.commands, self.plans, self.states, self.reports):
            record.clear()
        del self.applied[:-2]  # of a command that is just arriving
        self.applied.lost = 0

    def forget_now(self):
        """Begin a new record at once."""
        self.listen()
        for record in (self.commands, self.plans, self.states, self.reports, self.applied):
            record.clear()

    @property
    def lost(self):
        """How many commands are missing in the record."""
        return self.commands.lost + self.applied.lost

    @property
    def status(self):
        """The values of the bridge's last report, with its `message`."""
        return self.reports[-1] if self.reports else self._last_report

    @property
    def speed(self):
        """The fastest joint in force at last [rad/s]."""
        return float(np.max(np.abs(self.applied[-1].message.velocity))) if self.applied else 0.0

    def close(self):
        """End everything."""
        self.children.stop()
        self.witness.close()
        for process, pipe in [*self._spares, (self.planner, self.pipe), (self.robot, self._robot)]:
            with contextlib.suppress(OSError):
                pipe.send(('quit',))
            process.join(0.5)
            if process.is_alive():
                actors.kill(process)
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()

    def _start(self, work, last):
        ours, theirs = self._server.Pipe()
        process = self._server.Process(
            target=work, args=(self.domain, self.robot_config, theirs, last), daemon=True
        )
        process.start()
        return process, ours

    def _connect(self):
        from diagnostic_msgs.msg import DiagnosticArray
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node
        from sensor_msgs.msg import JointState
        from std_msgs.msg import Float64MultiArray, String
        from std_srvs.srv import SetBool
        from trajectory_msgs.msg import JointTrajectory

        from emppi_ros.nodes.common import qos
        from emppi_ros.nodes.common.polling import PolledSubscription
        from emppi_ros.tasks.task import task_text

        self._context = rclpy.Context()
        self._context.init(domain_id=self.domain)
        self._node = node = Node('operator', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(node)
        self._text = node.create_publisher(String, 'emppi/task', qos.LATCHED)
        self._text.publish(String(data=task_text(TASK)))
        self._client, self._request = node.create_client(SetBool, 'emppi/arm'), SetBool.Request
        self.reports, self._last_report = [], {}
        kind, name = {
            'trajectory': (JointTrajectory, 'trajectory'),
            'forward': (Float64MultiArray, 'velocity'),
        }[self.backend]

        def report(message):
            for status in message.status:
                if status.name == 'emppi: bridge':
                    values = {pair.key: pair.value for pair in status.values}
                    self._last_report = {**values, 'message': status.message}
                    self.reports.append(self._last_report)

        topics = self.robot_config.topics
        self.commands = Record(node, kind, topics.commands[name], qos.DEFAULT)
        self.applied = Record(node, JointState, 'emppi/applied', qos.DEFAULT)
        self.plans = Record(node, JointTrajectory, 'emppi/plan', qos.DEFAULT)
        self.states = Record(node, JointState, topics.joint_states, qos.SENSOR)
        self._topics = [
            self.commands, self.applied, self.plans, self.states,
            PolledSubscription(node, DiagnosticArray, '/diagnostics', report, qos.DEFAULT),
        ]  # fmt: skip

    def stall(self, begin, end):
        """Return the longest time without a command in force between two moments [s]."""
        return float(np.max(np.diff(self.intervals_without(begin, end)), initial=0.0))

    def intervals_without(self, begin, end, usual=0.0):
        """Return intervals (n, 2) between two moments without a command [s], but for `usual`."""
        times = [begin, *(one.time for one in self.applied if begin <= one.time <= end), end]
        gaps = np.column_stack([times[:-1], times[1:]]) + [usual, 0.0]
        return gaps[gaps[:, 1] > gaps[:, 0]]

    def nominal(self):
        """
        Return when the bridge made each command [s]: what it meant, without how late it sent it.

        It stamps what it applied at the beginning of the cycle in which it sends a command.
        """
        sent = np.array([one.time for one in self.applied])
        stamps = [_seconds(one.message.header.stamp) for one in self.applied]
        rows = [int(np.searchsorted(sent, one.time)) for one in self.commands]
        times, taken = [], set()
        for row, one in zip(rows, self.commands, strict=True):
            known = row < len(stamps) and row not in taken
            times.append(stamps[row] if known else one.time)
            taken.add(row)
        return times

    def motion(self, begin, end, nominal=True):
        """
        Return the commanded motion between two moments, on the time since `self.epoch`.

        `nominal`: as meant, where every message comes at once; else from when it was sent on.
        """
        times = [time - self.epoch for time in self.nominal()]
        sent = [one.time - self.epoch for one in self.commands]
        if self.backend == 'forward':
            rows = [list(one.message.data) for one in self.commands]
            return oracle.Motion(
                np.array(times if nominal else sent), np.array(rows).reshape(-1, 7)
            )
        made = []
        for meant, came, one in zip(times, sent, self.commands, strict=True):
            stamp = one.message.header.stamp
            # nanoseconds count here, and since 1970 a float has no room for them
            start = (stamp.sec - self.epoch) + 1e-9 * stamp.nanosec if stamp.sec else None
            meant = meant if start is None else start  # noqa: PLW2901
            made.append(
                _trajectory(
                    meant if nominal else came,
                    (meant if nominal else came) if start is None else start,
                    one.message,
                )
            )
        return oracle.executed(self.position, made, begin - self.epoch, end - self.epoch)

    def _advance(self):
        """Take it that the arm is where the commands on record leave it, if they were followed."""
        if self.backend == 'trajectory' and self.commands:
            self.position = np.array(self.commands[-1].message.points[-1].positions)
            measured = np.array(self.states[-1].message.position if self.states else self.position)
            if np.max(np.abs(measured - self.position)) > FOLLOWED_RAD:
                self.position = measured
        elif self.commands:
            motion = self.motion(0.0, 0.0)
            steps = np.diff(motion.times)[:, None]
            self.position = self.position + np.sum(motion.velocities[:-1] * steps, axis=0)


def _seconds(stamp):
    return stamp.sec + 1e-9 * stamp.nanosec


def _trajectory(time, start, message):
    points = message.points
    return oracle.Sent(
        time,
        start,
        np.array([_seconds(point.time_from_start) for point in points]),
        *(
            np.array([getattr(point, name) for point in points])
            for name in ('positions', 'velocities', 'accelerations')
        ),
    )

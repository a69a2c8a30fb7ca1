"""
Watch the joint_trajectory_controller that follows the trajectories of the bridge.

Its state (control_msgs, which comes with ros2_control) tells whether it is active, and what it
follows. Where control_msgs is not installed, or something else stands in for the controller, only
subscribers and goals are checked.
"""

from collections import deque
import math
from statistics import median_low
import time
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
import numpy as np
from rclpy.node import Node
from rclpy.serialization import deserialize_message

from emppi_ros.bridge.joint_trajectory import MotionState
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import StaleInputError
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.clock_sync import ClockSync
from emppi_ros.nodes.common.interfaces import JointTrajectoryControllerState
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.robots.robot import Robot
from emppi_ros.state.time_series import TimeSeries

_ACTIVE_S = 0.5  # age of the newest state, up to which the controller counts as active
_SILENT_S, _LOST_S = 0.006, 0.1  # age that is a fault if the arm does not follow; in any case
_APART = 3e-3  # rad or m: of arm and reference, since the newest state
_OFF = 2e-3  # rad or m: of the controller's reference from what was sent
_AWAY_S = 0.04  # between two cycles: then this process was interrupted, not the controller
_MISSED = 2.5  # usual intervals between states, of a silence
_LEAST_HZ = 90.0  # of the controller
_SCALED = 0.01  # deviation from full speed
_GAPS, _GAPS_S = 10, 5.0  # silences that are too long, within a time
_HISTORY = 64  # cycles
_SPAN_S = 0.25  # of what was sent: longer than measurements and states are late without a fault
_UNDER_WAY = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_CANCELING)


def state_topic(topic: str) -> str:
    """Return the topic of the state of the controller that has a topic of trajectories."""
    return f'{topic.rpartition("/")[0]}/controller_state'


def goal_topic(topic: str) -> str:
    """Return the topic of the goals of the controller that has a topic of trajectories."""
    return f'{topic.rpartition("/")[0]}/follow_joint_trajectory/_action/status'


def write_state(robot: Robot, stamp: float, reference: MotionState) -> Any:
    """Return the state of a controller with a reference."""
    message = JointTrajectoryControllerState(joint_names=list(robot.commanded_names))
    message.header.stamp, message.speed_scaling_factor = convert.to_stamp(stamp), 1.0
    point = message.reference
    point.positions, point.velocities, point.accelerations = map(np.ndarray.tolist, reference)
    return message


class ControllerMonitor:
    """Says why the controller does not follow, or would not; '' if it does."""

    def __init__(self, node: Node, robot: Robot, topic: str, stamps: ClockSync) -> None:
        """Subscribe beside the `topic` of trajectories; `stamps` maps stamps to our clock."""
        self._node, self._robot, self._stamps = node, robot, stamps
        self._topic, self.name = topic, topic.rpartition('/')[0]
        self._newest: bytes | None = None  # since the last cycle
        self._states = None
        if JointTrajectoryControllerState is not None:
            self._states = PolledSubscription(
                node, JointTrajectoryControllerState, state_topic(topic), self._take_state,
                qos.SENSOR, raw=True,
            )  # fmt: skip
        self._goals = PolledSubscription(
            node, GoalStatusArray, goal_topic(topic), self._take_goals, qos.LATCHED
        )
        self._goal = False  # whether another client's goal is under way
        self._state: Any = None  # the newest message
        self._is_new = self._resumes = False  # whether it arrived in this cycle, after a silence
        self._sent_at = -math.inf  # s, when it was sent
        self._polled_at = self._resumed_at = time.monotonic()  # after an interruption of ours
        self._interrupted_until = -math.inf  # s, by the clock of `_sent_at`
        self._count, self._counted = 0, deque[tuple[int, float]](maxlen=_HISTORY)
        self._heard_at = -math.inf  # s, when the newest state was taken
        self._intervals = deque[float](maxlen=_HISTORY)  # s, between states
        self._longest_s = _SILENT_S  # interval between states that is no silence: by their median
        self._sent = TimeSeries('trajectories', _SPAN_S, reach_s=math.inf)  # positions in force
        self._gap: Array | None = None  # (joints,) of arm and reference at the newest state
        self._deviations = 0  # states in a row with another reference than what was sent
        self._gaps = deque[tuple[float, float]](maxlen=_HISTORY)  # silences: end and duration [s]

    def close(self) -> None:
        """Unsubscribe."""
        for subscription in filter(None, (self._states, self._goals)):
            subscription.close()

    def restart(self) -> None:
        """Forget what was sent, as when the arm is to stay where it is."""
        self._sent.clear()
        self._gap, self._deviations = None, 0

    def refusal(self, patience_s: float = math.inf) -> str:
        """
        Return why the controller would not follow trajectories.

        A trajectory that reaches it later than `patience_s` after the one before is a jolt.
        """
        subscribers = self._node.get_subscriptions_info_by_topic(self._topic)
        if not subscribers:
            return (
                f'nobody subscribes to {self._topic}: is the controller {self.name!r} loaded? '
                '`ros2 control list_controllers` shows it'
            )
        if self._goal:
            return self._goal_text()
        name = self.name.rpartition('/')[2]  # of the controller's node
        is_controller = any(subscriber.node_name == name for subscriber in subscribers)
        if self._states is None or (self._state is None and not is_controller):
            return ''
        if self._states.age > _ACTIVE_S:
            return (
                f'{self.name} is loaded, but publishes no state on {self._states.topic}: activate '
                f'it with `ros2 control switch_controllers --activate {self.name}`, and '
                'deactivate another controller that holds its interfaces'
            )
        names, robot = list(self._state.joint_names), self._robot
        if set(names) != set(robot.commanded_names):
            return (
                f'{self.name} has the joints {", ".join(names)}, robot {robot.name!r} is '
                f'commanded by {", ".join(robot.commanded_names)}: change `joints` of the '
                "controller, or `ros_joints` of the robot's YAML"
            )
        if self._rate() < _LEAST_HZ:
            return (
                f'{self.name} updates {self._rate():.0f} times a second, at least '
                f'{_LEAST_HZ:.0f} are needed: raise the `update_rate` of controller_manager'
            )
        return self._scaling_text() or self._starved_text(patience_s)

    def fault(
        self, now: float, position: Array, in_force: Array, measured_at: float = math.inf
    ) -> str:
        """
        Return why the controller no longer follows; to be called in every cycle of a motion.

        `in_force` (joints,) is the position of the last trajectory now; `position` (joints,) was
        measured at another time [s].
        """
        self._sent.append(now, in_force)
        if self._goal:
            return self._goal_text()
        if self._states is None or self._state is None:
            return ''
        gap = position - self._in_force(measured_at)
        silence = self._silence()
        if self._is_new or self._gap is None:
            self._gap = gap
            self._deviations = self._deviations + 1 if self._deviates() else 0
            if self._deviations > (0 if self._resumes else 1):
                return (
                    f'{self.name} follows something else than the trajectories that were sent: '
                    'does another client command it, or did it restart?'
                )
            return self._scaling_text()
        apart = float(np.max(np.abs(gap - self._gap)))
        if silence > _LOST_S or (self.silent and apart > _APART):
            return (
                f'{self.name} has sent no state for {1e3 * silence:.0f} ms, and the arm is '
                f'{1e3 * apart:.0f} mrad (or mm) from its reference: was the controller '
                'deactivated, or did controller_manager stop?'
            )
        return ''

    @property
    def silent(self) -> bool:
        """
        Whether the controller sends no state now, or has another reference than what was sent.

        Nothing is to be sent to it then. It may have been deactivated; active again, it
        holds the arm where it is, and would follow a new trajectory with a step. Nor is it known
        to be active after an interruption of this process, until it says so.
        """
        if self._state is None:
            return False
        if self._deviations or self._sent_at < self._interrupted_until:
            return True
        return self._silence() > self._longest_s

    def _silence(self) -> float:
        """Return for how long no state has arrived [s], but for interruptions of this process."""
        assert self._states is not None
        return min(self._states.age, time.monotonic() - self._resumed_at)

    def poll(self) -> None:
        """Take messages; to be called in every cycle, so that their ages are true."""
        now, self._resumes = time.monotonic(), self.silent
        if now - self._polled_at > _AWAY_S:
            self._resumed_at, self._interrupted_until = now, time.time()
        self._polled_at = now
        self._goals.poll()
        paused = False
        if self._states is not None:
            paused = self._states.age > _ACTIVE_S
            self._states.poll()
        data, self._newest = self._newest, None
        self._is_new = data is not None
        if data is not None:
            self._state = deserialize_message(data, JointTrajectoryControllerState)
            stamp = convert.to_seconds(self._state.header.stamp)
            if paused:  # the rate is not that of a time when it was not active
                self._counted.clear()
                self._intervals.clear()
            elif self._counted:
                self._intervals.append(
                    (now - self._heard_at) / (self._count - self._counted[-1][0])
                )
            usual = median_low(self._intervals) if self._intervals else 0.0
            self._longest_s = max(_SILENT_S, _MISSED * usual)
            self._counted.append((self._count, stamp))
            self._heard_at = now

    def _take_state(self, data: bytes, sent_ns: int, _received_ns: int) -> None:
        self._newest, self._count = data, self._count + 1
        sent_at = sent_ns * 1e-9
        if self._longest_s < (gap := sent_at - self._sent_at) < _ACTIVE_S:
            self._gaps.append((time.monotonic(), gap))
        self._sent_at = sent_at

    def _take_goals(self, message: GoalStatusArray) -> None:
        self._goal = any(status.status in _UNDER_WAY for status in message.status_list)

    def _rate(self) -> float:
        """Return states per second, by their stamps; infinite at first."""
        first, last = self._counted[0], self._counted[-1]
        elapsed = last[1] - first[1]
        return (last[0] - first[0]) / elapsed if elapsed > 0.0 else math.inf

    def _deviates(self) -> bool:
        """Return whether the controller's reference is not what was sent for its time."""
        state = self._state
        then = self._stamps.moment(convert.to_seconds(state.header.stamp))
        if then > self._sent.last_stamp:
            return False
        try:
            sent = self._sent.interpolate(then)
        except StaleInputError:  # of before the motion
            return False
        reference = dict(zip(state.joint_names, state.reference.positions, strict=False))
        return any(
            abs(reference.get(name, math.inf) - value) > _OFF
            for name, value in zip(self._robot.commanded_names, sent, strict=True)
        )

    def _in_force(self, moment: float) -> Array:
        """Return the positions (joints,) that were sent for a time [s]; at the ends if beyond."""
        try:
            return self._sent.interpolate(moment)
        except StaleInputError:  # of before the motion
            return self._sent(np.array([moment]))[0]

    def _starved_text(self, patience_s: float) -> str:
        recent = [gap for end, gap in self._gaps if self._polled_at - end < _GAPS_S]
        gaps = sorted(gap for gap in recent if gap > patience_s)
        if len(gaps) < _GAPS:
            return ''
        return (
            f'{self.name} sent no state for up to {1e3 * gaps[-1]:.0f} ms, {len(gaps)} times in '
            f'{_GAPS_S:g} s: it gets no processor time, and trajectories that are late by more '
            f'than {1e3 * patience_s:.0f} ms are jolts. Start controller_manager with `chrt -r '
            '20`, or raise trajectory_lead_s and trajectory_hold_s'
        )

    def _goal_text(self) -> str:
        return (
            f'{self.name} executes a goal of another client of follow_joint_trajectory: cancel '
            'it, or wait for its end'
        )

    def _scaling_text(self) -> str:
        scaling = float(getattr(self._state, 'speed_scaling_factor', 1.0))
        if scaling == 0.0 or abs(scaling - 1.0) < _SCALED:  # 0: not set by older controllers
            return ''
        return f'{self.name} scales the speed to {100.0 * scaling:.0f} %: set it to 100 %'

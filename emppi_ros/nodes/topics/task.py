"""
The topic `emppi/task`: the running task, which every node follows.

Before the planner publishes another task there, it announces it on `emppi/task/next`, and each
node replies whether it can follow. Once the task is published, each node switches to it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from rclpy.node import Node
from rclpy.subscription import Subscription
from std_msgs.msg import String

from emppi_ros.core import config
from emppi_ros.core.errors import EmppiError, StaleInputError
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.diagnostics import WARN, Report
from emppi_ros.nodes.common.lifecycle import ManagedNode
from emppi_ros.tasks import switch_protocol, tuning
from emppi_ros.tasks.switch_protocol import SwitchReply
from emppi_ros.tasks.task import Task, parse_task

TOPIC = 'emppi/task'
REQUEST = 'emppi/task/request'
NEXT = 'emppi/task/next'
ANSWERS = 'emppi/task/answers'
STAGE = 'emppi/stage'  # name of the current stage; latched, published by the planner
# The planner asks the bridge to hold the arm at rest during a switch, apart from the operator's
# pause, until the response is true: the arm is at rest, as commanded and as measured. If the
# planner never ends the switch, the bridge keeps holding the arm (`swap-lost`).
SWAP = 'emppi/swap'
UNABLE = 'not active, or no joint state received yet'  # response of the bridge


class TaskFollower(Protocol):
    """Callbacks of a node for changes of the task; each may raise an EmppiError."""

    def startup(self) -> None:
        """Start with the first task, if it has arrived."""

    def try_task(self, text: str) -> Task | None:
        """Return the task in a YAML text, or None to leave parsing to `take`."""

    def swap_task(self) -> None:
        """Switch to the task that `take` returns."""

    def tune_task(self, data: Mapping[str, Any]) -> None:
        """Apply YAML that differs only in tunable values; most nodes do not use them."""


class TaskSubscriber:
    """Subscribe to the task, and reply to announcements of the next one."""

    def __init__(self, node: Node, follower: TaskFollower) -> None:
        self._node, self._follower = node, follower
        self.newest = ''  # the text on the topic; '' before the first
        self.text = ''  # that was taken
        self._checked: tuple[str, Task | None] = '', None
        self.changed = ''  # why the node does not follow the task on the topic
        self._answers = node.create_publisher(String, ANSWERS, qos.DEFAULT)
        node.create_subscription(String, TOPIC, self._receive, qos.LATCHED)
        node.create_subscription(String, NEXT, self._receive_next, qos.DEFAULT)

    def take(self) -> Task:
        """Return the task; StaleInputError if none has arrived yet."""
        if not self.newest:
            raise StaleInputError(f'no task received on {TOPIC} yet: is the planner running?')
        text, task = self._checked
        if task is None or text != self.newest:
            task = parse_task(self.newest, TOPIC)
        self.text, self._checked, self.changed = self.newest, ('', None), ''
        return task

    def release(self) -> None:
        """Forget the task that was taken."""
        self.text = self.changed = ''

    def _receive(self, message: String) -> None:
        self.newest = message.data
        if not self.text:
            self._follower.startup()
        elif reason := self._reply(message.data, switch_protocol.FOLLOWING, self._switch):
            self.changed = f'cannot follow the task on {TOPIC}: {reason}'
            self._node.get_logger().warning(self.changed)

    def _receive_next(self, message: String) -> None:
        self._reply(message.data, switch_protocol.READY, self._check)

    def _switch(self, text: str) -> None:
        """Follow the task that has arrived."""
        if text == self.text:
            pass  # published again
        elif self._checked[0] == text:
            self._follower.swap_task()
        elif tuning.is_tuned(config.parse(self.text, TOPIC), data := config.parse(text, TOPIC)):
            self._follower.tune_task(data)
        else:  # not announced, for example after a restart of the planner
            self._check(text)
            self._follower.swap_task()
        self.text, self.changed = text, ''

    def _check(self, text: str) -> None:
        """Raise an EmppiError if the node cannot follow an announced task."""
        if not self.text:
            raise StaleInputError('the node has no task yet')
        if self._checked[0] != text:  # else the announcement is repeated
            self._checked = text, self._follower.try_task(text)

    def _reply(self, text: str, status: str, work: Callable[[str], None]) -> str:
        """Do `work` with a task; reply with `status`, or REFUSED and the reason; return that."""
        reason = ''
        try:
            work(text)
        except EmppiError as error:
            status, reason = switch_protocol.REFUSED, switch_protocol.explain(error)
        name = self._node.get_fully_qualified_name()
        reply = SwitchReply(name, switch_protocol.digest(text), status, reason)
        self._answers.publish(String(data=reply.to_text()))
        return reason


def follow_stage(
    node: Node, stages: Iterable[Any], enter: Callable[[Any], None]
) -> 'Subscription[String]':
    """Subscribe to the planner's stage; `enter` is called with the one of its name."""
    names = {stage.name: stage for stage in stages}

    def receive(message: String) -> None:
        if message.data in names:  # else the stage belongs to another task
            enter(names[message.data])

    return node.create_subscription(String, STAGE, receive, qos.LATCHED)


class TaskFollowerNode(ManagedNode, TaskFollower):
    """A lifecycle node that waits for the task on `emppi/task` and follows it."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self.follow = TaskSubscriber(self, self)

    def startup(self) -> None:
        """Configure and activate once there is a task, with `autostart`."""
        if self.follow.newest:
            super().startup()

    def try_task(self, text: str) -> Task | None:
        """Return the task in a YAML text."""
        return parse_task(text, TOPIC)

    def swap_task(self) -> None:
        """Switch to the task that has arrived; the process exits if that fails."""
        active = self.state == 'active'
        try:
            if active:
                self.stop()
            self.teardown()
            self.setup()
            if active:
                self.start()
        except EmppiError as error:
            self.broken, self.problem = True, str(error)
            raise

    def teardown(self) -> None:
        """Release the task."""
        self.follow.release()

    def waiting(self) -> Report:
        """Return the report before the first task."""
        return Report(WARN, f'waiting for {TOPIC}')

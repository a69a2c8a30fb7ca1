"""
The topic `emppi/task`: the one truth about the running task, which every node follows.

Before the planner publishes another task there, it shows it on `emppi/task/next`: each node
says whether it can follow, before anything has changed. Once it is published, each goes over.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.core import config
from emppi_ros.core.errors import EmppiError, StaleInputError
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.diagnostics import WARN, Report
from emppi_ros.nodes.common.lifecycle import ManagedNode
from emppi_ros.tasks import switch_protocol, tuning
from emppi_ros.tasks.stages import Stage
from emppi_ros.tasks.switch_protocol import SwitchReply
from emppi_ros.tasks.task import Task, parse_task

TOPIC = 'emppi/task'
NEXT = 'emppi/task/next'
ANSWERS = 'emppi/task/answers'
STAGE = 'emppi/stage'  # its name; latched, by the planner


class TaskFollower:
    """What a node does when the task changes; each may raise an EmppiError."""

    def startup(self) -> None:
        """Begin, with the first task, if one has arrived."""
        raise NotImplementedError

    def try_task(self, text: str) -> Task | None:
        """Return the task in a YAML text if it can be followed; None: `take` is to read it."""
        raise NotImplementedError

    def swap_task(self) -> None:
        """Go over to the task that `take` returns."""
        raise NotImplementedError

    def tune_task(self, data: Mapping[str, Any]) -> None:
        """Go on with YAML that differs in numbers alone; most nodes do not work with them."""


class TaskSubscriber:
    """Follows the task, for a node that takes the first one when it begins."""

    def __init__(self, node: Node, follower: TaskFollower) -> None:
        """Subscribe."""
        self._node, self._follower = node, follower
        self._text: str | None = None
        self._taken: str | None = None
        self._tried: tuple[str, Task | None] = '', None
        self.changed = ''  # why the task on the topic is not the one that was taken
        self._answers = node.create_publisher(String, ANSWERS, qos.DEFAULT)
        node.create_subscription(String, TOPIC, self._receive, qos.LATCHED)
        node.create_subscription(String, NEXT, self._try, qos.DEFAULT)

    @property
    def ready(self) -> bool:
        """Whether a task has arrived."""
        return self._text is not None

    def take(self) -> Task:
        """Return the task; StaleInputError if none has arrived yet."""
        if self._text is None:
            raise StaleInputError(f'no task received on {TOPIC} yet: is the planner running?')
        text, task = self._tried
        if task is None or text != self._text:
            task = parse_task(self._text, TOPIC)
        self._taken, self._tried, self.changed = self._text, ('', None), ''
        return task

    @property
    def text(self) -> str:
        """The text of the task that was taken."""
        return self._taken or ''

    def release(self) -> None:
        """Be ready for another task."""
        self._taken, self.changed = None, ''

    def _receive(self, message: String) -> None:
        before, self._text = self._taken, message.data
        if before is None:
            self._follower.startup()
            return
        try:
            self._go_over(before)
        except EmppiError as error:
            self.changed = (
                f'{TOPIC} holds a task that is not followed: {switch_protocol.explain(error)}'
            )
            self._node.get_logger().warning(self.changed)
            self._answer(self._text, switch_protocol.REFUSED, switch_protocol.explain(error))
            return
        self._answer(self._text, switch_protocol.FOLLOWING)

    def _go_over(self, before: str) -> None:
        """Follow the text that has arrived."""
        text = self._text
        if text == before:
            self.changed = ''
        elif self._tried[0] == text:
            self._follower.swap_task()
        elif tuning.is_tuned(config.parse(before, TOPIC), data := config.parse(text, TOPIC)):
            self._follower.tune_task(data)
        else:  # unannounced, as by a planner that was started anew
            self._tried = text, self._follower.try_task(text)
            self._follower.swap_task()
        self._taken, self.changed = text, ''

    def _try(self, message: String) -> None:
        """Say whether the text can be followed."""
        text = message.data
        try:
            if self._taken is None:
                raise StaleInputError('it follows no task yet')
            if self._tried[0] != text:  # else it is told again
                self._tried = text, self._follower.try_task(text)
        except EmppiError as error:
            self._answer(text, switch_protocol.REFUSED, switch_protocol.explain(error))
        else:
            self._answer(text, switch_protocol.READY)

    def _answer(self, text: str, said: str, reason: str = '') -> None:
        name = self._node.get_fully_qualified_name()
        answer = SwitchReply(name, switch_protocol.digest(text), said, reason)
        self._answers.publish(String(data=answer.to_text()))


class StageSubscriber:
    """Follows the stage that the planner is in; `enter` is called with it."""

    def __init__(self, node: Node, task: Task, enter: Callable[[Stage], None]) -> None:
        """Subscribe."""
        self._node, self._enter = node, enter
        self._stages = {stage.name: stage for stage in task.stages}
        self._subscription = node.create_subscription(String, STAGE, self._receive, qos.LATCHED)

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)

    def _receive(self, message: String) -> None:
        if message.data in self._stages:  # else it is another task's
            self._enter(self._stages[message.data])


class TaskFollowerNode(ManagedNode, TaskFollower):
    """A lifecycle node that follows the task on `emppi/task`, and waits for it."""

    def __init__(self, name: str, **kwargs: object) -> None:
        """Wait for the task."""
        super().__init__(name, **kwargs)
        self.follow = TaskSubscriber(self, self)
        self._broken = False

    def startup(self) -> None:
        """Configure and activate once there is a task, if the node is to start by itself."""
        if self.follow.ready:
            super().startup()

    def try_task(self, text: str) -> Task | None:
        """Return the task in a YAML text."""
        return parse_task(text, TOPIC)

    def swap_task(self) -> None:
        """Go over to the task that has arrived; whoever cannot do so ends."""
        active = self.state == 'active'
        try:
            if active:
                self.stop()
            self.teardown()
            self.setup()
            if active:
                self.start()
        except EmppiError as error:
            self._broken, self.problem = True, str(error)
            raise

    @property
    def failed(self) -> bool:
        """Whether the node can go on no more."""
        return super().failed or self._broken

    def teardown(self) -> None:
        """Be ready for another task."""
        self.follow.release()

    def waiting(self) -> Report:
        """Return what is missing."""
        return Report(WARN, f'waiting for {TOPIC}')

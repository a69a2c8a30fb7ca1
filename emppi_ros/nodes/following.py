"""The topic `emppi/task`: the one truth about the running task, which every node follows."""

from collections.abc import Callable

from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.errors import StaleInputError
from emppi_ros.nodes import qos
from emppi_ros.nodes.diagnostics import WARN, Report
from emppi_ros.nodes.managed import ManagedNode
from emppi_ros.tasks.stages import BoundStage
from emppi_ros.tasks.task import Task, parse_task

TOPIC = 'emppi/task'
STAGE = 'emppi/stage'  # its name; latched, by the planner


class TaskTopic:
    """Waits for the task; `on_task` is called when its text arrives, until one was taken."""

    def __init__(self, node: Node, on_task: Callable[[], None]) -> None:
        """Subscribe."""
        self._node, self._on_task = node, on_task
        self._text: str | None = None
        self._taken: str | None = None
        node.create_subscription(String, TOPIC, self._receive, qos.LATCHED)

    @property
    def changed(self) -> str:
        """What is to be said when the topic holds another task than the one taken, or ''."""
        if self._taken is None or self._text == self._taken:
            return ''
        return f'{TOPIC} holds another task now: restart this node to follow it'

    @property
    def ready(self) -> bool:
        """Whether a task has arrived."""
        return self._text is not None

    def take(self) -> Task:
        """Return the task; StaleInputError if none has arrived yet."""
        if self._text is None:
            raise StaleInputError(f'no task received on {TOPIC} yet: is the planner running?')
        task = parse_task(self._text, TOPIC)
        self._taken = self._text
        return task

    @property
    def text(self) -> str:
        """The text of the task that was taken."""
        return self._taken or ''

    def release(self) -> None:
        """Be ready for another task."""
        self._taken = None

    def _receive(self, message: String) -> None:
        self._text = message.data
        if self._taken is None:
            self._on_task()
        elif self.changed:
            self._node.get_logger().warning(self.changed)


class StageTopic:
    """Follows the stage that the planner is in; `enter` is called with it."""

    def __init__(self, node: Node, task: Task, enter: Callable[[BoundStage], None]) -> None:
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


class FollowingNode(ManagedNode):
    """A lifecycle node that follows the task on `emppi/task`, and waits for it."""

    def __init__(self, name: str, **kwargs: object) -> None:
        """Wait for the task."""
        super().__init__(name, **kwargs)
        self.follow = TaskTopic(self, self.begin)

    def begin(self) -> None:
        """Configure and activate once there is a task, if the node is to start by itself."""
        if self.follow.ready:
            super().begin()

    def teardown(self) -> None:
        """Be ready for another task."""
        self.follow.release()

    def waiting(self) -> Report:
        """Return what is missing."""
        return Report(WARN, f'waiting for {TOPIC}')

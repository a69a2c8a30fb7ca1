"""An action server whose goals end when their node says so."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rclpy.action.server import ActionServer, CancelResponse, GoalResponse, ServerGoalHandle
from rclpy.node import Node

if TYPE_CHECKING:
    GoalHandle = ServerGoalHandle[Any, Any, Any]
    _ActionServer = ActionServer[Any, Any, Any]
else:  # not generic in ROS 2 Jazzy
    GoalHandle, _ActionServer = ServerGoalHandle, ActionServer


class DeferredActionServer(_ActionServer):
    """
    Offers an action; `begin` is called with each accepted goal, which executes until `finish`.

    The usual callback of rclpy would have to wait for the end: in a thread of its own, or as a
    coroutine that keeps the executor busy all the time.
    """

    def __init__(
        self,
        node: Node,
        kind: type,
        name: str,
        accept: Callable[[Any], GoalResponse],
        begin: Callable[[GoalHandle], None],
    ) -> None:
        self._begin = begin
        super().__init__(
            node,
            kind,
            name,
            lambda _goal: None,
            goal_callback=accept,
            cancel_callback=lambda _goal: CancelResponse.ACCEPT,
        )

    def notify_execute(self, goal_handle: GoalHandle, execute_callback: object) -> None:
        """Begin with a goal that is now executing; rclpy calls this."""
        self._begin(goal_handle)

    def finish(self, goal_handle: GoalHandle, success: bool, result: object) -> None:
        """End a goal as succeeded, canceled or aborted, and send its result."""
        if success:
            goal_handle.succeed()
        elif goal_handle.is_cancel_requested:
            goal_handle.canceled()
        else:
            goal_handle.abort()
        super().notify_execute(goal_handle, lambda _goal: result)

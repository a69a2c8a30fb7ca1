"""
The service `emppi/reset`: the simulator tells the bridge that it resets the robot.

The bridge brakes to rest, disarms, and commands nothing until the robot is back at its start. A
robot that jumps is a fault otherwise, and one commanded by position would be pulled back.
"""

from collections.abc import Callable

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from std_srvs.srv import SetBool

from emppi_ros.nodes.bridge.command_loop import CommandLoop

RESET = 'emppi/reset'
_ANSWER_S = 4.0  # longer than an arm brakes


def serve(node: Node, command_loop: Callable[[], CommandLoop | None], hardware: bool) -> None:
    """Offer the service in the bridge; `command_loop` returns None until it is configured."""

    def answer(request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        loop = command_loop()
        if hardware:
            response.success, response.message = False, 'a real robot is not reset'
            return response
        response.success, response.message = True, 'not armed'
        if loop is not None and request.data and not loop.begin_reset():
            response.success, response.message = False, 'not armed, but not at rest either'
        elif loop is not None and not request.data:
            loop.end_reset()
            node.get_logger().info('not armed: the simulator has reset the robot')
        return response

    node.create_service(SetBool, RESET, answer)


class ResetClient:
    """Client of the service, for the simulator."""

    def __init__(self, node: Node) -> None:
        self._node, self._group = node, ReentrantCallbackGroup()  # others wait for the caller
        self._client: Client[SetBool.Request, SetBool.Response] = node.create_client(
            SetBool, RESET, callback_group=self._group
        )

    async def announce(self, resetting: bool) -> None:
        """Announce the begin or end of a reset; return when the bridge, if any, has answered."""
        if not self._client.service_is_ready():
            return
        future = self._client.call_async(SetBool.Request(data=resetting))
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        timer = self._node.create_timer(  # the bridge may have been killed
            _ANSWER_S, future.cancel, callback_group=self._group, clock=steady
        )
        await future
        self._node.destroy_timer(timer)

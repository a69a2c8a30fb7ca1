"""
The service `emppi/swap`: the planner asks the bridge to hold the arm at rest during a switch.

It is independent of the operator's pause. The planner repeats the request; the response is true
once the arm is at rest, both as commanded and as measured. If the planner never ends the switch,
the bridge keeps holding the arm (`swap-lost`).
"""

from collections.abc import Callable

from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import SetBool

from emppi_ros.core.errors import SwapError
from emppi_ros.nodes.bridge.command_loop import CommandLoop

SWAP = 'emppi/swap'
UNABLE, BRAKING = 'not active, or no joint state received yet', 'braking'


def serve(node: Node, command_loop: Callable[[], CommandLoop | None]) -> None:
    """Offer the service in the bridge; `command_loop` returns None until it is configured."""

    def answer(request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        loop = command_loop()
        if loop is None or loop.commander is None or not loop.commander.ready:
            response.success, response.message = False, UNABLE
            return response
        with loop.lock:
            loop.commander.swap(loop.clock.now(), request.data)
            response.success = loop.commander.still or not request.data
            response.message = loop.commander.reason if response.success else BRAKING
        return response

    node.create_service(SetBool, SWAP, answer)


class RestClient:
    """Client of the service, for the planner."""

    def __init__(self, node: Node) -> None:
        self._client: Client[SetBool.Request, SetBool.Response] = node.create_client(SetBool, SWAP)
        self._future: Future[SetBool.Response] | None = None

    def restart(self, rest: bool) -> None:
        """Send a new request and ignore the response to any earlier one."""
        self._future = None
        if self._client.service_is_ready():
            self._future = self._client.call_async(SetBool.Request(data=rest))

    def request(self, rest: bool) -> SetBool.Response | None:
        """Request rest, or its end; return the response to the previous request, if any."""
        if not self._client.service_is_ready():
            raise SwapError(f'no bridge serves {SWAP}: is it running?')
        response = None
        if self._future is not None and self._future.done():
            response, self._future = self._future.result(), None
        if self._future is None:
            self._future = self._client.call_async(SetBool.Request(data=rest))
        return response

"""
The service `emppi/swap`: the planner asks the bridge to rest while the task is swapped.

It is not the operator's pause: that stays as it is. The planner asks again and again, and the
answer is true once the arm is at rest, as commanded and as measured. A planner that never says
that the swap is over leaves the arm held (`swap-lost`).
"""

from collections.abc import Callable
import time

from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import SetBool

from emppi_ros.core.errors import SwapError
from emppi_ros.nodes.bridge.command_loop import CommandLoop

SWAP = 'emppi/swap'


def serve(node: Node, commanding: Callable[[], CommandLoop | None]) -> None:
    """Serve it in the bridge, whose work is `commanding` while it is configured."""

    def answer(request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        work = commanding()
        if work is None or work.commander is None or not work.commander.ready:
            response.success, response.message = False, UNABLE
            return response
        with work.lock:
            work.commander.swap(time.monotonic(), request.data)
            response.success = work.commander.still or not request.data
            response.message = work.commander.reason if response.success else BRAKING
        return response

    node.create_service(SetBool, SWAP, answer)


UNABLE, BRAKING = 'not active, or no joint state received yet', 'braking'


class Rest:
    """The planner's side: what it last asked for, and what the bridge answered."""

    def __init__(self, node: Node) -> None:
        """Make the client."""
        self._client = node.create_client(SetBool, SWAP)
        self._future: Future | None = None

    def ask_again(self, rest: bool) -> None:
        """Ask anew, whatever was asked before."""
        self._future = None
        if self._client.service_is_ready():
            self._future = self._client.call_async(SetBool.Request(data=rest))

    def ask(self, rest: bool) -> SetBool.Response | None:
        """Ask for rest, or for its end; return the bridge's answer to the call before."""
        if not self._client.service_is_ready():
            raise SwapError(f'no bridge serves {SWAP}: is it running?')
        answer = None
        if self._future is not None and self._future.done():
            answer, self._future = self._future.result(), None
        if self._future is None:
            self._future = self._client.call_async(SetBool.Request(data=rest))
        return answer

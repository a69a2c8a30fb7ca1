"""Request a task switch from a running planner and wait for the result."""

from collections.abc import Callable
import time

from std_msgs.msg import String

from emppi_ros.core.errors import SwapError
from emppi_ros.nodes.common import process, qos
from emppi_ros.nodes.topics.task import ANSWERS, REQUEST
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.switch_protocol import SwitchReply

_DISCOVERY_S = 5.0
_POLL_S = 0.02
_SETTLE_POLLS = 10  # after discovery, so that both sides are matched


def request_switch(text: str, namespace: str, patience_s: float) -> SwitchReply:
    """Request the task in a YAML text; return the reply. SwapError if there is none in time."""
    client = process.CommandNode('task', namespace)
    node, executor = client.node, client.executor
    request = switch_protocol.tagged(text)
    about, replies = switch_protocol.digest(request), []

    def receive(message: String) -> None:
        reply = switch_protocol.read_reply(message.data)
        if reply and reply.about == about and reply.said in switch_protocol.RESULTS:
            replies.append(reply)

    def wait(condition: Callable[[], object], limit_s: float, problem: str) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise SwapError(problem)
            executor.spin_once(timeout_sec=_POLL_S)

    try:
        topic = node.resolve_topic_name(REQUEST)
        node.create_subscription(String, ANSWERS, receive, qos.DEFAULT)
        publisher = node.create_publisher(String, REQUEST, qos.DEFAULT)
        wait(
            # both directions, or the reply may be lost
            lambda: publisher.get_subscription_count() > 0 < node.count_publishers(ANSWERS),
            _DISCOVERY_S,
            f'no node subscribes to {topic}: is the planner running, in this ROS domain?',
        )
        for _ in range(_SETTLE_POLLS):
            executor.spin_once(timeout_sec=_POLL_S)
        publisher.publish(String(data=request))
        wait(lambda: replies, patience_s, f'{topic}: no answer within {patience_s:g} s')
        return replies[0]
    finally:
        client.close()

"""Asks a running graph for another task, and waits for what comes of it."""

from collections.abc import Callable
import time

import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import String

from emppi_ros.core.errors import SwapError
from emppi_ros.nodes.common import client_node, middleware, qos
from emppi_ros.nodes.switching.task_switch import REQUEST
from emppi_ros.nodes.topics.task import ANSWERS
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.switch_protocol import SwitchReply

_DISCOVERY_S = 5.0  # to find the planner
_POLL_S = 0.02
_SETTLE = 10  # polls more, so that all know of one another


def ask(text: str, namespace: str, patience_s: float) -> SwitchReply:
    """
    Return the planner's answer to a request for the task in a YAML text.

    SwapError if there is no planner, or none that answers in time.
    """
    middleware.set_up()
    context = rclpy.Context()
    context.init()
    node = client_node.node('task', namespace, context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    request = switch_protocol.tagged(text)
    about, found = switch_protocol.digest(request), []

    def hear(message: String) -> None:
        answer = switch_protocol.read_reply(message.data)
        ours = answer is not None and answer.about == about
        if ours and answer.said in (
            switch_protocol.DONE,
            switch_protocol.FAILED,
            switch_protocol.REFUSED,
        ):
            found.append(answer)

    def wait(condition: Callable[[], object], limit_s: float, problem: str) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise SwapError(problem)
            executor.spin_once(timeout_sec=_POLL_S)

    try:
        topic = node.resolve_topic_name(REQUEST)
        node.create_subscription(String, ANSWERS, hear, qos.DEFAULT)
        publisher = node.create_publisher(String, REQUEST, qos.DEFAULT)
        wait(
            # both ways, else the answer may be missed
            lambda: publisher.get_subscription_count() > 0 < node.count_publishers(ANSWERS),
            _DISCOVERY_S,
            f'nobody listens to {topic}: is the planner running, in this ROS domain?',
        )
        for _ in range(_SETTLE):
            executor.spin_once(timeout_sec=_POLL_S)
        publisher.publish(String(data=request))
        wait(lambda: found, patience_s, f'{topic}: no answer within {patience_s:g} s')
        return found[0]
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()

"""Asks a running graph for another task, and waits for what comes of it."""

import time

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.errors import SwapError
from emppi_ros.nodes import middleware, qos
from emppi_ros.nodes.following import ANSWERS
from emppi_ros.nodes.swapping import REQUEST
from emppi_ros.tasks import live
from emppi_ros.tasks.live import Answer

_DISCOVERY_S = 5.0  # to find the planner
_POLL_S = 0.02


def ask(text: str, namespace: str, patience_s: float) -> Answer:
    """
    Return the planner's answer to a request for the task in a YAML text.

    SwapError if there is no planner, or none that answers in time.
    """
    middleware.set_up()
    context = rclpy.Context()
    context.init()
    node = Node('task', namespace=namespace, context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    request = live.tagged(text)
    about, found = live.digest(request), []

    def hear(message: String) -> None:
        answer = live.read_answer(message.data)
        ours = answer is not None and answer.about == about
        if ours and answer.said in (live.DONE, live.FAILED, live.REFUSED):
            found.append(answer)

    def wait(condition: object, limit_s: float, problem: str) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise SwapError(problem)
            executor.spin_once(timeout_sec=_POLL_S)

    try:
        topic = node.resolve_topic_name(REQUEST)
        answers = node.create_subscription(String, ANSWERS, hear, qos.DEFAULT)
        publisher = node.create_publisher(String, REQUEST, qos.DEFAULT)
        wait(
            # both ways, else the answer may be missed; the other nodes' answers come there too
            lambda: publisher.get_subscription_count() and _is_published_by(node, publisher),
            _DISCOVERY_S,
            f'nobody listens to {topic}: is the planner running, here and in this ROS domain?',
        )
        wait(lambda: answers.get_publisher_count() > 0, _DISCOVERY_S, f'nobody answers {topic}')
        publisher.publish(String(data=request))
        wait(lambda: found, patience_s, f'{topic}: no answer within {patience_s:g} s')
        return found[0]
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()

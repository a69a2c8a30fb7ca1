"""Polled subscriptions handle what has arrived, and come back."""

import dataclasses
import time

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from rclpy.qos import QoSProfile
from std_msgs.msg import Float64

from emppi_ros.nodes.polling import PolledSubscription

DEPTH = 5


@dataclasses.dataclass
class Echo:
    """Answers every message with another, and waits until it has arrived."""

    publisher: object
    heard: list

    def __call__(self, message):
        self.heard.append(message.data)
        self.publisher.publish(Float64(data=message.data + 1.0))
        time.sleep(0.02)


@pytest.mark.parametrize('way', ['poll', 'drop'])
def test_what_comes_faster_than_it_is_handled_does_not_hold_up_the_rest(harness, way):
    profile = QoSProfile(depth=DEPTH)
    echo = Echo(harness.publisher(Float64, 'numbers', profile), [])
    subscription = PolledSubscription(harness.tester, Float64, 'numbers', echo, profile)
    harness.spin_until(echo.publisher.get_subscription_count)
    echo.publisher.publish(Float64(data=0.0))
    harness.spin_for(0.05)
    subscription.poll()
    assert echo.heard == [0.0, 1.0, 2.0, 3.0, 4.0][: len(echo.heard)]
    assert 1 <= len(echo.heard) <= DEPTH
    getattr(subscription, way)()
    assert len(echo.heard) <= 2 * DEPTH

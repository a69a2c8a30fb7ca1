"""Polled subscriptions handle what has arrived, and come back."""

import dataclasses
import math
import threading
import time

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from rclpy.qos import QoSProfile
from std_msgs.msg import Float64

from emppi_ros.nodes.common.polling import Loop, PeriodEstimator, PolledSubscription

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


class Clock:
    """A clock that goes on by half a millisecond whenever somebody looks."""

    now = 0.0

    def __call__(self):
        self.now += 5e-4
        return self.now


@pytest.mark.parametrize(('late', 'expected'), [(True, [1, 2, 3, 5, 6]), (False, [1, 3, 4, 7, 8])])
def test_a_moment_that_has_passed_is_worked_for_late_or_not_at_all(late, expected):
    clock, period = Clock(), 0.01
    durations, moments, done = iter([1.2, 0.1, 2.4]), [], threading.Event()

    def work(moment):
        moments.append(moment)
        clock.now += period * next(durations, 0.1)
        if len(moments) == len(expected):
            done.set()

    loop = Loop('test', period, work, clock, late)
    assert done.wait(30.0)
    loop.stop()
    counted = [round((moment - moments[0]) / period) + 1 for moment in moments]
    assert counted[: len(expected)] == expected


def test_a_loop_whose_clock_is_set_back_goes_on():
    clock, period, moments, done = Clock(), 0.01, [], threading.Event()
    clock.now = 1000.0

    def work(moment):
        moments.append(moment)
        if len(moments) == 5:
            clock.now = 1.0
        if len(moments) == 10:
            done.set()

    loop = Loop('test', period, work, clock)
    assert done.wait(30.0)
    loop.stop()
    assert all(moment > 1000.0 for moment in moments[:5])
    after = [(moment - moments[5]) / period for moment in moments[5:10]]
    assert after == pytest.approx(range(5), abs=1e-6)  # rounding
    assert 1.0 < moments[5] < 1.0 + 3 * period


@pytest.mark.parametrize('phase', [0.0001, 0.001, 0.002, 0.003, 0.0039])
def test_cycles_come_into_step_with_what_comes_once_a_period(phase):
    """Whenever it comes within a cycle: in the end it is used at most a millisecond later."""
    period, regular = 0.004, PeriodEstimator()
    moment, taken, ages = 0.0, -1.0, []
    for _ in range(1500):
        moment += period
        there = math.floor((moment - phase) / period + 1e-9) * period + phase
        if there > taken + 1e-9:
            waited, taken = 0.0, there
        elif there + period <= moment + 0.8 * period:
            waited, taken = there + period - moment, there + period
        else:
            continue  # nothing came in this cycle
        ages.append(moment + waited - taken)
        regular.note(moment + waited)
        moment += regular.shift(period, waited)
    assert len(ages) >= 1490
    assert max(ages[-300:]) < 1e-3


@pytest.mark.parametrize('rate', [30.0, 200.0, 1000.0])
def test_cycles_keep_their_own_time_beside_what_comes_at_another_rate(rate):
    regular = PeriodEstimator()
    for i in range(50):
        regular.note(i / rate)
    assert regular.shift(0.004, 0.0) == regular.shift(0.004, 0.003) == 0.0

"""
Fuzzed plans and joint states through the bridge's core (rows P5, P6), on a clock of our own.

Whatever arrives, every command is finite and within velocity, acceleration and jerk.
EMPPI_FUZZ_STREAM is the number of messages; `make fuzz` takes 200 000.
"""

import os
import warnings

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

import message_cases as cases

from emppi_ros.bridge.commander import BridgeConfig, Commander
from emppi_ros.bridge.monitors import Measurement
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import convert
from emppi_ros.robots.plan import make
from emppi_ros.robots.robot import load_robot

MESSAGES = int(os.environ.get('EMPPI_FUZZ_STREAM', '3000'))
LENGTH = 500  # messages to one bridge, then comes a fresh one
# differences of commands of order 1, each rounded by some 1e-15, over dt^2 = 1.6e-5, against
# jerks of 750 and more: 1e-12 or so
ROUNDING = 1e-9


def arm(commander, now):
    """Arm again whatever went wrong, if it can be."""
    try:
        commander.disarm()
        commander.arm(now)
    except EmppiError:
        pass


class Robot:
    """Where a robot is that does what it is told, and what its joint states say."""

    def __init__(self, robot, rng):
        self.robot, self.rng = robot, rng
        lower, upper = robot.limits.position.lower, robot.limits.position.upper
        self.position = rng.uniform(np.array(lower) + 0.1, np.array(upper) - 0.1)
        self.velocity = np.zeros(7)

    def joint_state(self):
        """Return a joint state: true in half of the cases, anything else in the others."""
        message = cases.joints(self.rng, self.robot)
        if self.rng.random() < 0.6:
            message = convert.write_joints(self.robot, cases.NOW, self.position, self.velocity)
        return message


def stream(robot, rng, count):
    """Send messages to a fresh bridge; return the commands (n, 7), and how many plans it took."""
    config = BridgeConfig()
    dt = 1.0 / config.rate_hz
    commander, arms, commands = Commander(config, robot), Robot(robot, rng), []
    now, plans = 0.0, 0
    for _ in range(count):
        try:
            kind = rng.random()
            if kind < 0.2:  # a good one, so that there is motion to disturb
                rows = rng.uniform(-0.5, 0.5, (10, 7)) * robot.limits.velocity
                commander.receive(make(robot, now, np.zeros(7), rows, 0.05, 'linear'))
            elif kind < 0.5:
                message = cases.trajectory(rng, robot)
                plan = convert.read_plan(robot, message, cases.NOW)
                commander.receive(plan._replace(start=plan.start - cases.NOW + now))
                plans += 1
            else:
                _, position, velocity = convert.read_joints(robot, arms.joint_state())
                commander.measure(Measurement(now, 0.0, position, velocity))
        except EmppiError:
            pass
        if not commander.ready:
            continue
        if rng.random() < 0.4:
            arm(commander, now)
        for _ in range(rng.integers(1, 4)):
            now += dt
            value = commander.step(now)[0].value
            commander.follow(now, value)
            commands.append(value)
            arms.position, arms.velocity = arms.position + dt * value, value
    return np.array(commands), plans


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize('name', ['panda', 'fr3'])
def test_whatever_arrives_every_command_is_legal(name, capfd):
    robot = load_robot(name)
    rng = np.random.default_rng(20200127)
    limits, dt = robot.limits, 1.0 / BridgeConfig().rate_hz
    plans = sent = moving = 0
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        for _ in range(max(1, MESSAGES // 2 // LENGTH)):
            velocity, taken = stream(robot, rng, LENGTH)
            acceleration = np.diff(velocity, axis=0) / dt
            jerk = np.diff(acceleration, axis=0) / dt
            assert np.isfinite(velocity).all()
            assert np.all(np.abs(velocity) <= np.array(limits.velocity) * (1 + ROUNDING))
            usable = robot.dynamics_factor * np.array(limits.acceleration)
            assert np.all(np.abs(acceleration[1:]) <= usable * (1 + ROUNDING))
            assert np.all(np.abs(jerk[1:]) <= 0.2 * np.array(limits.jerk) * (1 + ROUNDING))
            plans, sent = plans + taken, sent + len(velocity)
            moving += int(np.any(velocity, axis=1).sum())
    assert capfd.readouterr() == ('', '')
    assert plans and moving > 0.1 * sent  # or it tests a robot that stands
    print(f'{name}: {sent} commands, {moving} of motion, {plans} plans taken, 0 illegal')

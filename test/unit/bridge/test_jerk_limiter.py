"""Whatever the target, commands keep velocity, acceleration, and room to stop."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.bridge import jerk_limiter
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.robots import velocity_bounds
from emppi_ros.robots.robot import JointLimits, PositionLimits, Robot, load_robot

DT = 0.004
LIMITS = JointLimits(
    PositionLimits((-0.5, -0.3), (0.5, 0.6)), (1.0, 0.5), (5.0, 8.0), (), (10.0, 20.0)
)
VELOCITY = Robot('r', ('a', 'b'), ('a', 'b'), 'velocity', (0.0, 0.0), LIMITS)
POSITION = dataclasses.replace(VELOCITY, command='position')
EFFORT = dataclasses.replace(VELOCITY, command='effort')
USABLE = 0.98 * VELOCITY.dynamics_factor * np.array(LIMITS.acceleration)
LOWER, UPPER = np.array(LIMITS.position.lower), np.array(LIMITS.position.upper)
ZERO = np.zeros(2)
# speeds of order 1 and steps of dt: a few roundings of 2^-53
ROUNDING = 1e-12


def _drive(robot, targets, position=(0.0, 0.0), command=None):
    """Follow targets with a robot that does exactly as told; return commands and positions."""
    position = np.array(position, dtype=float)
    command = jerk_limiter.at_rest(robot, position) if command is None else command
    commands, positions = [], []
    for target in targets:
        command = jerk_limiter.shape(robot, command, target, position, DT)
        position = command.value if robot.command == 'position' else position + DT * command.value
        commands.append(command)
        positions.append(position)
    return commands, np.array(positions)


def _speeds(robot, commands):
    return np.array([c.rate if robot.command == 'position' else c.value for c in commands])


def _assert_gentle(speeds, start=0.0):
    assert np.all(np.abs(speeds) <= np.array(LIMITS.velocity) + ROUNDING)
    changes = np.diff(np.vstack([np.full(2, start), speeds]), axis=0)
    assert np.all(np.abs(changes) <= USABLE * DT + ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize('robot', [VELOCITY, POSITION], ids=lambda r: r.command)
@given(st.integers(0, 10_000))
def test_commands_stay_within_all_limits_for_any_target(robot, seed):
    rng = np.random.default_rng(seed)
    targets = np.repeat(rng.normal(0.0, 3.0, (12, 2)), rng.integers(1, 80, 12), axis=0)
    commands, positions = _drive(robot, targets)
    _assert_gentle(_speeds(robot, commands))
    assert np.all(positions > LOWER) and np.all(positions < UPPER)


@pytest.mark.parametrize('direction', [-1.0, 1.0])
def test_full_speed_towards_an_end_stop_ends_at_the_margin(direction):
    commands, positions = _drive(VELOCITY, np.full((1500, 2), 99.0 * direction))
    stop = UPPER if direction > 0 else LOWER
    room = np.abs(stop - positions[-1])
    # never into the margin; the rest of the way is approached exponentially
    assert np.all(room >= velocity_bounds.MARGIN - ROUNDING)
    # by the joint that gets there first: it holds the other, which would bend the way
    np.testing.assert_allclose(np.min(room), velocity_bounds.MARGIN, rtol=0, atol=1e-6)
    assert np.all(np.abs(commands[-1].value) < 1e-5)


def test_a_robot_beyond_its_end_stop_may_move_back_but_no_further():
    outside = UPPER + 0.1
    out, _ = _drive(VELOCITY, np.full((5, 2), 1.0), outside)
    back, _ = _drive(VELOCITY, np.full((5, 2), -1.0), outside)
    assert not np.any(out[-1].value) and np.all(back[-1].value < 0.0)


@pytest.mark.slow
@pytest.mark.parametrize('robot', [VELOCITY, POSITION], ids=lambda r: r.command)
@given(st.integers(0, 1000))
def test_without_a_target_the_robot_brakes_to_rest_and_never_turns_back(robot, seed):
    rng = np.random.default_rng(seed)
    speed = rng.uniform(-1.0, 1.0, 2) * LIMITS.velocity
    moving = (
        Command(np.zeros(2), speed, ZERO)
        if robot.command == 'position'
        else Command(speed, ZERO, ZERO)
    )
    commands, _ = _drive(robot, [None] * 200, command=moving)
    speeds = np.vstack([speed, _speeds(robot, commands)])
    assert np.all(np.diff(np.abs(speeds), axis=0) <= 0.0)
    assert np.all(speeds * np.sign(speed) >= 0.0)
    assert jerk_limiter.is_at_rest(robot, commands[-1])
    # v / a + a / j, where a / j is 5 ms without a jerk limit, and not slower: one cycle of slack
    cycles = np.ceil((np.abs(speed) / USABLE + 0.005) / DT - 1e-9)
    moved = np.sum(speeds != 0.0, axis=0)
    assert np.all(moved <= cycles + 1)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.floats(-0.4, 0.4), st.floats(-0.2, 0.5))
def test_positions_converge_to_their_target_without_overshoot(a, b):
    target = np.array([a, b])
    commands, positions = _drive(POSITION, [target] * 700)
    _assert_gentle(_speeds(POSITION, commands))
    beyond = (positions - target) * np.sign(target)
    assert np.all(beyond <= ROUNDING)
    # the last part of the way decays by half or more per cycle: far below 1e-6 at the end
    np.testing.assert_allclose(positions[-1], target, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_the_top_speed_of_an_fr3_has_a_margin_to_frankas_limit():
    """Commands sum up accelerations: one of a million streams ended 4e-16 above the bound."""
    robot, dt = load_robot('fr3'), 0.001
    middle = np.array(robot.home)
    for start in np.random.default_rng(0).uniform(-0.5, 0.5, (10, 7)):
        command = Command(start, np.zeros(7), np.zeros(7))
        for _ in range(700):  # to full speed on the spot, where no end stop is near
            command = jerk_limiter.shape(robot, command, np.full(7, 1e3), middle, dt)
            assert np.all(command.value < np.array(robot.limits.velocity) - 1e-3)
        assert command.value.max() == pytest.approx(2.619, abs=1e-6)  # it got there


def test_a_velocity_target_within_limits_is_followed_exactly():
    targets = np.column_stack([0.3 * np.sin(np.arange(200) * DT), 0.2 * np.ones(200)])
    commands, _ = _drive(VELOCITY, targets)
    np.testing.assert_allclose(_speeds(VELOCITY, commands)[50:], targets[50:], rtol=0, atol=0)


def test_efforts_are_limited_and_drop_to_zero_at_once():
    commands, _ = _drive(EFFORT, [np.array([99.0, -7.0]), None])
    assert commands[0].value.tolist() == [10.0, -7.0]
    assert commands[1].value.tolist() == [0.0, 0.0] and jerk_limiter.is_at_rest(
        EFFORT, commands[1]
    )


def test_commands_at_rest_keep_the_position():
    here = np.array([0.3, 0.1])
    assert jerk_limiter.at_rest(POSITION, here).value.tolist() == [0.3, 0.1]
    for robot in (VELOCITY, EFFORT):
        assert jerk_limiter.at_rest(robot, here).value.tolist() == [0.0, 0.0]
    commands, positions = _drive(POSITION, [None] * 5, here)
    assert positions[-1].tolist() == [0.3, 0.1]


@pytest.mark.parametrize('sign', [1.0, -1.0])
def test_a_joint_that_passes_rest_has_exactly_zero_velocity(sign):
    """An FR3 allows no speed at all towards a stop: 1e-18 rad/s, a rounding, is refused."""
    robot = load_robot('fr3')
    position = np.array(robot.home)
    position[0] = sign * 2.743  # where the FR3's envelope is zero outwards
    speed, acceleration, target = np.zeros((3, 7))
    # inwards, slowing down so that it comes to rest and starts again: 0.49 mm/s = a^2 / 2j, with
    # the digits where ruckig's rounding shows
    speed[0], acceleration[0], target[0] = -0.0004899999999999677, 0.98, -6.4e-5
    last = Command(sign * speed, np.zeros(7), sign * acceleration)
    found = jerk_limiter.shape(robot, last, sign * target, position, 0.001)
    assert found.value[0] == found.acceleration[0] == 0.0

"""A stop trajectory ends at rest from any command: smoothly, quickly, and within limits."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.bridge import jerk_limiter, stop_trajectory
from emppi_ros.bridge.joint_trajectory import MotionState, sample
from emppi_ros.robots import franka_limits
from emppi_ros.robots.robot import load_robot

PANDA, FR3 = load_robot('panda'), load_robot('fr3')
A = PANDA.dynamics_factor * np.array(PANDA.limits.acceleration)
JERK = np.array(PANDA.limits.jerk) / 5
LOWER, UPPER = np.array(PANDA.limits.position.lower), np.array(PANDA.limits.position.upper)
LEAD, HOLD, DT = 0.02, 0.06, 1e-3
HOME = np.array(PANDA.home)
rows = st.lists(st.floats(-1.0, 1.0), min_size=7, max_size=7).map(np.array)


def _state(velocity, acceleration=0.0, position=HOME):
    return MotionState(position, velocity * np.ones(7), acceleration * np.ones(7))


def _sampled(made, before):
    """Return the motion of a controller at 1 kHz, from the first point on."""
    times = np.arange(made.times[0], made.end + DT, DT)
    states = [sample(made, before, t) for t in times]
    return times, *map(np.array, zip(*states, strict=True))


@pytest.mark.parametrize('velocity', [0.5, -0.5])
def test_from_half_a_radian_per_second_it_stops_within_205_ms(velocity):
    made = stop_trajectory.build(PANDA, _state(velocity), LEAD, HOLD)
    np.testing.assert_allclose(sample(made, _state(velocity), HOLD).velocity, velocity)
    assert np.all(np.abs(sample(made, _state(velocity), HOLD + DT).velocity) < abs(velocity))
    assert made.end <= 0.205
    assert not np.any(made.velocities[-1]) and not np.any(made.accelerations[-1])


@settings(max_examples=60, deadline=None)
@given(rows, rows)
def test_a_stop_is_smooth_within_limits_and_never_reverses(velocity, acceleration):
    state = MotionState(HOME, velocity, A * acceleration)
    made = stop_trajectory.build(PANDA, state, LEAD, HOLD)
    times, q, v, a = _sampled(made, state)
    assert np.all(np.diff(made.times) > 0.0)
    np.testing.assert_allclose(q[0], HOME)
    # constant jerk between points gives cubics, which the quintics match up to rounding
    assert np.all(np.abs(a) <= A + 1e-6)
    steps = np.diff(a, axis=0) / DT
    assert np.all(np.abs(steps) <= JERK * (1 + 1e-4) + 1e-2)  # of 3750; a is rounded to 1e-8
    np.testing.assert_allclose(np.diff(q, axis=0) / DT, (v[1:] + v[:-1]) / 2, atol=2e-3)
    np.testing.assert_allclose(np.diff(v, axis=0) / DT, (a[1:] + a[:-1]) / 2, atol=0.5)
    assert np.all(v * np.sign(velocity) >= -1e-9)
    assert np.all(np.abs(v) <= np.array(PANDA.limits.velocity) + 1e-9)


@settings(max_examples=60, deadline=None)
@given(rows)
def test_moving_joints_brake_together(velocity):
    made = stop_trajectory.build(PANDA, MotionState(HOME, velocity, np.zeros(7)), LEAD, HOLD)
    share = made.velocities @ velocity / max(velocity @ velocity, np.finfo(float).tiny)
    np.testing.assert_allclose(made.velocities, np.outer(share, velocity), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize('sign', [1.0, -1.0])
def test_stops_near_end_stops_stay_within_limits(sign):
    # as fast as the bridge allows, until it has braked the joints before their stops
    command, q = jerk_limiter.at_rest(PANDA, HOME), HOME
    fastest = sign * np.array(PANDA.limits.velocity)
    for _ in range(1500):
        new = jerk_limiter.shape(PANDA, command, fastest, q, 0.004)
        acceleration = (new.value - command.value) / 0.004
        q, command = q + 0.002 * (command.value + new.value), new
        made = stop_trajectory.build(
            PANDA, MotionState(q, command.value, acceleration), LEAD, HOLD
        )
        assert np.all((made.positions >= LOWER) & (made.positions <= UPPER))
        assert np.all(np.abs(made.accelerations) <= A / PANDA.dynamics_factor + 1e-6)
    assert not np.any(np.abs(command.value) > 0.05)


def test_beyond_stopping_distance_it_brakes_at_the_limit():
    made = stop_trajectory.build(PANDA, _state(1.0, position=UPPER - 1e-3), LEAD, HOLD)
    assert np.all(made.positions[-1] > UPPER)
    share = np.abs(made.accelerations).max(axis=0) / (A / PANDA.dynamics_factor)
    assert np.all((share > 0.97) & (share <= 1.0))  # the limiter has a margin of 2 % for rounding
    assert not np.any(made.velocities[-1]) and not np.any(made.accelerations[-1])


def test_at_rest_it_stays_in_place():
    made = stop_trajectory.build(PANDA, _state(0.0), LEAD, HOLD)
    assert not np.any(made.velocities) and np.array_equal(made.positions[-1], HOME)


def test_a_robot_without_jerk_limits_gets_a_default_ramp():
    limits = dataclasses.replace(PANDA.limits, jerk=())
    robot = dataclasses.replace(PANDA, published='none', limits=limits)
    made = stop_trajectory.build(robot, _state(0.5), LEAD, HOLD)
    assert made.end <= 0.22 and np.all(np.abs(made.accelerations) <= A + 1e-9)


def test_a_controller_changes_to_the_next_trajectory_without_a_jump():
    first = stop_trajectory.build(PANDA, _state(0.5), LEAD, HOLD)
    here = sample(first, _state(0.5, position=HOME - 0.01), LEAD)
    np.testing.assert_allclose(here.position, HOME)
    second = stop_trajectory.build(PANDA, _state(0.5, position=HOME + 0.01), LEAD, HOLD)
    mid = sample(second, here, LEAD / 2)
    np.testing.assert_allclose(mid.velocity, 0.5)
    np.testing.assert_allclose(mid.position, HOME + 0.005)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_an_fr3_that_stops_stays_within_its_velocity_envelope(seed):
    rng = np.random.default_rng(seed)
    lower, upper = np.array(FR3.limits.position.lower), np.array(FR3.limits.position.upper)
    position = rng.uniform(lower + 0.3, upper - 0.3)
    command, target = jerk_limiter.at_rest(FR3, position), rng.normal(0.0, 3.0, 7)
    for cycle in range(250):
        last, command = command, jerk_limiter.shape(FR3, command, target, position, 0.004)
        position = position + 0.002 * (command.value + last.value)
        if cycle % 25:
            continue
        state = MotionState(position, command.value, command.acceleration)
        _, q, v, _ = _sampled(stop_trajectory.build(FR3, state, LEAD, HOLD), state)
        for where, speed in zip(q, v, strict=True):
            down, up = franka_limits.velocity_envelope('fr3', FR3.commanded, where)
            # a margin of 1e-3 rad/s is kept for rounding
            assert np.all(speed >= down - 1e-3) and np.all(speed <= up + 1e-3)

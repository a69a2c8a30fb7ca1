"""Commands of the arms, differentiated at the bridge's rate and at 1 kHz, stay within limits."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.bridge import jerk_limiter
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.robots import franka_limits, velocity_bounds
from emppi_ros.robots.robot import load_robot

ARMS = [
    dataclasses.replace(load_robot(name), command=command)
    for name in ('panda', 'fr3')
    for command in ('velocity', 'position')
]
PERIODS = [0.001, 0.004]
# differences of speeds of order 1, each rounded by some 1e-15, over dt^2 = 1e-6, against jerks of
# 750 and more: 1e-11 or so. Positions are summed up in between.
ROUNDING = 1e-9


def _segments(robot, rng):
    """Yield (target or None, duration in s): steps, small changes, braking at any moment."""
    limits = robot.limits
    for _ in range(10):
        kind = rng.integers(4)
        if kind == 0:
            target = None
        elif robot.command == 'position' and kind == 1:
            target = rng.uniform(limits.position.lower, limits.position.upper)
        else:
            target = rng.normal(0.0, 3.0 if kind == 2 else 0.3, 7)
        yield target, rng.uniform(0.001, 0.4)


@pytest.mark.slow
@pytest.mark.parametrize('dt', PERIODS)
@pytest.mark.parametrize('robot', ARMS, ids=lambda r: f'{r.name}-{r.command}')
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_target_exceeds_a_limit_and_braking_never_reverses(robot, dt, seed):
    rng = np.random.default_rng(seed)
    usable, jerk = 0.5 * np.array(robot.limits.acceleration), 0.2 * np.array(robot.limits.jerk)
    fastest = np.array(robot.limits.velocity)
    lower, upper = (np.array(row) for row in vars(robot.limits.position).values())
    position = rng.uniform(lower + 0.1, upper - 0.1)
    command, speed, change = jerk_limiter.at_rest(robot, position), np.zeros(7), np.zeros(7)
    for target, duration in _segments(robot, rng):
        onset = speed
        for _ in range(1 + int(duration / dt)):
            command = jerk_limiter.shape(robot, command, target, position, dt)
            velocity = command.value if robot.command == 'velocity' else command.rate
            acceleration = (velocity - speed) / dt
            assert np.all(np.abs(velocity) <= fastest * (1.0 + ROUNDING))
            assert np.all(np.abs(acceleration) <= usable * (1.0 + ROUNDING))
            assert np.all(np.abs(acceleration - change) / dt <= jerk * (1.0 + ROUNDING))
            if robot.command == 'velocity':
                position = position + 0.5 * dt * (velocity + speed)
            else:
                position = command.value
            assert np.all(position < upper) and np.all(position > lower)
            if robot.published == 'fr3':
                down, up = franka_limits.velocity_envelope('fr3', robot.commanded, position)
                assert np.all(velocity <= up + ROUNDING) and np.all(velocity >= down - ROUNDING)
            if target is None:
                assert np.all(velocity * np.sign(onset) >= 0.0)
                # an acceleration under way takes a / j to end: v rises by a^2 / 2j at most
                rise = usable**2 / (2.0 * jerk)
                assert np.all(np.abs(velocity) <= np.abs(onset) + rise * (1.0 + ROUNDING))
            speed, change = velocity, acceleration


@pytest.mark.parametrize('dt', PERIODS)
@pytest.mark.parametrize('robot', ARMS, ids=lambda r: f'{r.name}-{r.command}')
def test_braking_takes_the_computed_time(robot, dt):
    zero, speed = np.zeros(7), np.full(7, 0.5)
    home = np.array(robot.home)
    command = Command(speed, zero, zero)
    if robot.command == 'position':
        command = Command(home, speed, zero)
    usable, jerk = velocity_bounds.usable_acceleration(robot), velocity_bounds.usable_jerk(robot)
    derived = np.max(0.5 / usable + usable / jerk)  # 98 % of half the limit, and of a fifth
    assert derived == pytest.approx({'panda': 0.1411, 'fr3': 0.1070}[robot.name], abs=1e-4)
    cycles = 0
    while not jerk_limiter.is_at_rest(robot, command) and cycles < 1000:
        command, cycles = jerk_limiter.shape(robot, command, None, home, dt), cycles + 1
    assert derived - dt <= cycles * dt <= derived + dt  # on the grid of cycles
    assert not np.any(command.acceleration)


@given(st.integers(0, 10_000))
def test_a_clamped_vector_keeps_its_direction_and_reaches_a_bound(seed):
    rng = np.random.default_rng(seed)
    target = rng.normal(0.0, 2.0, 7)
    lower, upper = -rng.uniform(0.1, 2.0, 7), rng.uniform(0.1, 2.0, 7)
    clamped = velocity_bounds.clamp(target, lower, upper)
    assert np.all(clamped >= lower) and np.all(clamped <= upper)
    cosine = clamped @ target / np.linalg.norm(clamped) / np.linalg.norm(target)
    assert cosine == pytest.approx(1.0, abs=1e-14)  # a few roundings
    touching = np.isclose(clamped, lower) | np.isclose(clamped, upper)
    assert np.array_equal(clamped, target) or touching.any()


@pytest.mark.parametrize(
    'robot', [r for r in ARMS if r.command == 'velocity'], ids=lambda r: r.name
)
def test_a_target_beyond_limits_is_followed_in_its_direction(robot, rng):
    target, home = rng.normal(0.0, 9.0, 7), np.array(robot.home)
    command = jerk_limiter.at_rest(robot, home)
    for _ in range(500):  # 2 s: longer than it takes to the fastest speed
        command = jerk_limiter.shape(robot, command, target, home, 0.004)
    speed = command.value
    cosine = speed @ target / np.linalg.norm(speed) / np.linalg.norm(target)
    assert np.linalg.norm(speed) > 0.1 and cosine == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize('robot', ARMS, ids=lambda r: f'{r.name}-{r.command}')
@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_a_non_finite_target_brakes(robot, bad):
    home, zero, target = np.array(robot.home), np.zeros(7), np.full(7, 0.1)
    target[3] = bad
    speed = np.full(7, 0.3)
    last = (
        Command(speed, zero, zero) if robot.command == 'velocity' else Command(home, speed, zero)
    )
    ours = jerk_limiter.shape(robot, last, target, home, 0.004)
    braked = jerk_limiter.shape(robot, last, None, home, 0.004)
    assert all(np.array_equal(a, b) for a, b in zip(ours[:3], braked[:3], strict=True))


@pytest.mark.parametrize('robot', ARMS, ids=lambda r: f'{r.name}-{r.command}')
@pytest.mark.parametrize('target', [None, 0.1])
def test_without_a_solution_of_ruckig_the_arm_brakes_too(robot, target, monkeypatch):
    def fail(*_):
        raise jerk_limiter.ruckig.RuckigError('no way')

    solver = type('Solver', (), {'__init__': lambda *_: None, 'calculate': fail})
    monkeypatch.setattr(jerk_limiter.ruckig, 'Ruckig', solver)
    home, zero, speed = np.array(robot.home), np.zeros(7), np.full(7, 0.3)
    last = (
        Command(speed, zero, zero) if robot.command == 'velocity' else Command(home, speed, zero)
    )
    row = None if target is None else np.full(7, target)
    longest = 0.3 / jerk_limiter.velocity_bounds.usable_acceleration(robot).min()
    assert jerk_limiter.braking_time(robot, last) == pytest.approx(longest)
    first = jerk_limiter.shape(robot, last, None, home, 0.004)
    slower = 0.3 - jerk_limiter.velocity_bounds.usable_acceleration(robot) * 0.004
    moved = home + 0.004 * slower if robot.command == 'position' else slower
    np.testing.assert_allclose(first.value, moved)
    for _ in range(50):
        last = jerk_limiter.shape(robot, last, row, home, 0.004)
    assert jerk_limiter.is_at_rest(robot, last)


def test_shape_does_not_modify_its_arguments():
    robot = ARMS[0]
    last = Command(np.full(7, 0.1), np.zeros(7), np.full(7, 0.2))
    target, home = np.full(7, 9.0), np.array(robot.home)
    copies = [row.copy() for row in (*last[:3], target, home)]
    first = jerk_limiter.shape(robot, last, target, home, 0.004)
    again = jerk_limiter.shape(robot, last, target, home, 0.004)
    assert all(
        np.array_equal(a, b) for a, b in zip((*last[:3], target, home), copies, strict=True)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first[:3], again[:3], strict=True))

"""Rolling trajectories follow what is commanded, and stop by themselves when nothing comes."""

import numpy as np
import pytest

from emppi_ros.bridge import rolling, shaping, tail
from emppi_ros.bridge.rolling import TrajectoryConfig
from emppi_ros.tasks.robot import load_robot

PANDA = load_robot('panda')
HOME = np.array(PANDA.home)
CONFIG = TrajectoryConfig()
DT = 0.004
PERIOD = 1.0 / CONFIG.trajectory_rate_hz


def _drive(state, velocities, began=0.0, engaged=True, position=HOME):
    """Return the state after commands, what was sent, and what a 1 kHz controller did."""
    sent, moves, running, start, here = [], [], None, 0.0, tail.State(HOME, HOME * 0, HOME * 0)
    for k, velocity in enumerate(velocities):
        now = began + k * DT
        state, made = rolling.advance(
            CONFIG, PANDA, state, now, velocity * np.ones(7), position, engaged
        )
        if made is not None:
            here = tail.sample(running, here, now - start) if running else here
            running, start = made, now
            sent.append((now, made))
        for i in range(4):
            if running:
                moves.append(tail.sample(running, here, now + 1e-3 * i - start))
    return state, sent, moves


def _speeds(target, count):
    """Return velocities as the bridge shapes them."""
    command, out = shaping.at_rest(PANDA, HOME), []
    for k in range(count):
        command = shaping.shape(PANDA, command, np.full(7, target(k * DT)), HOME, DT)
        out.append(command.value)
    return out


def test_the_motion_is_the_commanded_one_a_period_later_and_within_limits():
    speeds = _speeds(lambda t: 0.4 * np.sin(4 * t), 500)
    _, sent, moves = _drive(rolling.begin(-DT, HOME), speeds)
    assert np.diff([time for time, _ in sent]) == pytest.approx(PERIOD)
    v = np.array([state.velocity for state in moves])
    a = np.array([state.acceleration for state in moves])
    wanted = np.repeat(speeds, 4, axis=0)
    lag = round(PERIOD / 1e-3)
    # a command is held for 4 ms there, and a sine of 4 rad/s changes by 0.0064 in them
    assert np.max(np.abs(v[lag:] - wanted[-len(v) : -lag])) < 0.02
    usable = PANDA.dynamics_factor * np.array(PANDA.limits.acceleration)
    assert np.all(np.abs(a) <= usable)


def test_every_trajectory_ends_at_rest_and_at_rest_they_cease():
    speeds = _speeds(lambda t: 0.3 if t < 0.5 else 0.0, 500)
    _, sent, moves = _drive(rolling.begin(-DT, HOME), speeds)
    assert all(not np.any(made.velocities[-1]) for _, made in sent)
    stopped = max(k for k, v in enumerate(speeds) if np.any(v)) * DT
    assert stopped + 3 * PERIOD < sent[-1][0] < stopped + 8 * PERIOD
    # where the robot stops is where the commands led
    travelled = HOME + DT * np.sum(speeds, axis=0)
    np.testing.assert_allclose(moves[-1].position, travelled, atol=1e-9)


def test_before_any_motion_nothing_is_sent():
    _, sent, _ = _drive(rolling.begin(-DT, HOME), np.zeros(100))
    assert sent == []


def test_after_silence_the_robot_is_known_to_brake_and_then_to_rest():
    state, sent, _ = _drive(rolling.begin(-DT, HOME), np.full(100, 0.5))
    at, made = sent[-1]
    assert rolling.coast(state, at + 0.05)[1] is None
    halfway, velocity = rolling.coast(state, at + 0.12)
    assert np.all((velocity > 0.0) & (velocity < 0.5))
    rested, velocity = rolling.coast(halfway, at + 5.0)
    assert not np.any(velocity)
    np.testing.assert_allclose(rested.reference.position, made.positions[-1])
    assert rolling.coast(rested, at + 5.1)[1] is None  # told once, then we may go on
    # and the next motion begins there, at rest
    _, sent, _ = _drive(rested, _speeds(lambda _: 0.5, 10), began=at + 5.1)
    np.testing.assert_allclose(sent[0][1].positions[0], made.positions[-1], atol=1e-3)


@pytest.mark.parametrize(('shift', 'expected'), [(0.01, 0.0), (0.3, 0.3)])
def test_armed_anew_it_starts_where_the_arm_was_moved_to(shift, expected):
    state, _, _ = _drive(rolling.begin(-DT, HOME), np.zeros(5), engaged=False)
    state, _, _ = _drive(state, np.zeros(5), began=1.0, position=HOME + shift)
    np.testing.assert_allclose(state.reference.position, HOME + expected)

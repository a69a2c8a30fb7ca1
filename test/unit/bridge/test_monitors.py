"""Monitors: a fault-free arm trips none, and each fault trips its own in time."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.bridge import faults, jerk_limiter, monitors
from emppi_ros.bridge.monitors import Measurement, MonitorConfig, MonitorState
from emppi_ros.robots.robot import load_robot

PANDA = load_robot('panda')
HOME = np.array(PANDA.home)
CONFIG = MonitorConfig()
# not multiples of the cycle, so that rounding does not matter
UNEVEN = MonitorConfig(residual_window_s=0.0585, residual_after_s=0.0985)
BRIDGE_S = 0.004  # the bridge's cycle
LAG_S = 0.02  # of the simulated arm
EPOCH = 1.7e9  # s, of stamps
ZERO = np.zeros(7)


def motion(seed, seconds, fastest=0.5):
    """Return commands (cycles, 7) that the bridge shapes for random targets."""
    rng = np.random.default_rng(seed)
    position, command, target, rows = HOME.copy(), jerk_limiter.at_rest(PANDA, HOME), ZERO, []
    for k in range(round(seconds / BRIDGE_S)):
        if k % 100 == 0:  # every 0.4 s: a third of them rest, a third creep
            size = rng.choice([0.0, 0.02, 1.0]) * fastest
            target = size * rng.uniform(-1.0, 1.0, 7) * PANDA.limits.velocity
        command = jerk_limiter.shape(PANDA, command, target, position, BRIDGE_S)
        position = position + command.value * BRIDGE_S
        rows.append(command.value)
    return np.array(rows)


def arm(commands, rate_hz, rng, noise=(1e-4, 1e-3), hold=True):
    """Return times, positions and velocities (n, 7) of an arm with a first-order lag."""
    dt, decay = 1.0 / rate_hz, np.exp(-1.0 / rate_hz / LAG_S)
    times = np.arange(round(len(commands) * BRIDGE_S * rate_hz)) * dt
    position, velocity, rows = HOME.copy(), ZERO, []
    for wanted in commands[np.floor(times / BRIDGE_S + 1e-9).astype(int)]:
        rows.append((position, velocity))
        position = position + wanted * dt + LAG_S * (1.0 - decay) * (velocity - wanted)
        velocity = wanted + decay * (velocity - wanted)
    q, dq = np.array(rows).swapaxes(0, 1)
    shape = q.shape
    return times, q + noise[0] * rng.normal(size=shape), dq + noise[1] * rng.normal(size=shape)


def run(messages, commands, config=CONFIG, robot=PANDA):
    """
    Return (time, monitor) after every message, as the bridge would see it.

    Messages are (arrival, Measurement without time), by arrival; a cycle reads what has come,
    then commands.
    """
    monitor, out, i = MonitorState(), [], 0
    for k, velocity in enumerate(commands):
        now = k * BRIDGE_S
        while i < len(messages) and messages[i][0] <= now:
            monitor = monitors.measure(config, robot, monitor, messages[i][1]._replace(time=now))
            out.append((now, monitor))
            i += 1
        monitor = monitors.command(config, robot, monitor, now, velocity)
    return out


def stream(times, positions, velocities, stamped=True, shift=EPOCH):
    """Return messages as the robot sends them."""
    return [
        (t, Measurement(t, t + shift if stamped else 0.0, q, dq))
        for t, q, dq in zip(times, positions, velocities, strict=True)
    ]


def found(seen):
    return [(t, monitor.fault) for t, monitor in seen if monitor.fault is not None]


def feed(*rows, robot=PANDA, velocity=None):
    """Return the monitor after messages (time, stamp, position), the arm commanded to rest."""
    monitor = MonitorState()
    for time, stamp, position in rows:
        dq = ZERO[: len(position)] if velocity is None else velocity
        monitor = monitors.measure(CONFIG, robot, monitor, Measurement(time, stamp, position, dq))
    return monitor


@pytest.fixture(scope='module')
def clean():
    """Return commands of 12 s, and the motion of an arm at 250 Hz."""
    commands = motion(1, 12.0)
    return commands, arm(commands, 250, np.random.default_rng(2))


# --- a sound arm ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('rate_hz', 'seeds'),
    [(250, (11, 12)), pytest.param(1000, (14,), marks=pytest.mark.slow)],
)
def test_no_monitor_trips_on_a_fault_free_arm(rate_hz, seeds):
    for seed in seeds:
        commands = motion(seed, 60.0)
        assert np.max(np.abs(commands)) > 1.0  # it moves
        seen = run(stream(*arm(commands, rate_hz, np.random.default_rng(seed))), commands)
        assert len(seen) > 59.9 * rate_hz
        assert not found(seen) and all(monitor.used for _, monitor in seen)


@pytest.mark.slow
@pytest.mark.parametrize('stamped', [True, False])
@pytest.mark.parametrize('seed', range(3))
def test_lost_late_and_duplicated_messages_trip_no_monitor(clean, seed, stamped):
    commands, made = clean
    rng, last, messages = np.random.default_rng(seed), 0.0, []
    for time, message in stream(*made, stamped=stamped):
        last = max(last, time + rng.choice([0.0, rng.uniform(0.0, 0.02)], p=[0.8, 0.2]))
        messages += [(last, message)] * rng.choice([0, 1, 2], p=[0.3, 0.5, 0.2])
    seen = run(messages, commands)
    assert not found(seen)
    stamps = [message.stamp for _, message in messages][: len(seen)]
    new = [i == 0 or stamps[i] != stamps[i - 1] or not stamped for i in range(len(seen))]
    assert [monitor.used for _, monitor in seen] == new


def test_messages_out_of_order_are_ignored(clean):
    commands, made = clean
    messages = stream(*made)
    order = np.argsort(made[0] + np.random.default_rng(0).uniform(0.0, 0.02, len(messages)))
    arrivals = np.maximum.accumulate(made[0][order])
    shuffled = [(t, messages[i][1]) for t, i in zip(arrivals, order, strict=True)]
    seen = run(shuffled, commands)
    newest = np.maximum.accumulate(order)
    assert [m.used for _, m in seen] == list(order == newest)[: len(seen)]
    assert not found(seen)
    assert not all(m.used for _, m in seen)


@pytest.mark.slow
@pytest.mark.parametrize('step', [-3600.0, 3600.0, 1.5, -1.5])
def test_a_step_of_the_senders_clock_trips_no_monitor(clean, step):
    commands, made = clean
    messages = stream(*made)
    half = len(messages) // 2
    messages[half:] = [(t, m._replace(stamp=m.stamp + step)) for t, m in messages[half:]]
    seen = run(messages, commands)
    assert not found(seen) and all(monitor.used for _, monitor in seen)


@pytest.mark.slow
def test_slow_motion_of_a_coarse_encoder_is_not_frozen():
    """Slow motion with 12 bits per turn, no noise, and velocity 0 between steps."""
    step = 2.0 * np.pi / 4096
    for speed in np.geomspace(1e-4, 0.6, 13):
        ramp = np.minimum(np.arange(1000) * BRIDGE_S * 3.75, speed)
        commands = np.zeros((1000, 7))
        commands[:, 0] = ramp
        times, q, dq = arm(commands, 250, np.random.default_rng(0), noise=(0.0, 0.0))
        q = step * np.round(q / step)
        dq = np.diff(q, axis=0, prepend=q[:1]) / BRIDGE_S if speed < 0.3 else dq
        config = dataclasses.replace(CONFIG, residual_rad_per_s=1.0)  # differences are rough
        assert not found(run(stream(times, q, dq), commands, config))


# --- stamps --------------------------------------------------------------------------------


def test_repeated_stamps_are_ignored_so_that_joint_states_become_late():
    monitor = feed((0.0, EPOCH, HOME), (0.1, EPOCH, HOME), (0.2, EPOCH - 0.9, HOME))
    assert not monitor.used
    assert monitor.last.time == 0.0  # so that its age grows
    assert feed((0.0, EPOCH, HOME), (0.1, EPOCH + 1e-3, HOME)).used


def test_a_message_without_stamp_is_used_and_keeps_the_newest_stamp():
    monitor = feed((0.0, EPOCH, HOME), (0.01, 0.0, HOME))
    assert monitor.used
    assert not feed((0.0, EPOCH, HOME), (0.01, 0.0, HOME), (0.02, EPOCH, HOME)).used
    assert feed((0.0, 0.0, HOME), (0.01, 5.0, HOME)).used


def test_two_alternating_sources_are_a_fault_for_one_second():
    live = [(0.004 * k, EPOCH + 0.004 * k, HOME) for k in range(3)]
    bag = [(t + 0.001, stamp - 5000.0, HOME) for t, _, _ in live for stamp in [EPOCH + t]]
    turns = sorted(live + bag, key=lambda row: row[0])
    assert feed(*turns[:3]).fault is None  # back once, as a clock that was set
    fault = feed(*turns[:4]).fault
    assert fault.code == faults.STATE_JUMP and 'two sources' in fault.text
    after = (0.9, EPOCH + 10.0, HOME), (1.1, EPOCH + 10.1, HOME)
    assert feed(*turns, after[0]).fault.code == faults.STATE_JUMP
    assert feed(*turns, *after).fault is None


def test_a_clock_that_is_set_back_repeatedly_is_not_a_second_source():
    rows = [(2.0 * k, EPOCH - 60.0 * k, HOME) for k in range(5)]
    for n in range(1, 6):
        assert feed(*rows[:n]).fault is None and feed(*rows[:n]).used


# --- measured values -------------------------------------------------------------------------


@given(
    joint=st.integers(0, 6),
    elapsed=st.floats(1e-4, 1.0),
    share=st.one_of(st.floats(0.0, 0.999), st.floats(1.001, 3.0)),
    sign=st.sampled_from([-1.0, 1.0]),
)
def test_a_jump_is_a_step_beyond_tolerance_and_velocity_limit(joint, elapsed, share, sign):
    robot = dataclasses.replace(
        PANDA,
        published='none',
        limits=dataclasses.replace(
            PANDA.limits,
            position=type(PANDA.limits.position)((-12.0,) * 7, (12.0,) * 7),
        ),
    )
    allowed = 0.05 + PANDA.limits.velocity[joint] * elapsed
    there = HOME.copy()
    there[joint] += sign * share * allowed
    fault = feed((1.0, 0.0, HOME), (1.0 + elapsed, 0.0, there), robot=robot).fault
    assert (fault is not None) == (share > 1.0)
    if fault is not None:
        assert fault.code == faults.STATE_JUMP and f'panda_joint{joint + 1} ' in fault.text
        again = (1.01 + elapsed, 0.0, there)
        assert (
            feed((1.0, 0.0, HOME), (1.0 + elapsed, 0.0, there), again, robot=robot).fault is None
        )


def test_arrival_times_that_go_back_do_not_loosen_the_jump_check():
    there = HOME + 0.04
    assert feed((1.0, 0.0, HOME), (0.9, 0.0, there)).fault is None
    assert feed((1.0, 0.0, HOME), (0.9, 0.0, HOME + 0.06)).fault.code == faults.STATE_JUMP


@pytest.mark.parametrize('joint', range(7))
@pytest.mark.parametrize('side', ['lower', 'upper'])
def test_a_joint_beyond_its_position_limits_is_a_fault(joint, side):
    sign = 1.0 if side == 'upper' else -1.0
    limit = getattr(PANDA.limits.position, side)[joint]
    for beyond, wrong in ((0.099, False), (0.101, True)):
        q = HOME.copy()
        q[joint] = limit + sign * beyond
        fault = feed((0.0, 0.0, q)).fault
        assert (fault is not None) == wrong
    assert fault.code == faults.STATE_RANGE
    for words in (f'panda_joint{joint + 1} is at', f'{limit:g}', "'panda'"):
        assert words in fault.text


@pytest.mark.parametrize('joint', range(7))
def test_a_joint_far_above_its_velocity_limit_is_a_fault(joint):
    limit = PANDA.limits.velocity[joint]
    for ratio, wrong in ((1.49, False), (-1.51, True)):
        dq = np.where(np.arange(7) == joint, ratio * limit, 0.0)
        fault = feed((0.0, 0.0, HOME), velocity=dq).fault
        assert (fault is not None) == wrong
    assert fault.code == faults.STATE_RANGE and f'panda_joint{joint + 1} moves' in fault.text


@pytest.mark.parametrize('quantity', ['position', 'velocity'])
def test_nan_is_never_within_bounds(quantity):
    values = {'position': HOME, 'velocity': ZERO} | {quantity: np.full(7, np.nan)}
    monitor = monitors.measure(CONFIG, PANDA, MonitorState(), Measurement(0.0, 0.0, **values))
    assert monitor.fault.code == faults.STATE_RANGE


# --- against the commands ----------------------------------------------------------------------


@pytest.mark.parametrize('rate_hz', [50, 250, 1000])
@pytest.mark.parametrize('speed', [0.02, 0.1, 0.5])
def test_frozen_joint_states_are_detected_in_time(rate_hz, speed):
    commands = np.full((500, 7), speed)
    times, q, dq = arm(commands, rate_hz, np.random.default_rng(0))
    after = times > 1.0
    q[after], dq[after] = q[~after][-1], dq[~after][-1]
    (first, fault), *_ = found(run(stream(times, q, dq), commands))
    assert fault.code == faults.STATE_FROZEN and 'equal, bit by bit' in fault.text
    assert fault.text.endswith(
        '(rad or m): the driver repeats itself, or the robot ignores its commands'
    )
    # 50 ms or 5 mrad, whichever is later; then one message and two cycles; it froze at 1 s
    last = times[~after][-1]
    due = max(0.05, 0.005 / speed)
    assert due < first - last <= due + 1.0 / rate_hz + 2 * BRIDGE_S + 1e-9


def test_equal_joint_states_at_rest_and_the_start_of_motion_are_no_fault():
    commands = np.zeros((1000, 7))
    commands[600:, 2] = np.minimum(np.arange(400) * BRIDGE_S * 5.0, 0.5)
    made = arm(commands, 250, np.random.default_rng(0), noise=(0.0, 0.0))
    assert len({row.tobytes() for row in made[1][:600]}) == 1
    assert not found(run(stream(*made), commands))


def test_joint_states_frozen_at_rest_are_detected_when_motion_is_commanded():
    commands = np.zeros((300, 7))
    commands[100:120, 4] = -0.2
    times = np.arange(300) * BRIDGE_S
    seen = found(run(stream(times, np.tile(HOME, (300, 1)), np.zeros((300, 7))), commands))
    assert {fault.code for _, fault in seen} == {faults.STATE_FROZEN}
    assert 0.4 + 0.05 < seen[0][0] <= 0.4 + 0.05 + 2 * BRIDGE_S + 1e-9
    # and no longer than commands count: at rest the states are not expected to change
    assert 0.48 < seen[-1][0] <= 0.48 + 0.06 + 2 * BRIDGE_S + 1e-9


def residuals(commands, velocities):
    """Return where velocities violate the rule (n, 7), by an independent implementation."""
    off = np.zeros(velocities.shape, dtype=bool)
    for k in range(1, len(velocities)):
        now = (k - 1) * BRIDGE_S  # the newest command, for a cycle reads before it commands
        in_force = [j for j in range(k) if j * BRIDGE_S > now - UNEVEN.residual_window_s]
        window = commands[max(0, in_force[0] - 1) : k]
        low, high = window.min(axis=0), window.max(axis=0)
        allowed = np.maximum(0.1, 0.25 * np.abs(window).max(axis=0))
        off[k] = (velocities[k] < low - allowed) | (velocities[k] > high + allowed)
    return off


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('command', ['velocity', 'position'])
def test_residuals_match_an_independent_implementation(seed, command):
    robot, rng = dataclasses.replace(PANDA, command=command), np.random.default_rng(seed)
    commands = motion(seed, 6.0)
    times, q, dq = arm(commands, 250, rng)
    pushes = np.repeat(rng.choice([0.0, 0.0, 0.0, 0.3], (50, 7)), 30, axis=0)
    dq = dq + pushes  # for 0.12 s each, some in a row
    off, since, expected = residuals(commands, dq), np.full(7, np.inf), []
    for k, t in enumerate(times):
        since = np.where(off[k], np.minimum(since, t), np.inf)
        if np.max(t - since) > UNEVEN.residual_after_s:
            expected.append(k)
    seen = run(stream(times, q, dq), commands, UNEVEN, robot)
    assert expected
    assert [k for k, (_, m) in enumerate(seen) if m.fault is not None] == expected
    assert {m.fault.code for _, m in seen if m.fault is not None} == {faults.RESIDUAL}


@pytest.mark.parametrize('share', [0.1, 0.5])
def test_a_slowed_robot_is_named_by_the_share_of_its_commands(share, rng):
    commands = np.tile(rng.uniform(-0.8, 0.8, 7), (200, 1))
    times = np.arange(200) * BRIDGE_S
    travel = np.array(HOME) + share * np.cumsum(commands, axis=0) * BRIDGE_S
    slowed = found(run(stream(times, travel, share * commands), commands))
    assert f'all joints move at {100 * share:.0f} % of their commands' in slowed[0][1].text
    uneven = share * commands * rng.uniform(0.0, 1.0, 7)
    travel = np.array(HOME) + np.cumsum(uneven, axis=0) * BRIDGE_S
    assert 'pushed or held' in found(run(stream(times, travel, uneven), commands))[0][1].text


@pytest.mark.parametrize('speed', [0.2, 1.0])
def test_a_blocked_or_runaway_arm_is_detected_after_a_tenth_of_a_second(speed):
    commands = np.zeros((400, 7))
    commands[:, 3] = speed
    for factor in (0.0, 2.0):
        times, q, dq = arm(commands, 250, np.random.default_rng(0), noise=(1e-6, 1e-3))
        dq[250:, 3] *= factor
        q[250:, 3] = q[250, 3] + np.cumsum(dq[250:, 3]) / 250
        first, fault = found(run(stream(times, q, dq), commands))[0]
        assert fault.code == faults.RESIDUAL and fault.text.startswith('panda_joint4 has moved at')
        assert fault.text.endswith(
            '(rad/s or m/s): is it pushed or held, or is this another robot?'
        )
        assert times[250] + 0.1 <= first + 1e-9 <= times[250] + 0.1 + 2 * BRIDGE_S + 1e-9


@pytest.mark.parametrize('factor', [0.0, 0.3, 3.0])  # 0: left at 0; 3: other units
def test_velocities_that_contradict_positions_are_named(factor):
    commands = np.zeros((400, 7))
    commands[:, 3] = 0.5
    times, q, dq = arm(commands, 250, np.random.default_rng(0), noise=(1e-6, 1e-3))
    _, fault = found(run(stream(times, q, factor * dq), commands))[0]
    assert fault.code == faults.RESIDUAL
    assert 'velocities of the joint states contradict their positions: panda_joint4' in fault.text


def test_with_effort_commands_positions_are_compared_with_measured_velocities():
    limits = dataclasses.replace(PANDA.limits, effort=(87.0,) * 7)
    robot = dataclasses.replace(PANDA, command='effort', published='none', limits=limits)
    times, speed = np.arange(100) * BRIDGE_S, np.full((100, 7), 0.2)
    moving = HOME + 0.2 * times[:, None]
    assert not found(run(stream(times, moving, speed), np.zeros((100, 7)), robot=robot))
    still = np.tile(HOME, (100, 1))
    assert not found(run(stream(times, still, 0.0 * speed), speed, robot=robot))
    first, fault = found(run(stream(times, still, speed), speed, robot=robot))[0]
    assert fault.code == faults.STATE_FROZEN and 0.05 < first < 0.05 + 2 * BRIDGE_S + 1e-9


def test_commands_are_copied(clean):
    """A caller may reuse its array of commands."""
    velocity = np.full(7, 0.1)
    monitor = monitors.command(CONFIG, PANDA, MonitorState(), 0.0, velocity)
    monitor = monitors.command(CONFIG, PANDA, monitor, 0.01, velocity)
    velocity[:] = 99.0
    assert np.all(monitor.commanded.values == 0.1)


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 0.2),
            st.one_of(st.just(0.0), st.floats(-1e6, 1e6)),
            st.floats(-10.0, 10.0),
            st.floats(-10.0, 10.0),
            st.floats(-2.0, 2.0),
        ),
        max_size=30,
    )
)
def test_every_fault_has_a_code_and_a_text(rows):
    monitor, now = MonitorState(), 0.0
    codes = {faults.STATE_JUMP, faults.STATE_RANGE, faults.STATE_FROZEN, faults.RESIDUAL}
    for elapsed, stamp, position, velocity, commanded in rows:
        now += elapsed
        before = monitor.last
        measurement = Measurement(now, stamp, np.full(7, position), np.full(7, velocity))
        monitor = monitors.measure(CONFIG, PANDA, monitor, measurement)
        assert monitor.last is (measurement if monitor.used else before)
        assert monitor.fault is None or (monitor.fault.code in codes and monitor.fault.text)
        monitor = monitors.command(CONFIG, PANDA, monitor, now, np.full(7, commanded))

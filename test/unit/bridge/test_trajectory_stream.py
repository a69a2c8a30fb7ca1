"""A controller executes the trajectories as the commanded motion, within limits."""

import numpy as np
import pytest

from emppi_ros.bridge import jerk_limiter, trajectory_stream
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.joint_trajectory import MotionState, sample
from emppi_ros.bridge.trajectory_stream import TrajectoryConfig
from emppi_ros.core.errors import ConfigError
from emppi_ros.robots.robot import load_robot

PANDA = load_robot('panda')
HOME = np.array(PANDA.home)
ZERO = np.zeros(7)
CONFIG = TrajectoryConfig()
DT = 0.004
PERIOD = 1.0 / CONFIG.trajectory_rate_hz
A = PANDA.dynamics_factor * np.array(PANDA.limits.acceleration)
JERK = np.array(PANDA.limits.jerk) / 5


class Controller:
    """Interpolates quintics at 1 kHz, as ros2_control's does; messages take a while to arrive."""

    def __init__(self, position=HOME):
        self.time, self.states, self._waiting = 0.0, [], []
        self._now = MotionState(position, ZERO, ZERO)
        self._running = None

    def send(self, arrival, made, start):
        self._waiting.append((arrival, made, start))

    def run(self, until):
        while self.time < until - 1e-9:
            while self._waiting and self._waiting[0][0] <= self.time:
                _, made, start = self._waiting.pop(0)
                self._running = (made, start, self._at(self.time), self.time - start)
            self._now = self._at(self.time)
            self.states.append(self._now)
            self.time += 1e-3

    def _at(self, time):
        if self._running is None:
            return self._now
        made, start, before, taken = self._running
        return sample(made, before, time - start, taken)

    def differences(self):
        """Return velocity, acceleration and jerk at 1 kHz, by backward differences."""
        v = np.array([state.velocity for state in self.states])
        a = np.diff(v, axis=0) / 1e-3
        return v, a, np.diff(a, axis=0) / 1e-3


def drive(target, seconds, config=CONFIG, jitter=0.0, delay=1e-3, seed=0, controller=None):
    """Return the bridge's state, commands (time, velocity), sent trajectories, and controller."""
    rng = np.random.default_rng(seed)
    state, command = trajectory_stream.begin(CONFIG, -DT, HOME), jerk_limiter.at_rest(PANDA, HOME)
    commands, sent, controller, last = [], [], controller or Controller(), -DT
    for k in range(round(seconds / DT)):
        now = k * DT + jitter * rng.random()
        command = jerk_limiter.shape(PANDA, command, target(now) * np.ones(7), HOME, now - last)
        state, made = trajectory_stream.advance(config, PANDA, state, now, command, HOME, True)
        last = now
        commands.append((now, command.value))
        if made is not None:
            sent.append((now, made))
            arrival = now + delay * (1.0 + rng.random())
            controller.send(arrival, made, now)
        controller.run(now)
    return state, commands, sent, controller


@pytest.mark.slow
@pytest.mark.parametrize('jitter', [0.0, 0.002])
@pytest.mark.parametrize('seed', range(3))
def test_executed_motion_is_the_delayed_command_within_limits_at_1_khz(jitter, seed):
    rng = np.random.default_rng(seed)
    targets = rng.normal(0.0, 0.4, (200, 7)) * (rng.random((200, 1)) < 0.8)
    _, commands, sent, controller = drive(
        lambda t: targets[int(t / 0.05)], 5.0, jitter=jitter, seed=seed
    )
    # on a grid of 4 ms: intervals of 8 and 12 ms alternate
    assert np.mean(np.diff([time for time, _ in sent])) == pytest.approx(PERIOD, rel=0.25)
    v, a, j = controller.differences()
    assert np.all(np.abs(a) <= A) and np.all(np.abs(j) <= JERK)
    times = np.array([time for time, _ in commands]) + CONFIG.trajectory_lead_s
    rows = np.array([row for _, row in commands])
    inside = times < controller.time - 1e-3
    for joint in range(7):
        moved = np.interp(times[inside], np.arange(len(v)) * 1e-3, v[:, joint])
        # linear interpolation of accelerations that change by 1500 per second has errors of
        # 1e-3^2 / 8 * 1500; and commands are not on the grid of 1 ms
        np.testing.assert_allclose(moved, rows[inside, joint], atol=1e-3)


def test_every_trajectory_ends_at_rest_and_none_is_sent_at_rest():
    _, commands, sent, controller = drive(lambda t: 0.3 if t < 0.5 else 0.0, 2.0)
    assert all(not np.any(made.velocities[-1]) for _, made in sent)
    assert all(np.all(np.diff(made.times) > 0.0) and made.times[0] > 0.0 for _, made in sent)
    stopped = max(time for time, row in commands if np.any(row))
    assert stopped + 3 * PERIOD < sent[-1][0] < stopped + 8 * PERIOD
    # the robot stops at the integral of the commands by trapezoids. The actual path is cubic and
    # differs by jerk dt^3 / 12, about 3e-6 rad per command for 50 commands
    speeds = np.array([row for _, row in commands])
    travelled = HOME + DT * np.sum(speeds, axis=0)
    np.testing.assert_allclose(controller.states[-1].position, travelled, atol=2e-4)


def test_before_any_motion_only_the_current_position_is_sent():
    ((time, made),) = drive(lambda _: 0.0, 0.4)[2]
    assert time == 0.0 and made.times.tolist() == [CONFIG.trajectory_settle_s]
    np.testing.assert_array_equal(made.positions, HOME[None])
    assert not made.velocities.any() and not made.accelerations.any()


def test_a_controller_at_another_position_moves_to_the_arm_smoothly():
    """Its desired state is off by the largest tolerated tracking error."""
    off = trajectory_stream._MOVED * np.array([1, -1, 1, -1, 1, -1, 1])
    controller = Controller(HOME + off)
    settled = CONFIG.trajectory_settle_s
    drive(lambda t: 0.0 if t < settled else 0.4, 0.6, controller=controller)
    _, a, j = controller.differences()
    assert np.all(np.abs(a) <= A) and np.all(np.abs(j) <= JERK)
    steps = round(settled / 1e-3) + 3  # and until it arrives
    np.testing.assert_allclose(controller.states[steps].position, HOME, atol=1e-9)


def test_after_missed_cycles_it_continues_from_the_robots_own_braking():
    state, _, sent, controller = drive(lambda _: 0.5, 0.5)
    now = 0.5 + 0.12  # the controller already brakes by then
    controller.run(now)
    state, command = trajectory_stream.resume(CONFIG, state, now - DT)
    assert np.all((command.value > 0.0) & (command.value < 0.5))
    for k in range(100):
        command = jerk_limiter.shape(PANDA, command, np.full(7, 0.5), HOME, DT)
        state, made = trajectory_stream.advance(CONFIG, PANDA, state, now, command, HOME, True)
        if made is not None:
            controller.send(now + 1e-3, made, now)
        now += DT
        controller.run(now)
        assert k or made is not None  # the first is sent at once
    v, a, j = controller.differences()
    assert np.min(v[600:700]) < 0.4 and np.all(v[-1] == pytest.approx(0.5))
    assert np.all(np.abs(a) <= A) and np.all(np.abs(j) <= JERK)
    assert np.all(v >= -1e-9)  # roundings of the quintics


def _brake_with_hiccups(seed, share):
    """Return a controller that is braked from 0.5 rad/s; a share of cycles is 5-25 ms late."""
    rng = np.random.default_rng(seed)
    speeds = 0.5 * rng.uniform(-1.0, 1.0, 7)
    speeds[rng.integers(7)] = 0.5
    state, command = trajectory_stream.begin(CONFIG, -DT, HOME), jerk_limiter.at_rest(PANDA, HOME)
    controller, now, last = Controller(), 0.0, -DT
    while now < 1.0:
        braking = now > 0.5
        if trajectory_stream.is_late(state, now) or now - last > 2 * DT:
            state, command = trajectory_stream.resume(CONFIG, state, now - DT)
            last = now - DT
        target = None if braking else speeds
        command = jerk_limiter.shape(PANDA, command, target, HOME, now - last)
        last = now
        state, made = trajectory_stream.advance(CONFIG, PANDA, state, now, command, HOME, True)
        if made is not None:
            controller.send(now + 1e-3, made, now)
        hiccup = 0.005 + 0.02 * rng.random() if braking and rng.random() < share else 0.0
        now += DT + hiccup
        controller.run(now)
    return controller


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(10))
def test_missed_cycles_while_braking_do_not_delay_rest(seed):
    """Trajectories sent while braking continue to brake, even if the bridge misses cycles."""
    plain, other = _brake_with_hiccups(seed, 0.0), _brake_with_hiccups(seed, 0.3)
    rests = [np.flatnonzero(np.any(c.differences()[0] != 0.0, axis=1))[-1] for c in (plain, other)]
    assert rests[1] - rests[0] <= 1  # ms, of the controller's grid
    v, a, j = other.differences()
    assert np.all(np.abs(a) <= A) and np.all(np.abs(j) <= JERK)
    # a joint that comes to rest between two points, 1.25 ms apart: see faultlab's REVERSED
    assert np.all(v * np.sign(v[490]) >= -0.0048 * 1960.0 * 1.25e-3**2)


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(10))
def test_interruptions_at_any_time_keep_the_robot_within_limits(seed):
    """One cycle in ten is late, one in twenty interrupted: stops may begin at any time."""
    rng = np.random.default_rng(seed)
    targets = rng.normal(0.0, 0.4, (200, 7))
    state, command = trajectory_stream.begin(CONFIG, -DT, HOME), jerk_limiter.at_rest(PANDA, HOME)
    controller, now, last, resumed, dropped = Controller(), 0.0, -DT, 0, 0
    while now < 8.0:
        if trajectory_stream.is_late(state, now) or now - last > 2 * DT:
            state, command = trajectory_stream.resume(CONFIG, state, now - DT)
            last, resumed = now - DT, resumed + 1
        command = jerk_limiter.shape(
            PANDA, command, targets[int(now / 0.05)], state.reference.position, now - last
        )
        last = now
        after, made = trajectory_stream.advance(CONFIG, PANDA, state, now, command, HOME, True)
        sending = now + (0.02 * rng.random() if rng.random() < 0.05 else 1e-4)
        if made is not None and trajectory_stream.is_late(state, sending):
            dropped += 1
        else:
            state = after
            if made is not None:
                controller.send(sending + 1e-3 * rng.random(), made, now)
        now = max(sending, now + DT + (0.03 * rng.random() if rng.random() < 0.1 else 0.0))
        controller.run(now)
    assert resumed > 50 and dropped > 5
    _, a, j = controller.differences()
    assert np.all(np.abs(a) <= A) and np.all(np.abs(j) <= JERK)


@pytest.mark.parametrize('seed', range(3))
def test_while_the_controller_does_not_listen_nothing_is_sent_and_no_motion_is_lost(seed):
    rng = np.random.default_rng(seed)
    targets = rng.normal(0.0, 0.4, (200, 7))
    state, command = trajectory_stream.begin(CONFIG, -DT, HOME), jerk_limiter.at_rest(PANDA, HOME)
    controller, last, until, resumed, silent = Controller(), -DT, 0.0, 0, 0
    for now in np.arange(1000) * DT:
        if now > until and rng.random() < 0.03:
            until = now + rng.uniform(0.0, 0.05)
        if trajectory_stream.is_late(state, now):
            state, command = trajectory_stream.resume(CONFIG, state, now - DT)
            last, resumed = now - DT, resumed + 1
        target, place, listens = targets[int(now / 0.05)], state.reference.position, now >= until
        command = jerk_limiter.shape(PANDA, command, target, place, now - last)
        state, made = trajectory_stream.advance(
            CONFIG, PANDA, state, now, command, HOME, True, listens
        )
        last, silent = now, silent + (not listens)
        assert listens or made is None
        if made is not None:
            controller.send(now + 1e-3, made, now)
        controller.run(now)
    assert resumed > 5 and silent > 50
    _, a, j = controller.differences()
    assert np.all(np.abs(a) <= A) and np.all(np.abs(j) <= JERK)


def test_after_a_long_interruption_it_starts_from_rest_where_the_robot_stopped():
    state, _, sent, _ = drive(lambda _: 0.5, 0.5)
    state, command = trajectory_stream.resume(CONFIG, state, 9.0)
    assert jerk_limiter.is_at_rest(PANDA, command)
    np.testing.assert_array_equal(state.reference.position, sent[-1][1].positions[-1])
    assert not np.any(trajectory_stream.in_force(state, 9.0).velocity)


def test_points_are_dense_for_any_cycle_time():
    # a joint that comes to rest between two points passes rest by 0.0048 jerk T^2
    at_rest = jerk_limiter.at_rest(PANDA, HOME)
    for span in np.arange(0.1e-3, 8e-3, 7e-5):
        command = jerk_limiter.shape(PANDA, at_rest, np.full(7, 0.5), HOME, span)
        points = trajectory_stream._points(
            CONFIG, 0.0, span, MotionState(HOME, ZERO, ZERO), command
        )
        times = np.array([0.0, *(time - CONFIG.trajectory_lead_s for time, _ in points)])
        assert np.all(np.diff(times) <= 1.25e-3 + 1e-12) and times[-1] == pytest.approx(span)


def test_without_earlier_commands_it_resumes_at_rest():
    state, command = trajectory_stream.resume(
        CONFIG, trajectory_stream.begin(CONFIG, 0.0, HOME), 1.0
    )
    assert jerk_limiter.is_at_rest(PANDA, command)
    np.testing.assert_array_equal(state.reference.position, HOME)
    np.testing.assert_array_equal(command.rate, ZERO)
    assert not trajectory_stream.is_late(state, 1.0) and trajectory_stream.is_late(
        state, 1.0 + DT * 4
    )


@pytest.mark.parametrize(
    ('armed_before', 'shift', 'expected'),
    [(True, 0.01, 0.0), (True, 0.3, 0.3), (False, 0.01, 0.01)],
)
def test_arming_again_starts_at_the_new_position_of_the_arm(armed_before, shift, expected):
    command = jerk_limiter.shape(PANDA, Command(ZERO, ZERO, ZERO), None, HOME, DT)
    state = trajectory_stream.begin(CONFIG, 0.0, HOME)
    state, _ = trajectory_stream.advance(CONFIG, PANDA, state, DT, command, HOME, armed_before)
    state, _ = trajectory_stream.advance(CONFIG, PANDA, state, DT, command, HOME, False)
    state, _ = trajectory_stream.advance(CONFIG, PANDA, state, 2 * DT, command, HOME + shift, True)
    np.testing.assert_allclose(state.reference.position, HOME + expected)
    # it settles at the sent position, and needs a message in time for the next motion
    np.testing.assert_allclose(trajectory_stream.in_force(state, 1.0).position, HOME + expected)
    assert state.sent_at == 2 * DT and state.sent.end == CONFIG.trajectory_settle_s
    due = 2 * DT + CONFIG.trajectory_lead_s - 3e-3
    assert not trajectory_stream.is_late(state, due) and trajectory_stream.is_late(
        state, due + 1e-9
    )


@pytest.mark.parametrize(
    ('settings', 'words'),
    [
        ({'trajectory_rate_hz': 50.0}, 'trajectories plus their transport, 0.023 s'),
        ({'trajectory_rate_hz': 1000.0, 'trajectory_lead_s': 0.003}, 'transport, 0.004 s'),
        ({'trajectory_hold_s': 0.01}, 'trajectory_hold_s: 0.01 is below trajectory_lead_s 0.016'),
    ],
)
def test_settings_that_leave_gaps_are_errors(settings, words):
    with pytest.raises(ConfigError, match=words):
        TrajectoryConfig(**settings)

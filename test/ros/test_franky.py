"""The backend `franky` on a robot that is a few lines of Python; `make conformance` has more."""

import sys
import time
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.nodes.backends import BackendCommand
from emppi_ros.nodes.backends.franky import FrankyBackend
from emppi_ros.nodes.common.clock_sync import CommandClock
from emppi_ros.robots import franka_limits, velocity_bounds
from emppi_ros.robots.robot import load_robot

ROBOT = load_robot('fr3')
HOME = np.array(ROBOT.home)
FRANKY_FASTEST = np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61])  # of version 2.0
SPEED = np.full(7, 0.2)
COMMAND = Command(SPEED, np.zeros(7), np.zeros(7))


class NetworkException(Exception):  # noqa: N818
    """As franky names it."""


class ControlException(Exception):  # noqa: N818
    """As franky names it."""


class Limit:
    def __init__(self, most):
        self.max = self._now = np.array(most)

    def set(self, value):
        assert np.all(np.array(value) <= self.max)
        self._now = np.array(value)

    def get(self):
        return self._now


def urdf(robot):
    """Return what a robot says of itself, without its prefix."""
    limits = robot.limits
    rows = zip(limits.position.lower, limits.position.upper, limits.velocity, strict=True)
    joints = (
        f'<joint name="joint{i}" type="revolute">'
        f'<limit lower="{a}" upper="{b}" velocity="{v}"/></joint>'
        for i, (a, b, v) in enumerate(rows, 1)
    )
    return f'<robot name="r">{"".join(joints)}</robot>'


class FakeRobot:
    """Moves as it is told; breaks as `world` says."""

    def __init__(self, world, address, **settings):
        if world.unreachable:
            raise NetworkException('Connection refused')
        world.robots.append(self)
        self.world, self.address, self.settings, self.began = world, address, settings, time.time()
        self.model_urdf = urdf(world.says)
        self.joint_velocity_limit = Limit(FRANKY_FASTEST)
        self.joint_acceleration_limit = Limit([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])
        self.joint_jerk_limit = Limit([7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 1e4, 1e4])
        self.is_in_control, self.joined = False, False

    @property
    def state(self):
        world = self.world
        time.sleep(world.delay)
        if world.unreachable:
            raise NetworkException('UDP receive: Timeout')
        milliseconds = 0 if world.silent else int(1e3 * (time.time() - self.began))
        wrong = SimpleNamespace(joint_reflex='joint_reflex' in world.errors)
        return SimpleNamespace(
            robot_mode=SimpleNamespace(name=world.mode),
            current_errors=wrong,
            last_motion_errors=wrong,
            time=SimpleNamespace(to_msec=lambda: milliseconds),
            q=HOME,
            dq=np.zeros(7),
            dq_d=SPEED,
            tau_ext_hat_filtered=world.torque,
        )

    def poll_motion(self):
        raised, self.world.raised = self.world.raised, None
        if raised is not None:
            raise raised
        return not self.is_in_control

    def move(self, motion, asynchronous):
        assert asynchronous
        self.is_in_control = True
        self.world.mode = 'Move' if self.world.mode == 'Idle' else self.world.mode
        self.world.moves.append((time.monotonic(), motion))

    def join_motion(self, _timeout):
        self.joined = True

    def recover_from_errors(self):
        self.world.recoveries += 1
        if not self.world.stubborn:
            self.world.mode, self.world.errors = 'Idle', ()
        return True


@pytest.fixture
def world(monkeypatch):
    """A module `franky` and what it is about."""
    made = SimpleNamespace(
        moves=[], robots=[], errors=(), mode='Idle', torque=np.zeros(7), raised=None,
        silent=False, delay=0.0, unreachable=False, stubborn=False, recoveries=0,
        says=ROBOT,
    )  # fmt: skip
    module = SimpleNamespace(
        Robot=lambda *a, **k: FakeRobot(made, *a, **k),
        RealtimeConfig=SimpleNamespace(Enforce='enforce', Ignore='ignore'),
        Duration=lambda milliseconds: milliseconds,
        RelativeDynamicsFactor=SimpleNamespace(MAX_DYNAMICS='max'),
        JointVelocityMotion=lambda *a: SimpleNamespace(velocity=a[0], ms=a[1], dynamics=a[2]),
    )
    monkeypatch.setitem(sys.modules, 'franky', module)
    return made


@pytest.fixture
def connect(harness, world):
    """Return a function that makes a backend with parameters."""
    made = []

    def begin(robot=ROBOT, **settings):
        parameters = {'fci_address': '10.0.0.2', **settings}
        for name, value in parameters.items():
            harness.tester.declare_parameter(name, value)
        made.append(FrankyBackend(harness.tester, robot, CommandClock(harness.tester)))
        until(lambda: made[-1].connection.reading)
        return made[-1]

    yield begin
    world.unreachable = False
    for backend in made:
        backend.close()


def until(condition):
    deadline = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(1e-3)


def send(backend, velocity=SPEED, engaged=True, times=1):
    """Send as the bridge does, which asks for faults too."""
    for _ in range(times):
        backend.fault()
        command = Command(velocity, np.zeros(7), np.zeros(7))
        backend.send(BackendCommand(time.monotonic(), command, HOME, engaged))
        time.sleep(0.004)


def sent(backend, world):
    """Return the newest motion that was sent, one at least."""
    before = len(world.moves)
    until(lambda: (send(backend), len(world.moves) > before)[1])
    return world.moves[-1][1]


def test_motions_are_short_and_within_our_limits(connect, world):
    motion = sent(connect(), world)
    assert np.allclose(motion.velocity, SPEED) and motion.ms == 100 and motion.dynamics == 'max'
    (robot,) = world.robots
    assert np.allclose(
        robot.joint_acceleration_limit.get(), velocity_bounds.usable_acceleration(ROBOT)
    )
    assert np.allclose(robot.joint_jerk_limit.get(), velocity_bounds.usable_jerk(ROBOT))
    assert robot.settings['realtime_config'] == 'enforce' and robot.address == '10.0.0.2'
    assert robot.settings['default_torque_threshold'] == 20.0


def test_each_command_is_sent_once_and_not_more_often_than_wanted(connect, world):
    backend = connect(move_rate_hz=20.0)
    send(backend, times=100)
    times = np.array([t for t, _ in world.moves])
    # on average: one that came late does not delay those after it
    assert 2 < len(times) <= 2 + (times[-1] - times[0]) * 20.0
    before = len(world.moves)
    time.sleep(0.3)  # nobody commands: nothing is repeated
    assert len(world.moves) <= before + 1


def test_velocities_are_no_more_than_franky_takes(connect, world):
    backend, fast = connect(), np.array(ROBOT.limits.velocity)
    until(lambda: (send(backend, fast), len(world.moves) > 0)[1])
    velocity = world.moves[-1][1].velocity
    assert np.all(np.abs(velocity) <= FRANKY_FASTEST)
    assert np.allclose(velocity / velocity[0], fast / fast[0])  # in the same direction


def test_at_rest_and_disengaged_nothing_is_sent(connect, world):
    backend = connect()
    send(backend, np.zeros(7), engaged=False, times=20)
    assert not world.moves
    until(lambda: (send(backend, np.zeros(7)), world.moves)[1])  # engaged: ready to move


def test_the_robot_itself_says_where_it_is_and_what_it_follows(connect, world):
    backend = connect()
    measured = backend.measure()
    assert np.allclose(measured.position, HOME)
    sent(backend, world)
    until(lambda: np.any(backend.connection.following))
    assert np.allclose(backend.send(BackendCommand(0.0, COMMAND, HOME, True)), SPEED)
    until(lambda: backend.measure() is not None)
    assert backend.measure() is None or backend.measure() is None  # the same is told only once


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'raised': ControlException('motion aborted by reflex! ["power_limit_violation"]')},
         'power_limit_violation'),
        ({'mode': 'Reflex', 'errors': ('joint_reflex',)}, 'joint_reflex'),
        ({'mode': 'UserStopped'}, 'user stop'),
        ({'raised': NetworkException('UDP receive: Timeout')}, 'connection lost'),
        ({'silent': True}, 'connection lost'),
        ({'delay': 0.5}, 'connection lost'),
        ({'unreachable': True}, 'connection lost'),
        ({'torque': np.array([0, 0, -12.5, 0, 0, 0, 0])}, '-12.5 N m on joint 3'),
    ],
)  # fmt: skip
def test_a_fault_is_told_and_nothing_is_sent_until_it_is_cleared(connect, world, change, words):
    backend = connect()
    sent(backend, world)
    for name, value in change.items():
        setattr(world, name, value)
    until(lambda: (send(backend), backend.fault())[1])
    assert words in backend.fault()
    last = world.moves[-1][1]
    assert 'torque' not in change or not last.velocity.any()  # it is braked, by us
    time.sleep(0.02)  # one that was under way
    before = len(world.moves)
    send(backend, times=20)
    assert len(world.moves) == before and words in backend.fault()
    world.raised, world.silent, world.delay, world.unreachable = None, False, 0.0, False
    world.torque = np.zeros(7)
    world.mode = 'Idle' if world.mode == 'UserStopped' else world.mode
    connections = len(world.robots)
    backend.recover()
    assert backend.fault() == ''
    assert len(world.robots) - connections == ('connection lost' in words)
    assert world.recoveries == (world.mode == 'Reflex' or 'errors' in change)
    sent(backend, world)


def test_an_interruption_of_this_process_is_no_silence_of_the_robot(connect, world):
    backend = connect()
    sent(backend, world)
    world.silent = True
    time.sleep(0.3)  # as if stopped: nobody asks for faults, and the last state is an old one
    world.silent = False
    assert backend.fault() == ''
    send(backend, times=20)
    assert backend.fault() == ''


@pytest.mark.parametrize(
    ('change', 'words'),
    [({'mode': 'Reflex', 'stubborn': True}, 'reflex'), ({'mode': 'UserStopped'}, 'release it')],
)
def test_what_stays_is_not_recovered_from(connect, world, change, words):
    backend = connect()
    sent(backend, world)
    for name, value in change.items():
        setattr(world, name, value)
    until(backend.fault)
    with pytest.raises(EmppiError, match=words):
        backend.recover()
    assert backend.fault()


def test_a_robot_that_stops_again_and_again_is_to_be_looked_at(connect, world):
    backend = connect()
    for _ in range(3):
        sent(backend, world)
        world.mode = 'Reflex'
        until(backend.fault)
        backend.recover()
    sent(backend, world)
    world.mode = 'Reflex'
    until(backend.fault)
    with pytest.raises(EmppiError, match='inspect the robot, then restart the bridge'):
        backend.recover()


def test_a_user_stop_of_an_idle_robot_passes_when_it_is_released(connect, world):
    backend = connect()
    world.mode = 'UserStopped'
    until(lambda: 'user stop' in backend.fault())
    world.mode = 'Idle'
    until(lambda: backend.fault() == '')


@pytest.mark.slow
def test_a_bridge_that_was_away_does_not_blame_the_robot(connect, world):
    backend = connect()
    sent(backend, world)
    world.delay = 1.0
    time.sleep(0.3)
    assert backend.fault() == ''


def test_it_leaves_at_rest(connect, world):
    backend = connect()
    sent(backend, world)
    backend.close()
    assert not world.moves[-1][1].velocity.any() and world.robots[0].joined


@pytest.mark.parametrize(
    ('robot', 'settings', 'words'),
    [
        ('fr3', {'fci_address': ''}, 'fci_address'),
        ('fr3', {'motion_duration_s': 0.2}, 'motion_duration_s'),
        ('fr3', {'realtime': 'perhaps'}, 'enforce'),
        ('cartpole', {}, '7 joints'),
    ],
)
def test_what_does_not_fit_is_refused_in_words(connect, robot, settings, words):
    with pytest.raises(ConfigError, match=words):
        connect(load_robot(robot), **settings)


def test_a_robot_that_does_not_answer_is_named(connect, world):
    world.unreachable = True
    with pytest.raises(ConfigError, match=r'10\.0\.0\.2: Connection refused'):
        connect()


def test_another_robot_is_refused(connect, world):
    world.says = load_robot('panda')
    with pytest.raises(ConfigError, match=r"is a different one: joint 'fr3_joint1'.* only 2\.175"):
        connect()


def test_a_bridge_that_was_away_goes_on_from_where_the_arm_has_braked(connect, world):
    backend, now = connect(), 100.0
    assert not backend.resume(now).value.any()  # nothing was sent yet
    backend.send(BackendCommand(now, COMMAND, HOME, True))
    assert backend.resume(now + 0.09) is None  # the motion goes on for 100 ms
    usable = velocity_bounds.usable_acceleration(ROBOT)
    assert np.allclose(backend.resume(now + 0.12).value, 0.2 - usable * 0.02)
    assert not backend.resume(now + 1.0).value.any()


def test_without_franky_the_extra_is_named(connect, monkeypatch):
    monkeypatch.setitem(sys.modules, 'franky', None)
    with pytest.raises(ConfigError, match=r'emppi_ros\[franka\]'):
        connect()


@pytest.mark.slow
@given(
    share=st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7),
    speed=st.lists(st.floats(-1.0, 1.0), min_size=7, max_size=7),
)
def test_a_command_that_none_follows_leaves_no_limit_of_the_fr3(share, speed):
    """Held for 100 ms after all delays and then braked at 5 rad/s^2, by an integration."""
    lower, upper = (
        np.array(row) for row in (ROBOT.limits.position.lower, ROBOT.limits.position.upper)
    )
    position = (
        lower
        + velocity_bounds.MARGIN
        + np.array(share) * (upper - lower - 2 * velocity_bounds.MARGIN)
    )
    blind = 0.1 + 1.0 / 125.0 + 0.012
    bounds = velocity_bounds.velocity_bounds(ROBOT, position, blind)
    wanted = np.array(speed) * np.array(ROBOT.limits.velocity)
    velocity = velocity_bounds.clamp(wanted, *bounds)
    acceleration, dt, time_s = np.zeros(7), 1e-3, 0.0
    while np.any(velocity):
        # the way there: acceleration rises by 1 rad/s^2 each millisecond, and falls at once
        if time_s >= blind:
            acceleration = np.minimum(acceleration + 1000.0 * dt, 5.0)
            velocity = np.sign(velocity) * np.maximum(np.abs(velocity) - acceleration * dt, 0.0)
        position, time_s = position + velocity * dt, time_s + dt
        low, high = franka_limits.velocity_envelope('fr3', ROBOT.commanded, position)
        assert np.all(velocity <= high + 1e-9) and np.all(velocity >= low - 1e-9)
        assert np.all(position <= upper) and np.all(position >= lower)

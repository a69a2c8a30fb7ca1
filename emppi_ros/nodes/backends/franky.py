"""
Backend `franky`: a Franka robot over FCI, through the Python package franky.

Every command is a motion that holds a velocity for at most 100 ms and then brakes; a C++ thread
executes it at 1 kHz, even if Python hangs. If the process dies, the connection is lost and
the robot stops on its own. The C++ thread keeps to franky's own limits, which are set to the
acceleration and jerk of the bridge.
"""

from dataclasses import dataclass
import importlib
import sys
import time
from typing import Any

import numpy as np
from rclpy.node import Node

from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.core.arrays import Array
from emppi_ros.core.config import between, key, one_of, positive
from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.nodes.backends import Backend, BackendCommand, BackendState
from emppi_ros.nodes.backends.fci import FciConnection
from emppi_ros.nodes.common.clock_sync import CommandClock
from emppi_ros.nodes.common.parameters import declare_all
from emppi_ros.robots import urdf_check, velocity_bounds
from emppi_ros.robots.robot import Robot

_JOINTS = 7
_LAG_S = 0.008  # of franky behind a command that changes as fast as it may; plus half a period
_SHORTEST_S, _LONGEST_S = 0.02, 0.1
_USUAL_TORQUE, _USUAL_FORCE = 20.0, 20.0  # N m and N, of Franka's own examples
_RECOVERIES, _WITHIN_S = 3, 600.0
# franky looks up these argument names among Python's interned strings for every motion. Without a
# reference they are added and dropped each time, until the table of 4 MB is rebuilt every few
# minutes, which delays a cycle.
_HELD = [sys.intern(name) for name in ('cutoff_frequency', 'limit_rate')]


@dataclass(frozen=True)
class FrankyConfig:
    """Settings of the backend `franky`."""

    fci_address: str = key('', doc='backend franky: network address of the robot')
    realtime: str = one_of(
        'enforce',
        'ignore',
        default='enforce',
        doc='backend franky: whether Linux must be PREEMPT_RT',
    )
    motion_duration_s: float = between(
        _SHORTEST_S,
        _LONGEST_S,
        _LONGEST_S,
        doc='backend franky: how long a velocity is held without a new command',
    )
    move_rate_hz: float = positive(125.0, doc='backend franky: motions per second')
    collision_torque_nm: float = positive(
        _USUAL_TORQUE, doc='backend franky: torque at a joint at which the robot stops by reflex'
    )
    collision_force_n: float = positive(
        _USUAL_FORCE, doc='backend franky: force at the hand at which the robot stops by reflex'
    )
    external_torque_nm: float = positive(
        10.0, doc='backend franky: torque at a joint at which the bridge stops the arm'
    )


class FrankyBackend(Backend):
    """Sends velocities to a robot and reads its state; keeps faults until they are cleared."""

    measures = True

    def __init__(self, node: Node, robot: Robot, _clock: CommandClock) -> None:
        if robot.command != 'velocity' or len(robot.commanded) != _JOINTS:
            raise ConfigError(
                f"backend 'franky' is for arms of {_JOINTS} joints commanded by velocity; robot "
                f'{robot.name!r} has {len(robot.commanded)}, commanded by {robot.command}'
            )
        if robot.joints != robot.commanded:
            raise ConfigError(
                f"backend 'franky' measures the commanded joints, but robot {robot.name!r} has "
                'other `joints` than `commanded`'
            )
        self._robot = robot
        self._config = config = declare_all(node, FrankyConfig)
        if not config.fci_address:
            raise ConfigError("backend 'franky' needs `fci_address`, the robot's network address")
        try:
            self._api = importlib.import_module('franky')  # which only this backend needs
        except ImportError as error:
            raise ConfigError(
                f"backend 'franky' needs franky-control ({error}): pip install "
                '"emppi_ros[franka]"'
            ) from None
        self._recovered: list[float] = []
        self._last_reading: BackendState | None = None
        self._last = np.zeros(_JOINTS), -np.inf  # velocity, and when it was sent
        self.delay_s = 0.5 / config.move_rate_hz + _LAG_S
        # how long the arm may keep a velocity until it brakes
        self._blind_s = config.motion_duration_s + 1.0 / config.move_rate_hz + self.delay_s
        self._fastest = np.array(robot.limits.velocity)
        if config.collision_torque_nm > _USUAL_TORQUE or config.collision_force_n > _USUAL_FORCE:
            node.get_logger().warning(
                f'collision thresholds of {config.collision_torque_nm:g} N m and '
                f'{config.collision_force_n:g} N; the defaults are {_USUAL_TORQUE:g} and '
                f'{_USUAL_FORCE:g}'
            )
        if config.realtime == 'ignore':
            node.get_logger().warning(
                'realtime: ignore is for simulated robots; a real one stops on late packets'
            )
        clock = node.get_clock()
        try:
            self.connection = FciConnection(
                self._connect,
                self._motion,
                lambda: clock.now().nanoseconds * 1e-9,
                1.0 / config.move_rate_hz,
                config.external_torque_nm,
            )
        except ConfigError:
            raise
        except Exception as error:  # franky raises exceptions of no common base
            raise ConfigError(
                f'cannot connect to a robot at {config.fci_address}: {_one_line(error)}'
                + _hint(error)
            ) from error

    def send(self, cycle: BackendCommand) -> Array:
        """
        Take one command; return the velocity (7,) that the robot reports to follow.

        Velocities are limited so that the robot can still brake before an end stop, and within
        the envelope of an FR3, if no other command arrives. Motions at rest are sent while the
        bridge is engaged, because taking control of the robot takes time.
        """
        value = cycle.command.value
        if not cycle.engaged and not np.any(value):
            self.connection.set_velocity(None)
        else:
            lower, upper = velocity_bounds.velocity_bounds(
                self._robot, cycle.position, self._blind_s
            )
            lower, upper = np.maximum(lower, -self._fastest), np.minimum(upper, self._fastest)
            self._last = velocity_bounds.clamp(value, lower, upper), cycle.time
            self.connection.set_velocity(self._last[0])
        return self.connection.following

    def resume(self, now: float) -> Command | None:
        """Return how the arm brakes after its last motion; None while that motion lasts."""
        velocity, sent_at = self._last
        alone = now - sent_at - self._config.motion_duration_s
        if alone <= 0.0:
            return None
        slower = np.abs(velocity) - alone * velocity_bounds.usable_acceleration(self._robot)
        zero = np.zeros_like(velocity)
        return Command(np.sign(velocity) * np.maximum(slower, 0.0), zero, zero)

    def measure(self) -> BackendState | None:
        """Return the robot's state; None if it is not new."""
        reading = self.connection.reading
        if reading is self._last_reading:
            return None
        self._last_reading = reading
        return reading

    def fault(self) -> str:
        """Return why the robot stopped on its own, for the operator; '' if it did not."""
        return self.connection.fault()

    def recover(self) -> None:
        """Clear the robot's fault; EmppiError if it stays, or occurred too often."""
        if not self.connection.fault():
            return
        now = time.monotonic()
        self._recovered = [t for t in self._recovered if now - t < _WITHIN_S]
        if len(self._recovered) >= _RECOVERIES:
            raise EmppiError(
                f'the robot stopped on its own {_RECOVERIES + 1} times in {_WITHIN_S / 60:.0f} '
                f'minutes ({self.connection.fault()}): inspect the robot, then restart the bridge'
            )
        try:
            self.connection.recover()
        except EmppiError:
            raise
        except Exception as error:  # franky raises exceptions of no common base
            raise EmppiError(f'the robot does not recover: {_one_line(error)}') from error
        self._recovered.append(now)

    def close(self) -> None:
        """Stop the last motion, and disconnect."""
        self.connection.close()

    def _connect(self) -> Any:
        """Return a new connection, with the limits of the bridge."""
        config, kinds = self._config, self._api.RealtimeConfig
        robot = self._api.Robot(
            config.fci_address,
            default_torque_threshold=config.collision_torque_nm,
            default_force_threshold=config.collision_force_n,
            realtime_config=kinds.Enforce if config.realtime == 'enforce' else kinds.Ignore,
        )
        if wrong := _check_urdf(self._robot, getattr(robot, 'model_urdf', '')):
            raise ConfigError(
                f'the robot at {config.fci_address} is a different one: {"; ".join(wrong)}'
            )
        # absolute values: the limits that franky scales are those of the older FER on every robot
        for limit, value in (
            (robot.joint_acceleration_limit, velocity_bounds.usable_acceleration(self._robot)),
            (robot.joint_jerk_limit, velocity_bounds.usable_jerk(self._robot)),
            (robot.joint_velocity_limit, np.array(self._robot.limits.velocity)),
        ):
            limit.set(np.minimum(value, limit.max).tolist())
        self._fastest = np.array(robot.joint_velocity_limit.get())  # franky raises beyond it
        return robot

    def _motion(self, velocity: Array) -> Any:
        # maximal dynamics are exactly the limits set above; with lower ones franky brakes all
        # joints together, and one near its end stop would wait for the fastest
        api = self._api
        duration = api.Duration(round(1e3 * self._config.motion_duration_s))
        return api.JointVelocityMotion(velocity, duration, api.RelativeDynamicsFactor.MAX_DYNAMICS)


BACKEND = FrankyBackend


def _check_urdf(robot: Robot, urdf: str) -> list[str]:
    """Return how a robot's own URDF, if it has one, contradicts the configuration."""
    for i, name in enumerate(robot.commanded, 1):  # the URDF may have no prefix
        urdf = urdf.replace(f'name="joint{i}"', f'name="{name}"')
    if not urdf:
        return []
    compared = urdf_check.check(robot, urdf)
    return compared.problems + compared.tighter


def _one_line(error: Exception) -> str:
    return ' '.join(str(error).split()) or type(error).__name__


def _hint(error: Exception) -> str:
    return {
        'IncompatibleVersionException': (
            '. These wheels support an FR3 with system 5.2 or later; a Panda, or an older system, '
            'needs the franky wheel for its firmware'
        ),
        'RealtimeException': '. A real robot needs a PREEMPT_RT kernel and permission to use it',
    }.get(type(error).__name__, '. Is it switched on, are its brakes open, and is FCI active?')

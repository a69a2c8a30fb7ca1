"""
Bridge backend `franky`: straight to a Franka robot over FCI, with the wheels of franky.

Every command is a motion that holds a velocity for at most 100 ms and then brakes: a thread in
C++ executes it at 1 kHz, whatever becomes of Python. A dead process is a lost connection, on
which the robot stops by itself. What this thread may do, franky's own limits say; they are set
to the acceleration and jerk that the bridge keeps to.
"""

import importlib
import sys
import time
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from rclpy.node import Node

from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.nodes.backends.fci import Reading, Session, Settings
from emppi_ros.nodes.backends.fci_config import FrankyConfig, doubts
from emppi_ros.nodes.backends.interface import Backend, Cycle, Measured
from emppi_ros.nodes.common.parameters import declare_again
from emppi_ros.robots import urdf_check, velocity_bounds
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
_JOINTS = 7
_LAG_S = 0.008  # of franky behind a command that changes as fast as it may, half a period more
_RECOVERIES, _WITHIN_S = 3, 600.0
# Names of arguments that franky looks for among Python's interned strings whenever a motion is
# sent. What nobody else holds is added and dropped each time, until that table of 4 MB must be
# made anew: every few minutes, and not always in the same place.
_HELD = [sys.intern(name) for name in ('cutoff_frequency', 'limit_rate')]


class FrankyBackend(Backend):
    """Sends velocities to one robot, and reads it; holds its faults until they are cleared."""

    measures = True

    def __init__(self, node: Node, robot: Robot) -> None:
        """Connect to the robot, and set its limits."""
        if robot.command != 'velocity' or len(robot.commanded) != _JOINTS:
            raise ConfigError(
                f"backend 'franky' is for arms of {_JOINTS} joints commanded by velocity; robot "
                f'{robot.name!r} has {len(robot.commanded)}, commanded by {robot.command}'
            )
        if robot.joints != robot.commanded:
            raise ConfigError(
                f"backend 'franky' measures what it commands, but robot {robot.name!r} has other "
                '`joints` than `commanded`'
            )
        self._robot = robot
        self._config = config = declare_again(node, FrankyConfig)
        if not config.fci_address:
            raise ConfigError("backend 'franky' needs `fci_address`, the robot's network address")
        self._api = _import()
        self._recovered: list[float] = []
        self._told: Reading | None = None
        self._last = np.zeros(_JOINTS), -np.inf  # velocity, and when it was sent
        self.delay_s = 0.5 / config.move_rate_hz + _LAG_S
        # how long the arm may go on with a velocity until it brakes
        self._blind_s = config.motion_duration_s + 1.0 / config.move_rate_hz + self.delay_s
        self._fastest = np.array(robot.limits.velocity)
        for text in doubts(config):
            node.get_logger().warning(text)
        clock = node.get_clock()
        settings = Settings(
            self._connect,
            self._motion,
            lambda: clock.now().nanoseconds * 1e-9,
            1.0 / config.move_rate_hz,
            config.external_torque_nm,
        )
        try:
            self.session = Session(settings)
        except ConfigError:
            raise
        except Exception as error:  # franky also raises what has no base but this
            raise ConfigError(
                f'cannot connect to a robot at {config.fci_address}: {_line(error)}' + _hint(error)
            ) from error

    def send(self, cycle: Cycle) -> Array:
        """
        Take one command; return the velocity (7,) that the robot itself says it follows.

        Velocities towards an end stop, and FR3's envelope, are limited to what can be braked if
        no command followed this one. At rest motions go on while the bridge is engaged, so that
        the robot need not be taken control of for every motion; else the last one ends.
        """
        value = cycle.value
        if not cycle.engaged and not np.any(value):
            self.session.want(None)
        else:
            lower, upper = velocity_bounds.velocity_bounds(
                self._robot, cycle.position, self._blind_s
            )
            lower, upper = np.maximum(lower, -self._fastest), np.minimum(upper, self._fastest)
            self._last = velocity_bounds.clamp(value, lower, upper), cycle.time
            self.session.want(self._last[0])
        reading = self.session.reading
        return np.zeros_like(value) if reading is None else reading.following

    def resume(self, now: float) -> Command | None:
        """Return how the arm brakes, or rests, after a motion that none followed; else None."""
        velocity, sent_at = self._last
        alone = now - sent_at - self._config.motion_duration_s
        if alone <= 0.0:
            return None
        slower = np.abs(velocity) - alone * velocity_bounds.usable_acceleration(self._robot)
        zero = np.zeros_like(velocity)
        return Command(np.sign(velocity) * np.maximum(slower, 0.0), zero, zero)

    def measure(self) -> Measured | None:
        """Return what the robot said last; None if that is not new."""
        reading = self.session.reading
        if reading is None or reading is self._told:
            return None
        self._told = reading
        return Measured(reading.stamp, reading.position, reading.velocity, reading.torque)

    def fault(self) -> str:
        """Return why the robot stopped by itself, in words; '' if it did not."""
        return self.session.fault()

    def recover(self) -> None:
        """Clear what stopped the robot; EmppiError if it stays, or stopped it too often."""
        if not self.session.fault():
            return
        now = time.monotonic()
        self._recovered = [t for t in self._recovered if now - t < _WITHIN_S]
        if len(self._recovered) >= _RECOVERIES:
            raise EmppiError(
                f'the robot stopped by itself {_RECOVERIES + 1} times in {_WITHIN_S / 60:.0f} '
                f'minutes ({self.session.fault()}): look at the robot, then restart the bridge'
            )
        try:
            self.session.recover()
        except EmppiError:
            raise
        except Exception as error:  # franky also raises what has no base but this
            raise EmppiError(f'the robot does not recover: {_line(error)}') from error
        self._recovered.append(now)

    def close(self) -> None:
        """Stop the last motion, and disconnect."""
        self.session.close()

    def _connect(self) -> Any:
        """Return a new connection with our limits."""
        config, kinds = self._config, self._api.RealtimeConfig
        made = self._api.Robot(
            config.fci_address,
            default_torque_threshold=config.collision_torque_nm,
            default_force_threshold=config.collision_force_n,
            realtime_config=kinds.Enforce if config.realtime == 'enforce' else kinds.Ignore,
        )
        if wrong := misfits(self._robot, getattr(made, 'model_urdf', '')):
            raise ConfigError(f'the robot at {config.fci_address} is another: {"; ".join(wrong)}')
        # not as shares of franky's limits, which are those of the older FER on every robot
        for limit, wanted in (
            (made.joint_acceleration_limit, velocity_bounds.usable_acceleration(self._robot)),
            (made.joint_jerk_limit, velocity_bounds.usable_jerk(self._robot)),
            (made.joint_velocity_limit, np.array(self._robot.limits.velocity)),
        ):
            limit.set(np.minimum(wanted, limit.max).tolist())
        self._fastest = np.array(made.joint_velocity_limit.get())  # beyond, franky raises
        return made

    def _motion(self, velocity: Array) -> Any:
        # maximal dynamics are exactly the limits set above; with any other franky brakes all
        # joints together, and one near its end stop would wait for the fastest
        api = self._api
        duration = api.Duration(round(1e3 * self._config.motion_duration_s))
        return api.JointVelocityMotion(velocity, duration, api.RelativeDynamicsFactor.MAX_DYNAMICS)


def misfits(robot: Robot, urdf: str) -> list[str]:
    """Return what a robot says of itself that is not so, a sentence each; '' says nothing."""
    for i, name in enumerate(robot.commanded, 1):  # it may not know its prefix
        urdf = urdf.replace(f'name="joint{i}"', f'name="{name}"')
    return urdf_check.check(robot, urdf) if urdf else []


def _import() -> ModuleType:
    """Return franky, which is needed by this backend only."""
    try:
        return importlib.import_module('franky')
    except ImportError as error:
        raise ConfigError(
            f'backend \'franky\' needs franky-control ({error}): pip install "emppi_ros[franka]"'
        ) from None


def _line(error: Exception) -> str:
    return ' '.join(str(error).split()) or type(error).__name__


def _hint(error: Exception) -> str:
    """Return what to do about an error of connecting."""
    return {
        'IncompatibleVersionException': (
            '. These wheels speak to an FR3 of system 5.2 or later; a Panda, or an older system, '
            'needs a franky wheel for its firmware'
        ),
        'RealtimeException': '. A real robot needs a PREEMPT_RT kernel and the right to use it',
    }.get(type(error).__name__, '. Is it on, its brakes open, and FCI active?')

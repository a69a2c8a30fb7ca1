"""The bridge's state from one command to the next, on a clock that never jumps. No ROS here."""

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import shaping, watchdog
from emppi_ros.bridge.plan import Plan
from emppi_ros.bridge.watchdog import Bridge, BridgeConfig
from emppi_ros.tasks.robot import Robot

Array = npt.NDArray[np.float64]
_AT_REST = 0.05  # rad/s or m/s: a measured velocity above that is braked, not cut off


class Commander:
    """Arms, pauses, follows plans and brakes; knows nothing before the first measurement."""

    def __init__(self, config: BridgeConfig, robot: Robot) -> None:
        """Start disarmed."""
        self._config, self._robot = config, robot
        self._bridge: Bridge | None = None
        self._stepped_at = -np.inf
        self.armed = self.paused = False

    @property
    def ready(self) -> bool:
        """Whether there is anything to command from."""
        return self._bridge is not None

    @property
    def engaged(self) -> bool:
        """Whether it is to follow plans."""
        return self.armed and not self.paused

    @property
    def position(self) -> Array:
        """Where the commanded joints were measured last (joints,); only if it is ready."""
        return self._position

    @property
    def resting(self) -> bool:
        """Whether its last command moves nothing."""
        return self._bridge is None or shaping.is_at_rest(self._robot, self._bridge.command)

    @property
    def reason(self) -> str:
        """Why it is not following a plan, in words; '' while it is."""
        if self._bridge is None:
            return 'no joint state received yet'
        return 'paused' if self.armed and self.paused else self._bridge.reason

    def measure(self, now: float, position: Array, velocity: Array) -> None:
        """Take where the commanded joints are (joints,); the first time says where to begin."""
        self._position, self._measured_at = position, now
        if self._bridge is None:
            command = shaping.at_rest(self._robot, position)
            if self._robot.command == 'velocity' and np.max(np.abs(velocity)) > _AT_REST:
                limit = np.array(self._robot.limits.velocity)  # a measurement may be anything
                # left moving: brake from there
                command = command._replace(value=np.clip(velocity, -limit, limit))
            self._bridge = Bridge(command)

    def receive(self, plan: Plan) -> None:
        """Take a checked plan whose start is on this clock; while not engaged, none counts."""
        if self._bridge is not None and self._bridge.armed:
            self._bridge = watchdog.receive(self._bridge, plan)

    def engage(self, armed: bool, paused: bool) -> None:
        """Follow plans if armed and not paused; plans from before count no more."""
        self.armed, self.paused = armed, paused
        bridge = self._bridge
        if bridge is None or self.engaged == bridge.armed:
            return
        if self.engaged and self.resting:
            # a position that was commanded earlier may not be where the robot is now
            bridge = bridge._replace(command=shaping.at_rest(self._robot, self._position))
        self._bridge = watchdog.arm(bridge, self.engaged)

    def halt(self, now: float) -> None:
        """Take it that the robot stops by itself: whatever comes next starts from rest."""
        self._bridge = self._bridge._replace(
            command=shaping.at_rest(self._robot, self._position), reason='the robot brakes alone'
        )
        self._stepped_at = now

    def step(self, now: float) -> tuple[Array, float]:
        """Return the next command, and how long after the last one it comes."""
        period = 1.0 / self._config.rate_hz
        elapsed = now - self._stepped_at if np.isfinite(self._stepped_at) else period
        self._stepped_at = now
        self._bridge = watchdog.step(
            self._config,
            self._robot,
            self._bridge,
            now,
            self._position,
            now - self._measured_at,
            min(elapsed, 2.0 * period),  # a hiccup is no licence for a jerk
        )
        return self._bridge.command.value, elapsed

"""Stands in for a joint_trajectory_controller: velocities from the newest trajectory."""

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import joint_trajectory as trajectories
from emppi_ros.bridge.joint_trajectory import MotionState, Segment, Trajectory

Array = npt.NDArray[np.float64]


class Follower:
    """From a trajectory to velocities, at any rate, starting at rest where the robot is."""

    def __init__(self, position: Array) -> None:
        """Hold a position (joints,)."""
        self._desired = MotionState(
            position.copy(), np.zeros_like(position), np.zeros_like(position)
        )
        self._trajectory: Trajectory | None = None
        self._start = self._taken = 0.0
        self._segment: Segment | None = None  # the one in which it was looked up last

    def accept(self, trajectory: Trajectory, now: float, start: float | None = None) -> None:
        """Follow another trajectory that starts now, or is stamped with its start."""
        self._desired = self.desired(now)  # not where it is: as interpolate_from_desired_state
        self._trajectory, self._segment = trajectory, None
        self._start = now if start is None else start
        self._taken = now - self._start

    def desired(self, time: float) -> MotionState:
        """Return where the robot is to be."""
        if self._trajectory is None:
            return self._desired
        age = max(self._taken, time - self._start)
        if self._segment is None or not self._segment.begin <= age < self._segment.end:
            self._segment = trajectories.segment(self._trajectory, self._desired, age, self._taken)
        return self._segment.state(age)

    def velocity(self, time: float) -> Array:
        """
        Return the velocity (joints,) for the robot's servos.

        Errors of position are not fed back: the planner's models have no such feedback, and a
        belief takes the force behind it for a lighter object (mass 0.14 for 0.30 kg, with an sd
        of 0.005, at a gain of 10 / s).
        """
        return self.desired(time).velocity

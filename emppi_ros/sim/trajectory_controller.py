"""A model of joint_trajectory_controller: joint velocities from the newest trajectory."""

from emppi_ros.bridge import joint_trajectory as trajectories
from emppi_ros.bridge.joint_trajectory import MotionState, Segment, Trajectory
from emppi_ros.core.arrays import Array


class TrajectoryController:
    """Samples a trajectory at any rate; without one, it commands rest."""

    def __init__(self, position: Array) -> None:
        """Start at rest at a position (joints,)."""
        self._desired = trajectories.at_rest(position)
        self._trajectory: Trajectory | None = None
        self._start = self._accepted = 0.0
        self._segment: Segment | None = None  # the last one that was sampled

    def accept(self, trajectory: Trajectory, now: float, start: float | None = None) -> None:
        """Follow a new trajectory, which starts now or at `start` [s]."""
        self._desired = self.desired(now)  # not measured, as with interpolate_from_desired_state
        self._trajectory, self._segment = trajectory, None
        self._start = now if start is None else start
        self._accepted = now - self._start

    def desired(self, time: float) -> MotionState:
        """Return the desired position, velocity and acceleration."""
        if self._trajectory is None:
            return self._desired
        age = max(self._accepted, time - self._start)
        if self._segment is None or not self._segment.begin <= age < self._segment.end:
            self._segment = trajectories.segment(
                self._trajectory, self._desired, age, self._accepted
            )
        return self._segment.state(age)

    def velocity(self, time: float) -> Array:
        """
        Return the velocity (joints,) for the robot's servos.

        It contains no feedback of the position error. The planner's models have none either, and
        the belief would explain its force by a lighter object.
        """
        return self.desired(time).velocity

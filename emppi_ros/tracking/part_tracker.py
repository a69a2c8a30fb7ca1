"""The one loop of tracking: for the command, the node, the simulation and benchmarks."""

from collections.abc import Mapping

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.pose import Poses
from emppi_ros.tracking import joint_tracker, tracker
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.jointed_parts import JointedParts
from emppi_ros.tracking.parts import PartsFile, prepare_parts
from emppi_ros.tracking.renderer import MovingBackground
from emppi_ros.tracking.tracker import PartEstimate


class PartTracker:
    """
    Tracks parts image by image: as free bodies, or on the joints of a model.

    Attributes
    ----------
    parts : PartsFile
        The parts and their scene.
    camera : Camera
        Intrinsics and pose.
    tracked : TrackedParts
        The parts as the camera sees them.
    qpos : (nq,) array or None
        Positions of the joints in the last image; None for free parts.

    """

    def __init__(
        self,
        parts: PartsFile,
        camera: Camera,
        start: Poses | None = None,
        jointed: JointedParts | None = None,
    ) -> None:
        """
        Prepare the parts for a camera; SceneError if one has no visible geom.

        Free parts begin at the poses `start`, by default where the file says; those of a model
        `jointed` begin where the model does.
        """
        self.parts, self.camera = parts, camera
        self.tracked = prepare_parts(parts, camera)
        self._state = tracker.start(self.tracked, parts.start if start is None else start)
        self._jointed, self.qpos = jointed, None if jointed is None else jointed.model.qpos0
        self._joint_state = None if jointed is None else joint_tracker.start(jointed)
        self._robot: MovingBackground | None = None

    @property
    def time(self) -> float:
        """Time of the last image of free parts [s]; NaN before the first."""
        return self._state.time

    @property
    def poses(self) -> Poses:
        """Poses of free parts in the last image."""
        return self._state.poses

    def track(
        self,
        time: float,
        image: Array,
        mask: Bools | None = None,
        joints: Mapping[str, float] | None = None,
    ) -> list[PartEstimate]:
        """
        Return the poses of all parts in an image (h, w) of depths [m].

        `mask` (h, w) is true where parts may be; `joints` are measured positions [rad or m] of
        joints of the scene, such as those of a robot, which is then no part. PoseError if sizes or
        times do not fit; SceneError for an unknown joint.
        """
        if joints:
            self.move_robot(joints)
        if self._jointed is None or self._joint_state is None:
            self._state, estimates = tracker.track(self.tracked, self._state, time, image, mask)
            return estimates
        self._joint_state, found = joint_tracker.track(
            self.tracked, self._jointed, self._joint_state, time, image, mask
        )
        self.qpos = found.qpos
        return found.parts

    def restart(self) -> None:
        """Forget time and velocities of free parts, as after the clock was set back."""
        self._state = tracker.start(self.tracked, self._state.poses)

    def move_robot(self, joints: Mapping[str, float]) -> None:
        """Move joints of the scene, which is behind the parts, to positions [rad or m]."""
        if self.parts.settings.background == 'none':
            return
        if self._robot is None or set(self._robot.joints) != set(joints):
            file = self.parts
            self._robot = MovingBackground(file.model, file.bodies, tuple(joints), self.camera)
        self._robot.move(joints)
        self.tracked.background = self._robot

"""
Positions of joints in depth images, by the same inverse rendering as poses of free parts.

The equations of all parts are projected on the few coordinates of their joints, so that what one
part does not show, another one does, and parts stay on their joints.
"""

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.tracking import fitting, tracker
from emppi_ros.tracking.equations import Displacement
from emppi_ros.tracking.fitting import Fit, TrackedParts
from emppi_ros.tracking.jointed_parts import JointedParts, JointedPoses
from emppi_ros.tracking.tracker import TRACKED, PartEstimate

_LEAST_M, _LEAST_RAD = 1e-5, 1e-5  # standard deviations of poses: none is exact


class JointTracker:
    """
    Tracks parts image by image on the joints of a model, by default from where it starts.

    `qpos` (nq,) are positions of the joints in the last image in which any part was tracked, and
    `velocity` (k,) is that of the coordinates; `time` [s] is that of the last image, NaN before.
    """

    def __init__(
        self, tracked: TrackedParts, jointed: JointedParts, qpos: Array | None = None
    ) -> None:
        self.tracked, self._jointed = tracked, jointed
        self.qpos = jointed.model.qpos0.copy() if qpos is None else qpos
        self.time, self.velocity = np.nan, np.zeros(len(jointed.free))

    def track(self, time: float, image: Array, mask: Bools | None = None) -> list[PartEstimate]:
        """
        Return the poses of all parts in an image, as `PartTracker.track` does for free parts.

        If no part is tracked, the joints stay where they were.
        """
        tracked = self.tracked
        image = tracked.prepare(self.time, time, image, mask)
        dt = 0.0 if np.isnan(self.time) else time - self.time
        guess = self._jointed.places(self._jointed.moved(self.qpos, dt * self.velocity))
        fitted = fitting.fit_widely(tracked, guess, image)
        status = tracker.judge(tracked, fitted.evidence)
        parts = fitted.placement
        step = parts.step(tracked, fitted.equations, fitted.evidence.scale)
        self.time, self.velocity = time, np.zeros_like(self.velocity)
        if TRACKED in status:
            if dt > 0.0:
                moved = self._jointed.step_between(self.qpos, parts.qpos)
                self.velocity = step.seen @ moved / dt
            self.qpos = parts.qpos
        fits = fitted.evidence.fits.tolist()
        covariances = _pose_covariances(fitted, step)
        return list(map(PartEstimate, *parts.poses, covariances, status, fits))


def _pose_covariances(fitted: Fit[JointedPoses], step: Displacement) -> Array:
    """
    Return the covariances (B, 6, 6) of the poses.

    An error of where the joints are moves the parts, less what the coordinates make up for.
    """
    places, count = fitted.placement, len(fitted.equations)
    slopes = places.jacobian.reshape(6 * count, -1)
    weights = np.zeros((6 * count, 6 * count))
    for part, one in enumerate(fitted.equations):
        if one is not None:
            own = slice(6 * part, 6 * part + 6)
            weights[own, own] = one.known / fitted.evidence.scale[part]
    seen = step.seen @ step.covariance @ step.seen.T
    rest = np.eye(6 * count) - slopes @ seen @ slopes.T @ weights
    total = slopes @ step.covariance @ slopes.T + rest @ places.covariance @ rest.T
    least = np.diag([_LEAST_M**2] * 3 + [_LEAST_RAD**2] * 3)
    blocks = total.reshape(count, 6, count, 6)
    return np.array([blocks[part, :, part] + least for part in range(count)])

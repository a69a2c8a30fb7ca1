"""What the belief would measure in rollouts of the planner, in units of its noise."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]


class PredictedMeasurements:
    """Selects what `belief: likelihood` compares among recorded fields of rollouts."""

    def __init__(self, task: Task) -> None:
        """Find the measured joints and bodies; the noise is that of the task."""
        config = task.belief.likelihood
        bodies = [one.body(task.model) for one in task.objects.values()]
        bodies += [one.body for one in task.jointed.values()]
        measured = (
            ('qpos', task.map.qpos, config.joint_position_sd),
            ('qvel', task.map.qvel, config.joint_velocity_sd),
            ('xpos', np.array(bodies, dtype=np.intp), config.object_position_sd_m),
            ('xquat', np.array(bodies, dtype=np.intp), config.object_rotation_sd_rad),
        )
        self._quantities = [
            (field, rows, sd) for field, rows, sd in measured if sd is not None and len(rows)
        ]
        self.record = tuple(field for field, _, _ in self._quantities)

    def evaluate(self, fields: Mapping[str, Array]) -> Array:
        """Return N measured values (M, K, T, N) of fields (M, K, T, ...) at T steps."""
        values = []
        for field, rows, sd in self._quantities:
            chosen = fields[field][:, :, :, rows]
            if field == 'xquat':
                chosen = rotation_vectors(chosen)
            values.append(chosen.reshape(*chosen.shape[:3], -1) / sd)
        return np.concatenate(values, axis=-1)


def rotation_vectors(quaternions: Array) -> Array:
    """
    Return the rotations of all models relative to that of the first one, (M, ..., 3) [rad].

    Quaternions (M, ..., 4) are wxyz, of unit length.
    """
    scalar, vector = quaternions[..., :1], quaternions[..., 1:]
    cosine = scalar[:1] * scalar + np.sum(vector[:1] * vector, axis=-1, keepdims=True)
    sine = scalar[:1] * vector - scalar * vector[:1] - np.cross(vector[:1], vector)
    length = np.linalg.norm(sine, axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(length, np.abs(cosine))  # at most pi: q and -q are the same rotation
    ratio = np.divide(angle, length, out=np.full_like(length, 2.0), where=length > 0.0)
    return np.where(cosine < 0.0, -ratio, ratio) * sine

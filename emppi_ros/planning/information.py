"""
Expected information gain: what the measurements along a plan tell about the parameters.

The models of the ensemble disagree about what will be measured. For the controls k, model m
predicts the measurements y_mk, in units of their noise. If predictions are normal over the belief,
the mutual information of parameters and measurements is that of a Gaussian channel (Lindley 1956;
Cover and Thomas, *Elements of Information Theory*, 2006, section 9.4)::

    I_k = 1/2 log det(1 + C_k),    C_k = sum_m p(theta_m) (y_mk - mean) (y_mk - mean)'

in nats. A measurement that repeats another one adds little, and one on which all models agree
adds nothing. The determinant is computed from the inner products of models: M x M instead of the
number of measurements.
"""

from collections.abc import Mapping

import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.model.ensemble import Records, State
from emppi_ros.tasks.cost import at_plan_steps
from emppi_ros.tasks.task import Task


def gain(predictions: Array, log_belief: Array) -> Array:
    """
    Return the information of the measurements up to each step, (K, T) [nat].

    `predictions` (M, K, T, N) are those of N measured values at T steps of K plans, which are the
    same for all models, in units of the standard deviation of their noise. `log_belief` (M,) has
    the log weight of each model, in any normalization; models without weight are ignored. The
    result does not decrease, and is NaN from the first step at which a prediction is not finite.
    """
    some = np.isfinite(log_belief)
    belief = np.exp(weights.normalize(log_belief[some]))
    chosen = np.moveaxis(predictions[some], 0, 2)  # (K, T, M, N)
    finite = np.logical_and.accumulate(np.isfinite(chosen).all(axis=(2, 3)), axis=1)
    chosen = np.where(finite[:, :, None, None], chosen, 0.0)
    deviations = np.sqrt(belief)[:, None] * (chosen - (belief @ chosen)[:, :, None])
    products = np.cumsum(deviations @ deviations.swapaxes(2, 3), axis=1)  # (K, T, M, M)
    information: Array = 0.5 * np.linalg.slogdet(np.eye(len(belief)) + products)[1]
    return np.where(finite, information, np.nan)


def per_step(predictions: Array, log_belief: Array) -> Array:
    """
    Return what each step adds to the information of those before it, (K, T - 1) [nat].

    Arguments are those of `gain`. By the chain rule the sum is the information of all steps, given
    the measurements of the first one, which has no controls before it. Steps at which a model
    predicts values that are not finite add nothing.
    """
    return np.nan_to_num(np.diff(gain(predictions, log_belief), axis=1), nan=0.0)


class PredictedMeasurements:
    """What the belief would measure in rollouts of the planner, in units of its noise."""

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

    def information(
        self, records: Records, begin: State, substeps: int, log_belief: Array
    ) -> Array:
        """Return the information that each step of rollouts from `begin` adds, (K, H) [nat]."""
        measured = {name: records.fields[name] for name in self.record}
        fields = at_plan_steps(Records(measured, records.diverged), begin, substeps)
        return per_step(self.evaluate(fields), log_belief)


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

"""Whether torques come later than the motion that they make."""

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.rigid_body.estimate import Estimate
from emppi_ros.identify.rigid_body.regressor import regressor

Array = npt.NDArray[np.float64]
_RANK = 1e-8  # of the largest: what no motion shows


def lag(
    model: mujoco.MjModel, states: Array, shapes: Array, free: npt.NDArray[np.bool_],
    found: Estimate, step: float,
) -> tuple[float, float]:  # fmt: skip
    """
    Return by how much torques are late, in s, and how much of what is left beside noise that is.

    A late torque lacks its own rate times the lag. What is left of torques after a fit is
    regressed on that, and on what bodies (`free` of them) and others, in their `shapes`
    (n, nv, e), have taken of it; samples of states (3, n, nv) are `step` apart.
    """
    n, nv, count = shapes.shape
    weight = 1.0 / np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2)).ravel()
    rate = np.gradient(found.predicted, step, axis=0).ravel()
    others = (np.eye(nv)[None, :, :, None] * shapes[:, :, None, :]).reshape(n * nv, nv * count)
    rows = np.column_stack([regressor(model, *states)[:, free], others, -rate])
    rows *= weight[:, None]
    units = np.maximum(np.linalg.norm(rows, axis=0), np.finfo(float).tiny)
    rows, left = rows / units, found.left.ravel() * weight
    best = np.linalg.lstsq(rows, left, rcond=_RANK)[0]
    without = rows[:, :-1] @ np.linalg.lstsq(rows[:, :-1], left, rcond=_RANK)[0]
    before, after = (float(np.sum((left - x) ** 2)) for x in (without, rows @ best))
    return float(best[-1] / units[-1]), (before - after) / max(before - len(left), 1.0)

"""An observed motion on the model's time steps, and differences of configurations."""

from collections.abc import Sequence
from dataclasses import dataclass
import itertools

import mujoco
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Motion:
    """
    Observed configurations of a model, one for each of N time steps, and what drove it.

    Where `weights` is 0 nothing was observed, and `qpos` only is where the search starts. Several
    recordings may stand one after the other: no dynamics lead from one to the next.
    """

    qpos: Array  # (N, nq), filtered or not
    weights: Array  # (N, nv) of squared errors, 1 for an observed degree of freedom
    ctrl: Array  # (N, nu), each applied until the next
    applied: Array  # (N, nv) generalised forces from elsewhere, N or N m
    begins: tuple[int, ...] = (0,)  # of each recording, its first step

    @property
    def steps(self) -> int:
        """How many configurations there are, N."""
        return len(self.qpos)

    @property
    def parts(self) -> list[slice]:
        """The steps of each recording."""
        return [slice(*ends) for ends in itertools.pairwise([*self.begins, self.steps])]


def join(motions: Sequence[Motion]) -> Motion:
    """Return motions, each of one recording, one after the other."""
    begins = np.cumsum([0, *(motion.steps for motion in motions)])[:-1]
    fields = ('qpos', 'weights', 'ctrl', 'applied')
    rows = [np.concatenate([getattr(motion, field) for motion in motions]) for field in fields]
    return Motion(*rows, tuple(begins.tolist()))


def difference(model: mujoco.MjModel, start: Array, end: Array) -> Array:
    """Return what leads from configurations (n, nq) to others (n, nq), in tangents (n, nv)."""
    if model.nq == model.nv:  # no quaternion
        return end - start
    result = np.empty((len(start), model.nv))
    for row, a, b in zip(result, start, end, strict=True):
        mujoco.mj_differentiatePos(model, row, 1.0, a, b)
    return result


def displace(model: mujoco.MjModel, qpos: Array, tangents: Array) -> Array:
    """Return configurations (n, nq), moved along tangents (n, nv)."""
    if model.nq == model.nv:
        return qpos + tangents
    result = qpos.copy()
    for row, tangent in zip(result, tangents, strict=True):
        mujoco.mj_integratePos(model, row, tangent, 1.0)
    return result


def difference_jacobians(model: mujoco.MjModel, start: Array, end: Array) -> tuple[Array, Array]:
    """Return the derivatives (n, nv, nv) of a difference by displacements of start and end."""
    eye = np.tile(np.eye(model.nv), (len(start), 1, 1))
    by_start, by_end = -eye, eye
    for joint in range(model.njnt):
        kind = mujoco.mjtJoint(model.jnt_type[joint])
        if kind not in (mujoco.mjtJoint.mjJNT_BALL, mujoco.mjtJoint.mjJNT_FREE):
            continue
        skip = 3 if kind == mujoco.mjtJoint.mjJNT_FREE else 0  # a free joint's position
        q, v = model.jnt_qposadr[joint] + skip, model.jnt_dofadr[joint] + skip
        a, b = np.empty((3, 3)), np.empty((3, 3))
        for k in range(len(start)):
            mujoco.mjd_subQuat(end[k, q : q + 4], start[k, q : q + 4], a, b)
            by_end[k, v : v + 3, v : v + 3] = a
            by_start[k, v : v + 3, v : v + 3] = b
    return by_start, by_end

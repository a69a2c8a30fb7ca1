"""
Positions of joints in depth images, by the same inverse rendering as poses of free parts.

The equations of all parts are projected on the few coordinates of their joints, so that what one
part does not show, another one does, and parts stay on their joints.

A model that `emppi articulate` inferred says how well each joint is known, as a numeric
`<part>_covariance`: the upper triangle of the covariance (12, 12) of two small motions. The first
is of the joint, as a twist in the frame of the parent at its origin, and the second of the part on
its joint, likewise in the frame of the part. Without such a numeric, joints are exact.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.polynomial import Polynomial

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import SceneError
from emppi_ros.core.pose import Poses
from emppi_ros.model import scene
from emppi_ros.tracking import equations, fitting, renderer, tracker
from emppi_ros.tracking.equations import Displacement, PoseEquations
from emppi_ros.tracking.fitting import Fit, TrackedParts
from emppi_ros.tracking.tracker import TRACKED, PartEstimate

COVARIANCE = '_covariance'  # appended to a part's name
_SIZE = 12
_LEAST_M, _LEAST_RAD = 1e-5, 1e-5  # standard deviations of poses: none is exact


class JointedPoses(NamedTuple):
    """Parts at positions of their joints."""

    parts: 'JointedParts'
    qpos: Array  # (nq,)
    poses: Poses  # of the B parts
    jacobian: Array  # (B, 6, k), displacements, position and rotation, by the coordinates
    covariance: Array  # (6 B, 6 B), of displacements, as joints are not where the model says

    def moved(
        self, tracked: TrackedParts, systems: Sequence[PoseEquations | None]
    ) -> tuple['JointedPoses', float]:
        """Return the parts after a step, and how far it moved the surface of any part [m]."""
        step = self.step(tracked, systems, np.ones(len(systems))).step
        most = float(self._surface_motion(tracked, step[:, None]).max())
        return self.parts.places(self.parts.moved(self.qpos, step)), most

    def where(self, _chosen: Bools, _other: 'JointedPoses') -> 'JointedPoses':
        """Return these: the joints move all parts."""
        return self

    def step(
        self, tracked: TrackedParts, systems: Sequence[PoseEquations | None], scale: Array
    ) -> Displacement:
        """Return the step of the coordinates; `scale` (B,) is the squared noise of the parts."""
        count = self.jacobian.shape[-1]
        known, information = np.zeros((2, count, count))
        gradient = np.zeros(count)
        for slopes, system, noise in zip(self.jacobian, systems, scale, strict=True):
            if system is not None:
                known += slopes.T @ system.known @ slopes / noise
                information += slopes.T @ system.information @ slopes
                gradient += slopes.T @ system.gradient
        moved = self._surface_motion(tracked, np.eye(count)).max(axis=0)
        basis = np.diag(1.0 / np.where(moved > 0.0, moved, 1.0))
        radius = min(shape.radius for shape in tracked.shapes)
        return equations.solve_along(PoseEquations(information, gradient, known), basis, radius)

    def _surface_motion(self, tracked: TrackedParts, steps: Array) -> Array:
        """Return how far surfaces of parts move (B, n) [m] by steps of the coordinates (k, n)."""
        result = []
        for part, shape in enumerate(tracked.shapes):
            centre = self.poses.rotation[part] @ shape.centre
            from_origin = np.linalg.inv(equations.centred(centre, shape.radius))
            result.append(np.linalg.norm(from_origin @ self.jacobian[part] @ steps, axis=0))
        return np.array(result)


class JointedParts:
    """
    Parts on joints: hinges, slides, balls and free joints, and joints that others couple.

    Coordinates (k,) are the degrees of freedom of joints that are not coupled to others.
    """

    def __init__(self, model: mujoco.MjModel, names: Sequence[str]) -> None:
        """Find the bodies of the parts; SceneError if one is missing, or loops are closed."""
        self.model = model
        self._bodies = [scene.find(model, 'body', name) for name in names]
        self._couplings = _couplings(model)
        driven = {model.jnt_dofadr[coupling.joint] for coupling in self._couplings}
        self.free = np.array([i for i in range(model.nv) if i not in driven], int)
        if not len(self.free):
            raise SceneError('no joint moves: expected at least one degree of freedom')
        self._known = joint_covariances(model)

    def places(self, qpos: Array) -> JointedPoses:
        """Return the parts at positions of joints (nq,)."""
        data = scene.kinematics(self.model, qpos)
        poses = renderer.body_poses(data, self._bodies)
        full = np.zeros((len(self._bodies), 6, self.model.nv))
        for part, body in enumerate(self._bodies):
            mujoco.mj_jacBody(self.model, data, full[part, :3], full[part, 3:], body)
        covariance = np.zeros((6 * len(self._bodies), 6 * len(self._bodies)))
        for body, matrix in self._known.items():
            slopes = self._slopes(data, poses, body)
            covariance += slopes @ matrix @ slopes.T
        return JointedPoses(self, qpos, poses, full @ self._basis(qpos), covariance)

    def moved(self, qpos: Array, step: Array) -> Array:
        """Return the positions of joints (nq,) after a step of the coordinates (k,)."""
        full = np.zeros(self.model.nv)
        full[self.free] = step
        result = qpos.copy()
        mujoco.mj_integratePos(self.model, result, full, 1.0)
        for coupling in self._couplings:
            address, by = self.model.jnt_qposadr[[coupling.joint, coupling.by]]
            start, by_start = self.model.qpos0[[address, by]]
            result[address] = start + coupling.polynomial(result[by] - by_start)
        return result

    def step_between(self, before: Array, after: Array) -> Array:
        """Return the step of the coordinates (k,) from one position of joints to another."""
        full = np.zeros(self.model.nv)
        mujoco.mj_differentiatePos(self.model, full, 1.0, before, after)
        return full[self.free]

    def _basis(self, qpos: Array) -> Array:
        """Return the motion of all joints (nv, k) by the coordinates."""
        full = np.zeros((self.model.nv, len(self.free)))
        full[self.free, np.arange(len(self.free))] = 1.0
        column = self.model.jnt_dofadr
        for coupling in self._couplings:
            by = self.model.jnt_qposadr[coupling.by]
            slope = coupling.polynomial.deriv()(qpos[by] - self.model.qpos0[by])
            full[column[coupling.joint]] = slope * full[column[coupling.by]]
        return full

    def _slopes(self, data: mujoco.MjData, poses: Poses, body: int) -> Array:
        """Return displacements (6 B, 12) of all parts by the two motions of a body's joint."""
        result = np.zeros((len(self._bodies), 6, _SIZE))
        for column, frame in ((0, int(self.model.body_parentid[body])), (6, body)):
            axes = np.kron(np.eye(2), data.xmat[frame].reshape(3, 3))
            for part, own in enumerate(self._bodies):
                if self._holds(body, own):
                    arm = data.xpos[frame] - poses.position[part]
                    result[part, :, column : column + 6] = equations.centred(arm, 1.0) @ axes
        return result.reshape(-1, _SIZE)

    def _holds(self, body: int, other: int) -> bool:
        """Return whether a body holds another one, or is the same."""
        while other > body:
            other = int(self.model.body_parentid[other])
        return other == body


class _Coupling(NamedTuple):
    """A scalar joint whose position is a polynomial of that of another one, from their starts."""

    joint: int
    by: int
    polynomial: Polynomial


def _couplings(model: mujoco.MjModel) -> list[_Coupling]:
    """Return the couplings of joints; SceneError for other equalities, which close loops."""
    couplings = []
    for index in np.flatnonzero(model.eq_active0):
        joint, by = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
        if model.eq_type[index] != mujoco.mjtEq.mjEQ_JOINT or by < 0:
            kind = mujoco.mjtEq(model.eq_type[index]).name
            raise SceneError(
                f'equality {index}: found {kind}, expected one that couples two joints'
            )
        couplings.append(_Coupling(joint, by, Polynomial(model.eq_data[index, :5])))
    driving = {coupling.by for coupling in couplings}
    if chained := driving & {coupling.joint for coupling in couplings}:
        name = model.joint(min(chained)).name
        raise SceneError(f'joint {name!r}: it is coupled to a joint, and another one to it')
    return couplings


def joint_covariances(model: mujoco.MjModel) -> dict[int, Array]:
    """Return the covariances (12, 12) of joints by their bodies; SceneError if one is wrong."""
    covariances = {}
    rows, columns = np.triu_indices(_SIZE)
    for numeric in map(model.numeric, range(model.nnumeric)):
        if not numeric.name.endswith(COVARIANCE):
            continue
        if numeric.data.size != len(rows):
            raise SceneError(
                f'numeric {numeric.name!r}: found {numeric.data.size} numbers, expected '
                f'{len(rows)}'
            )
        matrix = np.zeros((_SIZE, _SIZE))
        matrix[rows, columns] = matrix[columns, rows] = numeric.data
        covariances[scene.find(model, 'body', numeric.name.removesuffix(COVARIANCE))] = matrix
    return covariances


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

    @property
    def poses(self) -> Poses:
        """Poses (B) of the parts at these positions of the joints."""
        return self._jointed.places(self.qpos).poses

    def track(self, time: float, image: Array, mask: Bools | None = None) -> list[PartEstimate]:
        """Return the poses of all parts in an image, as `PartTracker.track` does."""
        tracked = self.tracked
        image = tracked.prepare(self.time, time, image, mask)
        dt = 0.0 if np.isnan(self.time) else time - self.time
        guess = self._jointed.places(self._jointed.moved(self.qpos, dt * self.velocity))
        fitted, status = tracker.fit_with_noise(
            tracked, lambda: fitting.fit_widely(tracked, guess, image), guess.poses
        )
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
    for part, system in enumerate(fitted.equations):
        if system is not None:
            own = slice(6 * part, 6 * part + 6)
            weights[own, own] = system.known / fitted.evidence.scale[part]
    seen = step.seen @ step.covariance @ step.seen.T
    rest = np.eye(6 * count) - slopes @ seen @ slopes.T @ weights
    total = slopes @ step.covariance @ slopes.T + rest @ places.covariance @ rest.T
    least = np.diag([_LEAST_M**2] * 3 + [_LEAST_RAD**2] * 3)
    blocks = total.reshape(count, 6, count, 6)
    return np.array([blocks[part, :, part] + least for part in range(count)])

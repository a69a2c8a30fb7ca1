"""
Evidence for a joint between two bodies, as the cost of an edge of the tree (docs/articulation.md).

A joint gives a frame normal noise around the joint, at a joint position that is uniform over a
wide range. A frame that the joint does not explain is uniform over poses.
"""

import numpy as np
from scipy import stats

from emppi_ros.articulation import rigid_motion
from emppi_ros.articulation.fitting import INLIER, FittedJoint
from emppi_ros.articulation.joint_models import DOF, Observations
from emppi_ros.core.arrays import Array

_RANGE_M, _RANGE_RAD = 1.0, 2.0 * np.pi  # of joint positions
_UNEXPLAINED = 6.0  # charged for a frame that the joint does not explain: odds of 1 to 20
_LEAST_EXPLAINED = 0.65  # share of frames, below which a pair is not joined
_MODEL_ERROR = 0.03  # of the motion, up to which smooth deviations from a joint are errors
_LARGEST_NOISE = 5.0  # times the given one
_TRACKER_FAILS = 0.1  # share of frames in long runs without explanation that a tracker may cause
_BY_CHANCE = 1e-3  # probability of a run of scattered frames, beyond which it is another motion


def edge_cost(joint: FittedJoint, seen: Observations, scale: float) -> tuple[float, float]:
    """Return the cost of an edge, infinite if the joint does not hold, and the share explained."""
    scale = float(np.clip(scale, 1.0, max(_largest_scale(seen), _white_scale(joint, seen), 1.0)))
    wide = seen._replace(whitening=seen.whitening / np.sqrt(scale))
    larger = joint._replace(
        squares=joint.squares / scale, spread=joint.spread * np.sqrt(scale), scale=1.0
    )
    costs, unexplained = _frame_costs(larger, wide), free_costs(wide)
    explained = float(np.mean(larger.inliers(seen.dimensions)))
    total = float(np.sum(np.minimum(costs, unexplained + _UNEXPLAINED)))
    total += joint.parameters * np.log(np.sum(seen.dimensions))
    if explained < _LEAST_EXPLAINED or total >= float(np.sum(free_costs(seen))):
        total = np.inf
    return total, explained


def has_other_motion(joint: FittedJoint, seen: Observations) -> bool:
    """Return whether more frames than a tracker fails in belong to another motion."""
    freedom = np.maximum(seen.dimensions - DOF[joint.model.kind], 1)
    limit = max(_largest_scale(seen), joint.scale, 1.0) * stats.chi2.ppf(INLIER, freedom)
    far = joint.squares > limit
    share = float(np.mean(far))
    if share in (0.0, 1.0):
        return share == 1.0
    # runs begin after an explained frame, and go on with this probability
    longest = np.log(_BY_CHANCE / (len(far) * (1.0 - share))) / np.log(share)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], far, [False]])))
    runs = np.diff(edges.reshape(-1, 2), axis=1)
    return float(np.sum(runs[runs > longest])) / len(far) > _TRACKER_FAILS


def _largest_scale(seen: Observations) -> float:
    """Return the squared noise, in units of the given one, that is a small share of the motion."""
    square = np.median(np.sum(seen.whitening**2, axis=1), axis=0)
    low, high = np.quantile(seen.poses.position, [0.05, 0.95], axis=0)
    moved = _MODEL_ERROR * float(np.linalg.norm(high - low))
    turned = 0.0
    if seen.oriented:
        first = seen.poses.rotation[len(seen.dimensions) // 2].T @ seen.poses.rotation
        angle = np.linalg.norm(rigid_motion.rotation_vectors(first), axis=1)
        turned = _MODEL_ERROR * 2.0 * min(float(np.quantile(angle, 0.9)), _RANGE_RAD / 4.0)
    largest = max(moved**2 * float(np.mean(square[:3])), turned**2 * float(np.mean(square[3:])))
    return min(largest, _LARGEST_NOISE**2)


def _white_scale(joint: FittedJoint, seen: Observations) -> float:
    """Return the squared noise, in units of the given noise, that changes from frame to frame."""
    squares = 0.5 * np.sum(np.diff(joint.values, axis=0) ** 2, axis=1)
    freedom = max(float(np.median(seen.dimensions)) - DOF[joint.model.kind], 1.0)
    return min(float(np.median(squares)) / stats.chi2.median(freedom), _LARGEST_NOISE**2)


def _frame_costs(joint: FittedJoint, seen: Observations) -> Array:
    """Return minus twice the log density (T) of frames under a joint."""
    scale = np.abs(np.linalg.det(seen.whitening))
    kind = joint.model.kind
    noise = 6.0 * np.log(2.0 * np.pi) - 2.0 * np.log(scale)
    costs = joint.squares + noise
    if DOF[kind] == 0:
        return costs
    ranges = {'prismatic': _RANGE_M, 'planar': (_RANGE_M**2 * _RANGE_RAD) ** (1.0 / 3.0)}
    wide = ranges.get(kind, _RANGE_RAD)
    spread = np.clip(joint.spread, 1e-6, wide / np.sqrt(2.0 * np.pi))
    return costs + 2.0 * DOF[kind] * np.log(wide / (spread * np.sqrt(2.0 * np.pi)))


def free_costs(seen: Observations) -> Array:
    """Return minus twice the log density (T) of frames that nothing explains."""
    values = np.linalg.eigvalsh(
        np.linalg.inv(np.einsum('tij,tik->tjk', seen.whitening, seen.whitening))
    )
    noise = np.log(2.0 * np.pi * values)
    blind = np.where(np.arange(6) >= seen.dimensions[:, None], noise, 0.0).sum(axis=1)
    volume = 2.0 * (3.0 * np.log(_RANGE_M) + (seen.dimensions - 3.0) * np.log(_RANGE_RAD))
    return blind + volume

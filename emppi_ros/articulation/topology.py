"""
The kinematic tree: a minimum spanning tree over the world and all parts.

The cost of an edge is minus twice the log density of a part's measured poses, given those of its
parent: the tree with the least cost is then the most probable one (Chow and Liu, 1968). A part
that no joint holds is attached to the world by a planar or a free joint.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
import itertools

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from emppi_ros.articulation import evidence, fitting, joint_models, tracks
from emppi_ros.articulation import selection as types
from emppi_ros.articulation.fitting import FittedJoint
from emppi_ros.articulation.joint_models import DOF, FREE, JointModel, Observations
from emppi_ros.articulation.selection import Selection, SelectionConfig
from emppi_ros.articulation.tracks import PartTrack, Tracks
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.pose import Poses

WORLD = 'world'
_DEFAULT = SelectionConfig()
_WELL = 2.0  # squared noise, in units of the given one, of a joint that fits well
_LEAST_FRAMES = 10  # in which both were seen
_TRACKER_FAILS = 0.1  # share of frames in long runs without explanation that a tracker may cause


@dataclass(frozen=True)
class Pair:
    """
    Two bodies, and the joint that explains how they move.

    Attributes
    ----------
    parent, child : str
        Names of the bodies.
    selection : Selection
        Types of joints and their fits.
    cost : float
        Cost of the edge, in twice log odds; infinite if no joint explains the frames.
    explained : float
        Share of frames that the joint explains.
    other_motion : bool
        Whether many of the others follow one another: the joint is not the whole motion.
    frames : (T,) array
        In which frames both were seen.
    observations : Observations
        What was seen in these frames.

    """

    parent: str
    child: str
    selection: Selection
    cost: float
    explained: float
    other_motion: bool
    frames: Bools
    observations: Observations


@dataclass(frozen=True)
class TreeJoint:
    """
    A joint of the tree.

    Attributes
    ----------
    parent, child : str
        Names of the bodies.
    kind : str
        Type: static, prismatic, revolute, screw, planar, free or undecided.
    candidates : tuple of str
        Types that are possible; the model is of the first.
    model : JointModel or None
        The joint with position 0 in the first frame that it explains; None if free.
    q : (T, k) array
        Joint positions, NaN where there is none.
    axis_sd_rad, pivot_sd_m : float
        Standard deviations of the axis' direction, and of its place across it; NaN without.
    travel : float
        Range of the joint position, m or rad.
    residual : float
        Root mean square of the whitened residuals in explained frames: 1 if noise is as given.
    explained : float
        Share of frames that the joint explains.
    alternatives : tuple of (str, str, float)
        Edges that could replace this one, and by how much they are worse (twice log odds).
    covariance : (12, 12) array or None
        Of the place of the joint, as in `fitting.covariance`; None if free.

    """

    parent: str
    child: str
    kind: str
    candidates: tuple[str, ...]
    model: JointModel | None
    q: Array
    axis_sd_rad: float
    pivot_sd_m: float
    travel: float
    residual: float
    explained: float
    alternatives: tuple[tuple[str, str, float], ...] = ()
    covariance: Array | None = None


@dataclass(frozen=True)
class KinematicTree:
    """
    A tree of parts.

    Attributes
    ----------
    tracks : Tracks
        What it was inferred from.
    joints : tuple of TreeJoint
        One for each part, parents first.
    pairs : tuple of Pair
        All pairs of bodies that were compared.
    start : dict
        Part -> pose in the world in the first frame, as the tree predicts it.

    """

    tracks: Tracks
    joints: tuple[TreeJoint, ...]
    pairs: tuple[Pair, ...]
    start: dict[str, Poses]

    def joint(self, child: str) -> TreeJoint:
        """Return the joint that holds a part."""
        return next(one for one in self.joints if one.child == child)


@dataclass(frozen=True)
class _Base:
    """How a part moves in the world if no joint holds it there."""

    fit: FittedJoint | None  # planar; None: free
    cost: float
    explained: float


def infer(
    given: Tracks,
    seed: int = 0,
    config: SelectionConfig = _DEFAULT,
    progress: Callable[[float], None] = lambda _: None,
) -> KinematicTree:
    """Return the most probable kinematic tree; IdentificationError if tracks are too short."""
    tracks.check(given, 'tracks')
    nodes = [tracks.world(len(given.time)), *given.parts]
    pairs: dict[tuple[int, int], Pair] = {}
    possible = _possible_pairs(nodes)
    for done, (i, j) in enumerate(possible, start=1):
        rng = np.random.default_rng([seed, i, j])
        if (found := compare(nodes[i], nodes[j], rng, config)) is not None:
            pairs[i, j] = found
        progress(float(done))
    bases = {j: _base(nodes[0], nodes[j], seed, pairs.get((0, j))) for j in range(1, len(nodes))}
    for j, base in bases.items():
        if base.fit is not None and (0, j) in pairs and pairs[0, j].other_motion:
            pairs[0, j] = replace(pairs[0, j], cost=np.inf)  # a planar joint is the whole motion
    costs = {edge: one.cost for edge, one in pairs.items()}
    for j, base in bases.items():
        costs[0, j] = min(costs.get((0, j), np.inf), base.cost)
    edges = _spanning_tree(len(nodes), costs)
    joints = []
    for parent, child in edges:
        others = _alternatives(edges, (parent, child), costs, [one.name for one in nodes])
        joints.append(_tree_joint(nodes, pairs, bases, parent, child, others))
    start = {WORLD: Poses(np.zeros(3), np.eye(3))}
    by_name = {one.name: one for one in given.parts}
    for joint in joints:
        start[joint.child] = _start(joint, start[joint.parent], by_name[joint.child])
    return KinematicTree(given, tuple(joints), tuple(pairs.values()), start)


def count_pairs(given: Tracks) -> int:
    """Return how many pairs of bodies `infer` compares."""
    return len(_possible_pairs([tracks.world(len(given.time)), *given.parts]))


def _possible_pairs(nodes: Sequence[PartTrack]) -> list[tuple[int, int]]:
    """Return the pairs (parent, child) to compare; the parent has rotations."""
    indices = itertools.permutations(range(len(nodes)), 2)
    return [(i, j) for i, j in indices if _may_join(nodes, i, j)]


def _may_join(nodes: Sequence[PartTrack], i: int, j: int) -> bool:
    """Return whether to compare a pair in this order: once, and the parent has rotations."""
    if j == 0 or not (i == 0 or nodes[i].oriented):
        return False
    return i < j or not nodes[j].oriented


def compare(
    parent: PartTrack, child: PartTrack, rng: np.random.Generator, config: SelectionConfig
) -> Pair | None:
    """Return the joint of two bodies; None if they were hardly seen together."""
    poses, covariance, frames = tracks.pair(parent, child)
    if np.sum(frames) < _LEAST_FRAMES:
        return None
    seen = fitting.observe(poses, covariance)
    selection = types.select(seen, rng, config)
    total, explained = evidence.edge_cost(selection.best, seen, selection.scale)
    other_motion = _has_other_motion(selection.best, seen)
    return Pair(parent.name, child.name, selection, total, explained, other_motion, frames, seen)


def _has_other_motion(joint: FittedJoint, seen: Observations) -> bool:
    """Return whether more frames than a tracker fails in belong to another motion."""
    return float(np.mean(evidence.other_motion(joint, seen))) > _TRACKER_FAILS


def _base(world: PartTrack, part: PartTrack, seed: int, pair: Pair | None) -> _Base:
    """
    Return the planar joint by which a part moves in the world, or a free one.

    Without a planar one if its pair with the world has a joint that explains the frames well.
    """
    poses, covariance, _ = tracks.pair(world, part)
    seen = fitting.observe(poses, covariance)
    free = float(np.sum(evidence.free_costs(seen)))
    held = (
        pair is not None
        and np.isfinite(pair.cost)
        and pair.selection.scale < _WELL
        and not pair.other_motion
    )
    planar = None
    if seen.oriented and not held:
        planar = fitting.fit('planar', seen, np.random.default_rng(seed))
    if planar is not None:
        total, explained = evidence.edge_cost(planar, seen, max(planar.scale, 1.0))
        if np.isfinite(total) and not _has_other_motion(planar, seen):
            return _Base(planar, total, explained)
    return _Base(None, free, 1.0)


def _spanning_tree(count: int, costs: dict[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Return the edges (parent, child) of the tree from the world outwards."""
    finite = [cost for cost in costs.values() if np.isfinite(cost)]
    matrix = np.zeros((count, count))
    for (i, j), cost in costs.items():
        if np.isfinite(cost):  # zeros are no edges, and costs may be negative
            matrix[min(i, j), max(i, j)] = cost - min(finite) + 1.0
    rows, columns = minimum_spanning_tree(matrix).nonzero()
    neighbours: dict[int, list[int]] = {i: [] for i in range(count)}
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        neighbours[i].append(j)
        neighbours[j].append(i)
    edges, reached, queue = [], {0}, [0]
    while queue:
        parent = queue.pop(0)
        for child in sorted(set(neighbours[parent]) - reached):
            edges.append((parent, child))
            reached.add(child)
            queue.append(child)
    return edges


def _alternatives(
    edges: Sequence[tuple[int, int]],
    cut: tuple[int, int],
    costs: dict[tuple[int, int], float],
    names: Sequence[str],
) -> tuple[tuple[str, str, float], ...]:
    """Return the three cheapest edges that could replace one, and how much worse they are."""
    side, grown = {cut[1]}, True
    while grown:
        grown = False
        for i, j in edges:
            if (i, j) != cut and (i in side) != (j in side):
                side |= {i, j}
                grown = True
    own = _edge_cost(costs, cut)
    others = sorted(
        (cost - own, names[i], names[j])
        for (i, j), cost in costs.items()
        if (i in side) != (j in side) and np.isfinite(cost) and {i, j} != set(cut)
    )
    return tuple((parent, child, worse) for worse, parent, child in others[:3])


def _edge_cost(costs: dict[tuple[int, int], float], edge: tuple[int, int]) -> float:
    return costs[edge] if edge in costs else costs[edge[1], edge[0]]


def _tree_joint(
    nodes: Sequence[PartTrack],
    pairs: dict[tuple[int, int], Pair],
    bases: dict[int, _Base],
    parent: int,
    child: int,
    alternatives: tuple[tuple[str, str, float], ...],
) -> TreeJoint:
    """Return the joint of an edge of the tree, in its direction and by the conventions."""
    names = nodes[parent].name, nodes[child].name
    count = len(nodes[0].seen)
    pair = pairs.get((parent, child)) or pairs.get((child, parent))
    if parent == 0 and (pair is None or bases[child].cost < pair.cost):
        base = bases[child]
        return _base_joint(nodes[0], nodes[child], base, count, alternatives)
    assert pair is not None  # edges come from pairs and bases
    joint = pair.selection.best
    if (pair.parent, pair.child) != names:
        joint = fitting.inverted(joint)
    model, sign = joint_models.with_axis_convention(joint.model)
    good = joint.inliers(pair.observations.dimensions)
    q = np.full((count, DOF[model.kind]), np.nan)
    places = np.flatnonzero(pair.frames)[good]
    own = sign * joint.q[good]
    if model.kind == 'revolute' and len(own):
        own = np.unwrap(own, axis=0)
    if len(own) and DOF[model.kind]:
        model = joint_models.with_zero_at(model, own[0])
        own = own - own[0]
    q[places] = own
    travel = types.travel(joint._replace(q=own)) if len(own) else 0.0
    inflation = pair.selection.scale * pair.selection.correlation
    axis_sd, pivot_sd = fitting.uncertainty(joint, inflation)
    freedom = np.maximum(pair.observations.dimensions - DOF[model.kind], 1.0)[good]
    residual = float(np.sqrt(np.sum(joint.squares[good]) / max(np.sum(freedom), 1.0)))
    kind, candidates = pair.selection.kind, pair.selection.candidates
    if pair.other_motion:
        kind, candidates = 'undecided', (*candidates, FREE)
    return TreeJoint(
        *names, kind, candidates, model, q, axis_sd, pivot_sd,
        travel, residual, pair.explained, alternatives, fitting.covariance(joint, inflation),
    )  # fmt: skip


def _base_joint(
    world: PartTrack,
    part: PartTrack,
    base: _Base,
    count: int,
    alternatives: tuple[tuple[str, str, float], ...],
) -> TreeJoint:
    """Return the planar or free joint of a part on the world."""
    nothing = float('nan')
    if base.fit is None:
        return TreeJoint(
            world.name, part.name, FREE, (FREE,), None, np.full((count, 0), nothing), nothing,
            nothing, nothing, nothing, 1.0, alternatives,
        )  # fmt: skip
    poses, covariance, frames = tracks.pair(world, part)
    seen = fitting.observe(poses, covariance)
    good = base.fit.inliers(seen.dimensions)
    first = base.fit.q[good][0] if good.any() else np.zeros(3)
    model = base.fit.model
    moved = model.frame @ joint_models.motion(model, first[None]).at(0)
    model = model._replace(frame=moved)
    positions, _ = joint_models.fit_positions(model, seen)
    q = np.full((count, 3), nothing)
    q[np.flatnonzero(frames)[good]] = positions[good]
    squares = base.fit.squares[good]
    freedom = np.sum(np.maximum(seen.dimensions[good] - DOF['planar'], 1.0))
    return TreeJoint(
        world.name, part.name, 'planar', ('planar',), model, q, nothing, nothing, nothing,
        float(np.sqrt(np.sum(squares) / max(freedom, 1.0))), base.explained, alternatives,
        fitting.covariance(base.fit, max(base.fit.scale, 1.0)),
    )  # fmt: skip


def _start(joint: TreeJoint, parent: Poses, part: PartTrack) -> Poses:
    """Return the pose of a part in the world at joint position 0."""
    if joint.model is None:
        return part.poses.at(int(np.argmax(part.seen)))
    return parent @ (joint.model.frame @ joint.model.child)


def require_unique(parts: Sequence[PartTrack]) -> None:
    """Raise IdentificationError if a part has the name of the world, or of another one."""
    names = [part.name for part in parts]
    for name in names:
        if name == WORLD or names.count(name) > 1:
            raise IdentificationError(f'pose/{name}: this name is taken: rename the part')

"""
The kinematic tree: a minimum spanning tree over the world and all parts.

The cost of an edge is minus twice the log density of a part's measured poses, given those of its
parent: the tree with the least cost is then the most probable one (Chow and Liu, 1968). A part
that no joint holds is attached to the world by a planar or a free joint.

This cost counts all noise of the parent, although the parent's joint leaves little of it: the
world, which has none, wins too often after a small motion. So each edge is compared again with
others that join the same groups of parts, with the poses that joints allow. Where two explain the
motion within the noise, the joint is undecided.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
import itertools
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from emppi_ros.articulation import evidence, fitting, joint_models, selection, smoothing, tracks
from emppi_ros.articulation.joint_models import DOF, FREE, JointModel, Observations
from emppi_ros.articulation.selection import Selection, TypeFit
from emppi_ros.articulation.tracks import PartTrack, Tracks
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.pose import Poses

WORLD = tracks.WORLD
_WELL = 2.0  # squared noise, in units of the given one, of a joint that fits well
_LEAST_FRAMES = 10  # in which both were seen
_CHANCE = 3.0  # standard errors, up to which it is chance that a joint fits worse


@dataclass(frozen=True)
class Pair:
    """Two bodies, and the joint that explains how they move."""

    parent: str
    child: str
    selection: Selection
    cost: float  # of the edge, in twice log odds; infinite if no joint explains the frames
    explained: float  # share of frames that the joint explains
    other_motion: bool  # many of the others follow one another: it is not the whole motion
    frames: Bools  # (T,), in which both were seen
    observations: Observations  # in these frames


@dataclass(frozen=True)
class TreeJoint:
    """A joint of the tree."""

    parent: str
    child: str
    kind: str  # static, prismatic, revolute, screw, planar, free or undecided
    candidates: tuple[str, ...]  # types that are possible; the model is of the first
    model: JointModel | None  # with position 0 in the first frame it explains; None if free
    q: Array  # (T, k), joint positions, NaN where there is none
    # edges that could replace this one, and by how much they are worse (twice log odds)
    alternatives: tuple[tuple[str, str, float], ...] = ()
    # standard deviations of the axis' direction, and of its place across it; NaN without
    axis_sd_rad: float = np.nan
    pivot_sd_m: float = np.nan
    travel: float = np.nan  # range of the joint position, m or rad
    residual: float = np.nan  # root mean square in explained frames: 1 if noise is as given
    explained: float = 1.0  # share of frames that the joint explains
    covariance: Array | None = None  # (12, 12), as in `fitting.covariance`; None if free

    @property
    def description(self) -> str:
        """The type; if it is undecided, with those that are possible."""
        possible = f' ({" or ".join(self.candidates)})' if self.kind == 'undecided' else ''
        return self.kind + possible

    @property
    def advice(self) -> str:
        """What may decide the type and the parent; '' if they are decided."""
        if self.kind != 'undecided':
            return ''
        if FREE in self.candidates:
            return 'many frames in a row show another motion: leave them out'
        return (
            'move the parts that are named further; if their poses have less noise than assumed, '
            'give it (--position-sd, --rotation-sd or covariances)'
        )


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

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence, with a remedy, for each joint that is undecided."""
        return tuple(
            f'joint of {joint.child} on {joint.parent} is {joint.description}: {joint.advice}'
            for joint in self.joints
            if joint.advice
        )


def infer(
    given: Tracks, seed: int = 0, progress: Callable[[float], None] = lambda _: None
) -> KinematicTree:
    """Return the most probable kinematic tree; IdentificationError if tracks are too short."""
    tracks.check(given, 'tracks')
    nodes = [tracks.world(len(given.time)), *given.parts]
    pairs: dict[tuple[int, int], Pair] = {}
    for done, (i, j) in enumerate(_possible_pairs(nodes), start=1):
        rng = np.random.default_rng([seed, i, j])
        if (found := _compare(nodes[i], nodes[j], rng)) is not None:
            pairs[i, j] = found
        progress(float(done))
    bases = {j: _base(nodes[0], nodes[j], seed, pairs.get((0, j))) for j in range(1, len(nodes))}
    costs = {edge: one.cost for edge, one in pairs.items()}
    for j, (cost, planar) in bases.items():
        if planar is not None and (0, j) in pairs and pairs[0, j].other_motion:
            pairs[0, j] = replace(pairs[0, j], cost=np.inf)  # a planar joint is the whole motion
            costs[0, j] = np.inf
        costs[0, j] = min(costs.get((0, j), np.inf), cost)
    edges = _spanning_tree(len(nodes), costs)
    for _ in nodes:  # each round replaces one edge
        chosen = [_chosen(edge, pairs, bases) for edge in edges]
        joints, start = _assemble(nodes, edges, chosen, costs)
        rivals = _compare_edges(nodes, edges, joints, chosen, pairs, seed)
        better = next((edge for edge, rival in rivals.items() if rival.is_better), None)
        if better is None:
            break
        new = rivals[better].parent, rivals[better].child
        known, now = (edge if edge in costs else edge[::-1] for edge in (better, new))
        costs[now] = costs[known] + rivals[better].worse
        edges = _from_world([*(edge for edge in edges if edge != better), new])
    for (_, j), rival in rivals.items():
        at = next(n for n, one in enumerate(joints) if one.child == nodes[j].name)
        whose = f' of {nodes[rival.child].name}' if rival.child != j else ''
        also = f'{rival.kind}{whose} on {nodes[rival.parent].name}'
        candidates = (*joints[at].candidates, also)
        joints[at] = replace(joints[at], kind='undecided', candidates=candidates)
    return KinematicTree(given, tuple(joints), tuple(pairs.values()), start)


def _chosen(
    edge: tuple[int, int],
    pairs: Mapping[tuple[int, int], Pair],
    bases: Mapping[int, tuple[float, Pair | None]],
) -> Pair | None:
    """Return the pair of an edge; None if its child is free."""
    pair = pairs.get(edge) or pairs.get(edge[::-1])
    cost, base = bases[edge[1]]
    return base if edge[0] == 0 and (pair is None or cost < pair.cost) else pair


def _assemble(
    nodes: Sequence[PartTrack],
    edges: Sequence[tuple[int, int]],
    chosen: Sequence[Pair | None],
    costs: Mapping[tuple[int, int], float],
) -> tuple[list[TreeJoint], dict[str, Poses]]:
    """Return the joints of edges, parents first, and the poses of parts in the first frame."""
    joints, start = list[TreeJoint](), {WORLD: Poses(np.zeros(3), np.eye(3))}
    for (i, j), pair in zip(edges, chosen, strict=True):
        others = _alternatives(edges, (i, j), costs, [one.name for one in nodes])
        parent, part = nodes[i].name, nodes[j]
        if pair is None:
            q = np.full((len(part.seen), 0), np.nan)
            joint = TreeJoint(parent, part.name, FREE, (FREE,), None, q, others)
        else:
            joint = _tree_joint(pair, parent, part.name, others)
        place = part.poses.at(int(np.argmax(part.seen)))
        if joint.model is not None:
            place = start[joint.parent] @ (joint.model.frame @ joint.model.child)
        start[joint.child] = place
        joints.append(joint)
    return joints, start


class _Rival(NamedTuple):
    """Another edge that explains the motion within the noise."""

    parent: int
    child: int
    kind: str
    worse: float  # than the edge of the tree, by evidence, in twice log odds
    is_better: bool  # fits clearly better


def _compare_edges(
    nodes: Sequence[PartTrack],
    edges: Sequence[tuple[int, int]],
    joints: Sequence[TreeJoint],
    chosen: Sequence[Pair | None],
    pairs: Mapping[tuple[int, int], Pair],
    seed: int,
) -> dict[tuple[int, int], _Rival]:
    """Return the best rival of each edge, where there is any: it joins the same two groups."""
    by_part = {j: joint for (_, j), joint in zip(edges, joints, strict=True)}
    chains: dict[int, list[int]] = {0: []}  # parts from the world to each part
    for i, j in edges:
        chains[j] = [*chains[i], j]
    # parts that do not move on one another are one body, named by the last part that moves
    bodies = {
        k: next((n for n in chain[::-1] if by_part[n].kind != 'static'), 0)
        for k, chain in chains.items()
    }

    def follow(route: Sequence[tuple[int, int]], known: Pair) -> list[Pair] | None:
        """
        Return the pairs of a row of edges, each parent with the poses that its joints allow.

        `known` is the first one with measured poses.
        """
        held = [by_part[k] for k in chains[route[0][0]]]
        found = list[Pair]()
        for k, n in route:
            allowed = [(one.model, one.q) for one in held if one.model is not None]
            all_held = k > 0 and len(allowed) == len(held)
            parent = smoothing.onto_joints(nodes[k], allowed) if all_held else nodes[k]
            rng = np.random.default_rng([seed, k, n])
            pair = known if k == 0 else _compare(parent, nodes[n], rng)
            if pair is None:
                return None
            found.append(pair)
            held.append(_tree_joint(pair, parent.name, nodes[n].name, ()))
        return found

    rivals: dict[tuple[int, int], _Rival] = {}
    for (i, j), own in zip(edges, chosen, strict=True):
        if own is None:
            continue
        for (a, b), first in pairs.items():
            # from the side of the world to that of the part
            k, n = (b, a) if j in chains[a] else (a, b)
            if j in chains[k] or j not in chains[n] or (k, n) == (i, j):
                continue
            inner = chains[n][chains[n].index(j) :]  # from the part to the new child
            if not np.isfinite(first.cost) or not all(nodes[m].oriented for m in (k, *inner[1:])):
                continue
            if _excluded([first], [own]):
                continue
            kind = first.selection.candidates[0]
            if bodies[k] == bodies[i] and bodies[n] == bodies[j]:
                # nothing moved between them, unless the motion was lost
                lost = 0 < DOF[own.selection.best.model.kind] <= DOF[kind]
                if n == j and lost and _fits_worse([own], [first]):
                    rivals[i, j] = _Rival(k, n, kind, first.cost - own.cost, False)
                continue
            down = list(itertools.pairwise(inner))
            exact = follow([(i, j), *down], own)
            other = follow([(k, n), *((below, above) for above, below in down[::-1])], first)
            if exact is None or other is None or _excluded(other, exact):
                continue
            worse = sum(one.cost for one in other) - sum(one.cost for one in exact)
            if (i, j) not in rivals or worse < rivals[i, j].worse:
                rivals[i, j] = _Rival(k, n, kind, worse, _fits_worse(exact, other))
    return rivals


def _excluded(rival: Sequence[Pair], own: Sequence[Pair]) -> bool:
    """Return whether pairs move more freely than other ones, or fit clearly worse."""
    freedom = [sum(DOF[one.selection.best.model.kind] for one in pairs) for pairs in (rival, own)]
    return freedom[0] > freedom[1] or _fits_worse(rival, own)


def _fits_worse(rival: Sequence[Pair], own: Sequence[Pair]) -> bool:
    """Return whether squared errors of pairs are clearly larger than of other ones (Vuong)."""
    both = (rival, own)
    scale = min(one.selection.scale for one in (*rival, *own))
    squares = np.zeros((2, len(own[0].frames)))
    for row, pairs in zip(squares, both, strict=True):
        for one in pairs:
            row[~one.frames] = np.nan
            errors = one.selection.best.squares / scale
            row[one.frames] += fitting.truncated(errors, one.observations)
    worse = squares[0] - squares[1]
    worse = worse[np.isfinite(worse)]
    if len(worse) < _LEAST_FRAMES:
        return True
    # of the errors: those of a wrong pair are its misfit, too
    correlation = max(one.selection.correlation for one in both[int(np.mean(worse) > 0.0)])
    limit = _CHANCE * np.std(worse) / np.sqrt(len(worse) / correlation)
    return bool(np.mean(worse) > limit)


def count_pairs(given: Tracks) -> int:
    """Return how many pairs of bodies `infer` compares."""
    return len(_possible_pairs([tracks.world(len(given.time)), *given.parts]))


def _possible_pairs(nodes: Sequence[PartTrack]) -> list[tuple[int, int]]:
    """Return the pairs (parent, child) to compare: each once, and the parent has rotations."""
    return [
        (i, j)
        for i, j in itertools.permutations(range(len(nodes)), 2)
        if j > 0 and (i == 0 or nodes[i].oriented) and (i < j or not nodes[j].oriented)
    ]


def _compare(parent: PartTrack, child: PartTrack, rng: np.random.Generator) -> Pair | None:
    """Return the joint of two bodies; None if they were hardly seen together."""
    poses, covariance, frames = tracks.pair(parent, child)
    if np.sum(frames) < _LEAST_FRAMES:
        return None
    seen = fitting.observe(poses, covariance)
    selected = selection.select(seen, rng)
    total, explained = evidence.edge_cost(selected.best, seen, selected.scale)
    other_motion = evidence.has_other_motion(selected.best, seen)
    return Pair(parent.name, child.name, selected, total, explained, other_motion, frames, seen)


def _base(
    world: PartTrack, part: PartTrack, seed: int, pair: Pair | None
) -> tuple[float, Pair | None]:
    """
    Return the cost of a part that nothing holds, and its planar joint, None if it is free.

    Without a planar one if its pair with the world has a joint that explains the frames well.
    """
    poses, covariance, frames = tracks.pair(world, part)
    seen = fitting.observe(poses, covariance)
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
        scale = max(planar.scale, 1.0)
        total, explained = evidence.edge_cost(planar, seen, scale)
        if np.isfinite(total) and not evidence.has_other_motion(planar, seen):
            selected = Selection(('planar',), {'planar': TypeFit(planar, total)}, scale, 1.0)
            return total, Pair(WORLD, part.name, selected, total, explained, False, frames, seen)
    return float(np.sum(evidence.free_costs(seen))), None


def _spanning_tree(count: int, costs: Mapping[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Return the edges (parent, child) of the tree from the world outwards."""
    finite = {edge: cost for edge, cost in costs.items() if np.isfinite(cost)}
    matrix = np.zeros((count, count))
    for edge, cost in finite.items():  # zeros are no edges, and costs may be negative
        matrix[min(edge), max(edge)] = cost - min(finite.values()) + 1.0
    linked = np.argwhere(minimum_spanning_tree(matrix).toarray() > 0.0)
    return _from_world([(int(i), int(j)) for i, j in linked])


def _from_world(linked: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the edges (parent, child) of a tree from the world outwards."""
    edges, reached, queue = [], {0}, [0]
    while queue:
        parent = queue.pop(0)
        joined = {a + b - parent for a, b in linked if parent in (a, b)}
        for child in sorted(joined - reached):
            edges.append((parent, child))
            reached.add(child)
            queue.append(child)
    return edges


def _alternatives(
    edges: Sequence[tuple[int, int]],
    cut: tuple[int, int],
    costs: Mapping[tuple[int, int], float],
    names: Sequence[str],
) -> tuple[tuple[str, str, float], ...]:
    """Return the three cheapest edges that could replace one, and how much worse they are."""
    side = {cut[1]}
    for parent, child in edges:  # parents first
        if parent in side:
            side.add(child)
    own = costs[cut] if cut in costs else costs[cut[::-1]]
    others = sorted(
        (cost - own, names[i], names[j])
        for (i, j), cost in costs.items()
        if (i in side) != (j in side) and np.isfinite(cost) and {i, j} != set(cut)
    )
    return tuple((parent, child, worse) for worse, parent, child in others[:3])


def _tree_joint(
    pair: Pair, parent: str, child: str, alternatives: tuple[tuple[str, str, float], ...]
) -> TreeJoint:
    """Return the joint of a pair, in the direction of the tree and by the conventions."""
    selected, seen = pair.selection, pair.observations
    joint = selected.best if pair.parent == parent else fitting.inverted(selected.best)
    model, sign = joint_models.with_axis_convention(joint.model)
    good = joint.inliers(seen.dimensions)
    own = sign * joint.q[good]
    if len(own) and model.kind == 'planar':
        model = model._replace(frame=model.frame @ joint_models.motion(model, own[:1]).at(0))
        own = joint_models.fit_positions(model, seen)[0][good]
    elif len(own) and DOF[model.kind]:
        if model.kind == 'revolute':
            own = np.unwrap(own, axis=0)
        model = joint_models.with_zero_at(model, own[0])
        own = own - own[0]
    q = np.full((len(pair.frames), DOF[model.kind]), np.nan)
    q[np.flatnonzero(pair.frames)[good]] = own
    travel = selection.travel(joint._replace(q=own)) if len(own) else 0.0
    inflation = selected.scale * selected.correlation
    axis_sd, pivot_sd = fitting.uncertainty(joint, inflation)
    freedom = np.maximum(seen.dimensions - DOF[model.kind], 1.0)[good]
    residual = float(np.sqrt(np.sum(joint.squares[good]) / max(np.sum(freedom), 1.0)))
    kind, candidates = selected.kind, selected.candidates
    if pair.other_motion:
        kind, candidates = 'undecided', (*candidates, FREE)
    return TreeJoint(
        parent, child, kind, candidates, model, q, alternatives, axis_sd, pivot_sd,
        travel, residual, pair.explained, fitting.covariance(joint, inflation),
    )  # fmt: skip

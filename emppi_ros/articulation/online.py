"""
The kinematic tree while parts move: from tracked poses as they arrive.

Frames are kept when a part has moved beyond its noise, and now and then at rest, so that they are
far apart and few. Until a joint has shown its type it is `undecided`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from emppi_ros.articulation import topology, tracks
from emppi_ros.articulation.topology import KinematicTree, TreeJoint
from emppi_ros.articulation.tracks import Noise, Tracks
from emppi_ros.core import config
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.pose import to_rotation
from emppi_ros.recordings.signals import covariance_triangles

_MOVED = float(stats.chi2.ppf(0.95, 6))  # squares of two poses between which a part moved


@dataclass(frozen=True)
class OnlineArticulationConfig:
    """Settings of the inference from poses as they arrive."""

    position_sd_m: float = config.positive(
        0.002, doc='noise of positions per axis, of parts without covariances'
    )
    rotation_sd_deg: float = config.positive(1.0, doc='noise of rotations per axis, likewise')
    frames: int = config.between(
        20, 2000, 200, doc='frames that are kept: of more, every second one'
    )
    rest_s: float = config.positive(0.2, doc='time between two frames at rest')
    same_stamp_s: float = config.non_negative(
        0.005, doc='poses whose stamps differ less are of one frame'
    )

    @property
    def noise(self) -> Noise:
        """Noise of poses without covariances."""
        return Noise(self.position_sd_m, float(np.radians(self.rotation_sd_deg)))


class PoseFrame(NamedTuple):
    """Poses of some parts at one time."""

    time: float  # s
    poses: Mapping[str, Array]  # (7,), position [m] and quaternion wxyz
    # (6, 6), of the position [m] and of rotations about the axes of the world [rad]
    covariances: Mapping[str, Array]


class PoseHistory(NamedTuple):
    """What is known of the motion so far."""

    kept: tuple[PoseFrame, ...] = ()  # in the order of time
    open: PoseFrame | None = None  # the newest, to which poses of other parts may be added
    # parts, times and covariances that came before their poses
    waiting: tuple[tuple[str, float, Array], ...] = ()

    def has_covariances(self, part: str) -> bool:
        """Whether covariances of a part are known: its other frames have the nearest ones."""
        return any(part in frame.covariances for frame in self.kept)


class ArticulationProposal(NamedTuple):
    """A kinematic tree from the motion so far."""

    time: float  # of the last frame [s]
    tree: KinematicTree
    kinds: dict[str, str]  # types of joints by part; `undecided` also if the part has not moved
    evidence: dict[str, float]  # log odds [nats] of these against the next; NaN without a joint


def add(
    settings: OnlineArticulationConfig, history: PoseHistory, name: str, time: float, pose: Array
) -> PoseHistory:
    """Return the history with a pose (7,); late ones are left out, much older ones start anew."""
    last = history.open
    if last is None:
        history = history._replace(open=PoseFrame(time, {name: pose}, {}))
    elif abs(time - last.time) <= settings.same_stamp_s:
        history = history._replace(open=last._replace(poses={**last.poses, name: pose}))
    elif time < last.time:
        late = time > last.time - settings.rest_s
        return history if late else PoseHistory((), PoseFrame(time, {name: pose}, {}))
    else:
        kept = history.kept
        if not kept or _is_new(settings, kept[-1], last):
            kept = (*kept, last)
            if len(kept) > settings.frames:
                kept = kept[::2]
        history = PoseHistory(kept, PoseFrame(time, {name: pose}, {}), history.waiting)
    waiting, history = history.waiting, history._replace(waiting=())
    for item in waiting:
        history = _attach(settings, history, item)
    return history


def add_covariance(
    settings: OnlineArticulationConfig,
    history: PoseHistory,
    name: str,
    time: float,
    covariance: Array,
) -> PoseHistory:
    """
    Return the history with the covariance (6, 6) of the pose of the same stamp.

    It waits for a pose that has not come yet, and is left out if the frame was not kept. As in
    bags, only the upper triangle counts. IdentificationError unless it is positive definite.
    """
    triangle = covariance_triangles(covariance[None])
    (own,) = tracks.from_triangles(f'covariance/{name}', triangle)
    return _attach(settings, history, (name, time, own))


def propose(
    settings: OnlineArticulationConfig, history: PoseHistory, seed: int = 0
) -> ArticulationProposal | None:
    """Return the tree of the motion so far; None while there are too few frames."""
    given = as_tracks(settings, history)
    try:
        tree = topology.infer(given, seed)
    except IdentificationError:
        return None
    kinds = {one.child: one.kind.replace('static', 'undecided') for one in tree.joints}
    found = {joint.child: log_odds(tree, joint) for joint in tree.joints}
    return ArticulationProposal(float(given.time[-1]), tree, kinds, found)


def as_tracks(settings: OnlineArticulationConfig, history: PoseHistory) -> Tracks:
    """Return the kept frames as tracks of all parts that were seen often enough."""
    time = np.array([frame.time for frame in history.kept])
    names = dict.fromkeys(name for frame in history.kept for name in frame.poses)
    nothing = np.full(7, np.nan)
    parts = []
    for name in names:
        rows = np.array([frame.poses.get(name, nothing) for frame in history.kept])
        known = [(f.time, f.covariances[name]) for f in history.kept if name in f.covariances]
        covariance = None
        if known:
            stamps, own = map(np.array, zip(*known, strict=True))
            covariance = tracks.covariances_at_times(stamps, own, time)
        part = tracks.from_arrays(name, rows[:, :3], rows[:, 3:], covariance, settings.noise)
        if np.sum(part.seen) >= tracks.MIN_FRAMES:
            parts.append(part)
    return Tracks(time, tuple(parts))


def log_odds(tree: KinematicTree, joint: TreeJoint) -> float:
    """Return the log odds [nats] of the type of a joint against the next one."""
    edge = {joint.parent, joint.child}
    for pair in tree.pairs:
        if {pair.parent, pair.child} == edge and joint.candidates == pair.selection.candidates:
            fits = pair.selection.fits.items()
            possible = [fit for kind, fit in fits if not fit.reason or kind in joint.candidates]
            costs = sorted(fit.cost for fit in possible)
            return 0.5 * float(costs[1] - costs[0]) if len(costs) > 1 else float('inf')
    return float('nan')


def _attach(
    settings: OnlineArticulationConfig, history: PoseHistory, item: tuple[str, float, Array]
) -> PoseHistory:
    """Return the history with part, time and covariance in its frame, or among those that wait."""
    name, time, covariance = item
    frames = (*history.kept, history.open) if history.open is not None else history.kept
    for i, frame in reversed(list(enumerate(frames))):
        if frame.time < time - settings.same_stamp_s:
            break
        if frame.time <= time + settings.same_stamp_s and name in frame.poses:
            added = frame._replace(covariances={**frame.covariances, name: covariance})
            if frame is history.open:
                return history._replace(open=added)
            return history._replace(kept=(*history.kept[:i], added, *history.kept[i + 1 :]))
    if history.open is not None and time < history.open.time - settings.same_stamp_s:
        return history
    return history._replace(waiting=(*history.waiting, item)[-settings.frames :])


def _is_new(settings: OnlineArticulationConfig, before: PoseFrame, frame: PoseFrame) -> bool:
    """Return whether a part moved since a frame, or came into view, or enough time passed."""
    if frame.time - before.time >= settings.rest_s or set(frame.poses) - set(before.poses):
        return True
    usual = settings.noise.covariance()
    for name, second in frame.poses.items():
        first = before.poses[name]
        turn = to_rotation(second[3:]) * to_rotation(first[3:]).inv()
        shift = np.concatenate([second[:3] - first[:3], turn.as_rotvec()])
        noise = before.covariances.get(name, usual) + frame.covariances.get(name, usual)
        if shift @ np.linalg.solve(noise, shift) > _MOVED:
            return True
    return False

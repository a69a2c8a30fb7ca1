"""First poses of parts that stand on a table, and the pose of the camera above it."""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import PoseError
from emppi_ros.core.pose import Pose, Poses, to_quaternion
from emppi_ros.tracking import fitting, loss, tracker
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.fitting import FEWEST_PIXELS, Fit, FreeParts, TrackedParts
from emppi_ros.tracking.parts import PartsFile, prepare_parts
from emppi_ros.tracking.tracker import TRACKED

_PLANES, _DRAWS, _POINTS = 3, 300, 4000
_THICK = 0.008  # of a plane, relative to its distance
_CLUSTERS, _TURNS, _BETTER = 3, 8, 0.02
_ABOUT = 4.0  # radii of a part: the table about it
_MIDDLE, _HALF = 0.7, 0.5  # of the height of a part, about which its points are
_FALL = 0.2  # of its height, by which it stands higher or lower at most
_UPRIGHT = 0.97  # cosine of the tilt of a part that stands
_ENOUGH, _SURE = 0.6, 0.9  # shares of pixels: of a part that is found, and of which none is better


class Start(NamedTuple):
    """Where a camera is, the parts (B) in its first image, and what they explain of it."""

    camera: Camera
    poses: Poses
    share: float  # of pixels that are on the table


def find_start(file: PartsFile, view: Camera, image: Array) -> Start:
    """
    Return where parts stand in an image (h, w) [m], in any place and orientation about z.

    If the scene is not where the pose of the camera says, this follows from a plane, on which the
    first part stands: where the file says, so that the poses of all others and of the camera are
    relative to it. PoseError if a part is not found.
    """
    tracked = prepare_parts(file, view)
    image = tracked.prepare(-np.inf, 0.0, image, None)
    fits = loss.compare_background(tracked, image)[0] >= loss.FEW
    views = [view] if fits else _above_planes(tracked, file.start, image)
    starts = [_stand(file, camera, image) for camera in views]
    best = max(starts, key=lambda start: start.share)
    if not best.share:
        table = 'the table of the scene' if fits else f'any of the {len(views)} largest planes'
        raise PoseError(
            f'--init: not each part stands on {table} in the first image, with its tilt of --parts'
        )
    if fits:
        return best
    # the plane about the part: a table is not flat everywhere, and other things lie on it
    first = Poses(np.array(best.camera.position), best.camera.matrix)
    points = first.position + best.camera.rays() * image[..., None]
    far = np.linalg.norm(points - best.poses.position[0], axis=-1)
    local = np.where(far < _ABOUT * tracked.shapes[0].radius, image, np.nan)
    second = _above_planes(tracked, file.start, local)[0]
    camera = Poses(np.array(second.position), second.matrix)
    poses = camera @ first.inverse() @ best.poses
    (place, turn), (wanted, target) = poses.at(0), file.start.at(0)
    turned = target @ turn.T
    yaw = np.arctan2(turned[1, 0] - turned[0, 1], turned[0, 0] + turned[1, 1])
    about_z, flat = Rotation.from_euler('z', yaw).as_matrix(), np.array([1.0, 1.0, 0.0])
    moved = Poses(flat * wanted - about_z @ (flat * place), about_z)
    return Start(_at(view, moved @ camera), moved @ poses, best.share)


def _at(view: Camera, pose: Poses) -> Camera:
    return view.at(Pose(pose.position, to_quaternion(Rotation.from_matrix(pose.rotation))))


def _above_planes(tracked: TrackedParts, start: Poses, image: Array) -> list[Camera]:
    """Return cameras that see the largest planes of an image where the first part stands."""
    rng, view = np.random.default_rng(0), tracked.camera
    points = (view.rays() @ view.matrix * image[..., None]).reshape(-1, 3)  # of the camera
    points = points[np.isfinite(points).all(axis=1)]
    points = points[rng.permutation(len(points))[:_POINTS]]
    bottom = _heights(tracked, start)[0]
    views = list[Camera]()
    while len(views) < _PLANES and len(points) > FEWEST_PIXELS:
        near, thick = np.zeros(len(points), bool), _THICK * points[:, 2]
        for _ in range(_DRAWS):
            first, second, third = points[rng.choice(len(points), 3, replace=False)]
            normal = np.cross(second - first, third - first)
            inside = np.abs((points - first) @ normal) < thick * np.linalg.norm(normal)
            near = inside if inside.sum() > near.sum() else near
        middle = points[near].mean(axis=0)
        normal = np.linalg.svd(points[near] - middle, full_matrices=False)[2][2]
        normal *= -np.sign(normal @ middle)  # towards the camera
        turn = Rotation.align_vectors([[0.0, 0.0, 1.0]], [normal])[0].as_matrix()
        place = np.array([0.0, 0.0, bottom - normal @ middle])
        views.append(_at(view, Poses(place, turn)))
        points = points[~near]
    return views


def _heights(tracked: TrackedParts, poses: Poses) -> tuple[float, float]:
    """Return the heights of the bottom and the top of the first part [m]."""
    z = tracked.surfaces[0].points @ poses.rotation[0, 2] + poses.position[0, 2]
    return float(z.min()), float(z.max())


def _stand(file: PartsFile, view: Camera, image: Array) -> Start:
    """Return the parts on the table as a camera sees it; their share is 0 if one is missing."""
    rows = []
    for part, (name, body) in enumerate(zip(file.names, file.bodies, strict=True)):
        alone = file._replace(names=(name,), bodies=(body,), start=file.start.at([part]))
        tracked = prepare_parts(alone, view)
        seen = tracked.prepare(-np.inf, 0.0, image, None)
        rows.append(_search(tracked, alone.start, seen))
    places, turns, shares = zip(*rows, strict=True)
    return Start(view, Poses(np.concatenate(places), np.concatenate(turns)), min(shares))


def _search(tracked: TrackedParts, start: Poses, image: Array) -> tuple[Array, Array, float]:
    """Return the pose of a part, and the share of pixels that it explains; 0 if not found."""
    (bottom, top), best = _heights(tracked, start), 0.0
    z = (np.array(tracked.camera.position) + tracked.rays * image[..., None])[..., 2]
    is_high = np.abs((z - bottom) / (top - bottom) - _MIDDLE) < _HALF
    things = list(itertools.islice(tracker.clusters(tracked, is_high, image), _CLUSTERS))
    yaws = [[0.0, 0.0, 2.0 * np.pi * i / _TURNS] for i in range(_TURNS)]
    turns = Rotation.from_rotvec(yaws).as_matrix() @ start.rotation

    def find() -> Fit[FreeParts]:
        nonlocal best
        kept, best = fitting.fit(tracked, FreeParts(start), image), 0.0
        for thing, turn in itertools.product(things, turns):
            place = thing.centre - turn @ tracked.shapes[0].centre
            place[2] = start.position[0, 2]
            fitted = fitting.fit_widely(tracked, FreeParts(Poses(place[None], turn[None])), image)
            (position,), (rotation,) = poses = fitted.placement.poses
            share = tracker.score(tracked, poses, 0, thing, image)
            stands = (rotation @ start.rotation[0].T)[2, 2] > _UPRIGHT
            stands &= abs(position[2] - place[2]) < _FALL * (top - bottom)
            if stands and share > best + _BETTER:
                kept, best = fitted, share
            if best > _SURE:
                break
        return kept

    fitted, status = tracker.fit_with_noise(tracked, find, start)
    return *fitted.placement.poses, best if status[0] == TRACKED and best > _ENOUGH else 0.0

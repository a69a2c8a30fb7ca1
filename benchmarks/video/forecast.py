"""
Forecasts of a new film of the same mechanism: ten images are seen, and 150 are forecast.

The parts are tracked in the first images. The state that explains these best starts a simulation
of the inferred mechanism, which gets the recorded forces. Its motion is rendered as the film is,
and compared with images of the true motion without noise.
"""

from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from benchmarks.filmed_parts import FilmedParts
from benchmarks.video import films, pipeline
from benchmarks.video.baselines import load_library
from benchmarks.video.films import CAMERA, RATE_HZ, Film
from emppi_ros.articulation import fitting, joint_models, mjcf, tracks
from emppi_ros.articulation.topology import WORLD, KinematicTree
from emppi_ros.articulation.tracks import Tracks
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting.windows import fit_starts, simulate
from emppi_ros.model import scene
from emppi_ros.recordings.motion import Motion
from emppi_ros.tracking import renderer

SEEN, AHEAD = 10, 150  # images
_TAKE = 1  # of the new film; parameters are learned from take 0
_SD_M, _SD_RAD = 0.001, 0.005  # of joint positions, in the fit to the first images


@dataclass(frozen=True)
class ImageErrors:
    """Mean squared and absolute errors and structural similarity of depths scaled to 0 to 1."""

    mse: float
    mae: float
    ssim: float


class ForecastProblem(NamedTuple):
    """What was seen of a new film, and what followed."""

    film: Film
    positions: dict[str, Array]  # joint -> positions (SEEN,) in the first images
    parts: FilmedParts  # to be rendered
    depths: Array  # (AHEAD, h, w): true depths of the later images [m]


def prepare(film: Film, tree: KinematicTree, seed: int) -> ForecastProblem:
    """Make another film of the mechanism in a film, and track its first images."""
    new = films.make(film.mechanism, seed, _TAKE, (SEEN + AHEAD) / RATE_HZ)
    seen = joint_positions(tree, pipeline.follow(new.first(SEEN)).tracks)
    parts = FilmedParts(film.mechanism.load(visual=True), film.mechanism.parts, CAMERA)
    depths = np.array([parts.depth(poses) for poses in new.poses[SEEN : SEEN + AHEAD]])
    return ForecastProblem(new, seen, parts, depths)


def joint_positions(tree: KinematicTree, given: Tracks) -> dict[str, Array]:
    """Return the positions (T,) of the joints of a tree in other tracks of its parts."""
    nodes = {part.name: part for part in given.parts} | {WORLD: tracks.world(len(given.time))}
    positions = {}
    for joint in tree.joints:
        poses, covariance, frames = tracks.pair(nodes[joint.parent], nodes[joint.child])
        assert joint.model is not None
        q, _ = joint_models.fit_positions(joint.model, fitting.observe(poses, covariance))
        for column, (name, unit) in enumerate(mjcf.joint_names(joint)):
            values = np.unwrap(q[:, column]) if unit == 'rad' else q[:, column]
            positions[name] = np.interp(given.time, given.time[frames], values)
    return positions


def forecast(problem: ForecastProblem, plant: Plant, theta: Array) -> Array:
    """
    Return the joint positions (n, nq) of the later images with parameters (P,).

    IdentificationError if the simulation diverges.
    """
    motion, rows = _motion(problem, plant)
    slides = plant.model.jnt_type == mujoco.mjtJoint.mjJNT_SLIDE.value
    scale = np.where(slides, _SD_M, _SD_RAD)
    begin, seen, last = np.zeros(1, int), rows[SEEN - 1], rows[-1]
    fit = fit_starts(plant, theta[None], scale, motion, begin, seen, threads=1)
    if fit is not None:
        steps = np.arange(last)[None]
        states, diverged = simulate(plant, theta[None], motion, steps, fit[0], threads=1)
        if not diverged.any():
            # the first are those after a step
            return np.asarray(states[0, 0, rows[SEEN:] - 1, : plant.model.nq])
    raise IdentificationError('the forecast diverges')


def at_rest(problem: ForecastProblem, plant: Plant) -> Array:
    """Return joint positions (n, nq) as in the last image that was seen."""
    motion, rows = _motion(problem, plant)
    return np.tile(motion.qpos[rows[SEEN - 1]], (AHEAD, 1))


def _motion(problem: ForecastProblem, plant: Plant) -> tuple[Motion, npt.NDArray[np.int_]]:
    """Return the motion that was seen, at each step of the film, and the steps of the images."""
    film, model = problem.film, plant.model
    rows = np.round(film.time / model.opt.timestep).astype(int)
    qpos = np.empty((len(film.clock), model.nq))
    weights = np.zeros((len(film.clock), model.nv))
    weights[rows[:SEEN]] = 1.0
    for name, values in problem.positions.items():
        address = model.joint(name).qposadr[0]
        qpos[:, address] = np.interp(film.clock, film.time[:SEEN], values)
    return Motion(qpos, weights, film.force, np.zeros_like(weights)), rows


def compare(problem: ForecastProblem, plant: Plant, qpos: Array) -> ImageErrors:
    """Return the errors of images of the inferred mechanism at joint positions (n, nq)."""
    similarity = load_library('skimage.metrics').structural_similarity
    bodies = [scene.find(plant.model, 'body', part) for part in problem.film.mechanism.parts]
    near, far = float(problem.depths.min()), float(problem.depths.max())
    rows = []
    for row, depth in zip(qpos, problem.depths, strict=True):
        poses = renderer.body_poses(scene.kinematics(plant.model, row), bodies)
        seen, true = (
            (np.clip(depths, near, far) - near) / (far - near)
            for depths in (problem.parts.depth(poses), depth)
        )
        error = seen - true
        rows.append(
            (np.mean(error**2), np.mean(np.abs(error)), similarity(seen, true, data_range=1.0))
        )
    return ImageErrors(*np.mean(rows, axis=0).tolist())

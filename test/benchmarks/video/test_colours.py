"""Rott's mechanism is tracked in a film without depths, and its tree is right."""

import dataclasses

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks.video import films, pipeline
from benchmarks.video.mechanisms import MECHANISMS
from emppi_ros.articulation import tracks
from emppi_ros.model import scene
from emppi_ros.pipeline.mechanism import articulate
from emppi_ros.tracking import camera, renderer
from emppi_ros.tracking.fitting import TrackerConfig
from emppi_ros.tracking.parts import PartsFile
from emppi_ros.tracking.planar_tracker import PlanarTracker
from emppi_ros.tracking.silhouettes import PartMark

WIDTH, HEIGHT, COUNT, RATE_HZ = 200, 150, 30, 15.0
COLORS = np.array([[60.0, 90.0, 210.0], [210.0, 60.0, 50.0]])
FLAT = [0, 2, 4]  # coordinates in the plane: x, z, and rotation about y
NOISE = 8.0  # of 255


def swing(mechanism, seed):
    """Return the poses of the parts while the mechanism swings from a random start."""
    model, rng = mechanism.load(visual=True), np.random.default_rng(seed)
    films.set_truth(model, mechanism, films.draw_truth(mechanism, seed))
    data = mujoco.MjData(model)
    data.qpos[:] = rng.uniform(*mechanism.start)
    bodies = [scene.find(model, 'body', part) for part in mechanism.parts]
    poses = []
    while len(poses) < COUNT:
        if data.time >= len(poses) / RATE_HZ - 1e-9:
            mujoco.mj_kinematics(model, data)
            poses.append(renderer.body_poses(data, bodies))
        mujoco.mj_step(model, data)
    return model, bodies, poses


def paint(model, bodies, view, poses, rng):
    """Yield shaded colours, of four rays for each pixel, with noise."""
    fine = dataclasses.replace(
        view, width=2 * WIDTH, height=2 * HEIGHT, fx=2 * view.fx, fy=2 * view.fy,
        cx=2 * view.cx + 0.5, cy=2 * view.cy + 0.5,
    )  # fmt: skip
    drawn, light = renderer.PartRenderer(model, bodies, fine), rng.normal(size=3)
    light /= np.linalg.norm(light)
    wall = rng.uniform(110.0, 180.0)
    for one in poses:
        drawn.place(one)
        window = drawn.window(2)
        seen = drawn.render(window)
        shade = 0.65 + 0.35 * seen.normal @ light
        image = np.full((2 * HEIGHT, 2 * WIDTH, 3), wall)
        own = shade[..., None] * COLORS[seen.part]
        image[window.slices] = np.where(seen.part[..., None] >= 0, own, wall)
        image = image.reshape(HEIGHT, 2, WIDTH, 2, 3).mean(axis=(1, 3))
        image += NOISE * rng.normal(size=image.shape)
        yield np.clip(np.round(image), 0, 255).astype(np.uint8)


@pytest.mark.slow
def test_a_film_in_colours_shows_poses_and_the_tree_of_rotts_mechanism():
    mechanism, seed = MECHANISMS['rott'], 31
    model, bodies, poses = swing(mechanism, seed)
    view, names = camera.from_model(model, 'depth', WIDTH, HEIGHT), mechanism.parts
    start = renderer.body_poses(scene.kinematics(model, model.qpos0), bodies)  # not the first one
    marks = tuple(PartMark(tuple(color)) for color in COLORS)
    file = PartsFile(
        names, model, tuple(bodies), start, TrackerConfig(), 'scene', (0.0, 1.0, 0.0), marks
    )
    tracker, time = PlanarTracker(file, view), np.arange(COUNT) / RATE_HZ
    images = paint(model, bodies, view, poses, np.random.default_rng([seed, 1]))
    found = [tracker.track(*one) for one in zip(time.tolist(), images, strict=True)]
    assert all(one.status == 'tracked' for both in found for one in both)
    squares, apart = [], []
    for estimates, true in zip(found, poses, strict=True):
        for part, one in enumerate(estimates):
            place, turn = true.at(part)
            if part == 1 and (one.rotation @ turn.T)[2, 2] < 0.0:  # a rod looks the same both ways
                place, turn = place + turn @ [0.0, 0.0, -0.2], turn @ np.diag([-1.0, 1.0, -1.0])
            angle = Rotation.from_matrix(one.rotation @ turn.T).as_rotvec()
            error = np.concatenate([one.position - place, angle])[FLAT]
            squares.append(error @ np.linalg.solve(one.covariance[np.ix_(FLAT, FLAT)], error) / 3)
            apart.append(error)
    # half of a pixel of 9 mm, and the angle that this is at the end of a rod of 0.2 m
    assert np.all(np.quantile(np.abs(apart), 0.95, axis=0) < [0.0045, 0.0045, 0.0225])
    assert np.mean(squares) < 1.0  # errors are not larger than covariances say
    tree = articulate(tracks.from_estimates(names, time, found), seed=seed)
    assert pipeline.is_right(tree, mechanism)

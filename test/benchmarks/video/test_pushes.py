"""An arm pushes levers on a table, and images show no masses."""

import dataclasses
import statistics

import mujoco
import numpy as np
import pytest

from benchmarks.studies.video import VideoStudy
from benchmarks.video import films, pushes
from benchmarks.video.compute import TREE
from benchmarks.video.mechanisms import MECHANISMS
from emppi_ros.tracking import camera
from emppi_ros.tracking.renderer import SceneRenderer

LEVERS = MECHANISMS['pushed']


def test_levers_lie_still_until_the_rod_touches_them() -> None:
    levers, _ = pushes._draw(LEVERS, 7)
    start, moved, touched = levers.data.xpos[levers.parts].copy(), 0.0, False
    rod = levers.model.geom(f'{pushes.ROBOT}gripper').id
    for aim in levers.aims(1.5, np.random.default_rng(7)):
        levers.act(aim)
        contacts = levers.data.contact.geom
        touched = touched or bool(np.any(contacts == rod))
        apart = np.linalg.norm(levers.data.xpos[levers.parts] - start, axis=1).max()
        if not touched:
            moved = max(moved, float(apart))
    # contacts give way by less than a millimetre as the levers settle
    assert touched and moved < 1e-3 and apart > 0.01
    tilted = levers.data.site(f'{pushes.ROBOT}gripper').xmat.reshape(3, 3)[:, 2]
    assert tilted[2] < -0.99


def test_the_arm_is_taken_out_of_images_and_levers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    size = dataclasses.replace(films.CAMERA, width=64, height=48)
    monkeypatch.setattr(films, 'CAMERA', size)
    film = pushes.make(LEVERS, 7, seconds=0.5)
    assert len(film.images) == len(film.time) == 15 and not film.force.size
    model = LEVERS.load(visual=True)
    alone = SceneRenderer(model, camera.from_model(model, 'depth', 64, 48))
    data = mujoco.MjData(model)
    data.qpos[:3] = 0.0, 0.0, -5.0  # below the table, which hides it
    mujoco.mj_kinematics(model, data)
    table = alone.render(data)
    raw, kept = film.images[-1], pushes.without_arm(film).images[-1]
    arm = raw < table - 0.35  # higher above the table than levers, wherever it is
    assert arm.sum() > 10 and np.isnan(kept[arm]).all()
    lever = (raw < table - 0.02) & np.isfinite(kept)
    assert lever.sum() > 10


@pytest.mark.slow
def test_no_image_shows_the_scale_of_all_masses_and_dampings() -> None:
    films = [pushes.doubled(LEVERS, seed, seconds=2.5) for seed in range(8, 13)]
    # medians, since contacts amplify the rounding errors of one processor or another to
    # millimetres in some films; in the others they are far below the 0.4 mm that tracks err
    apart = {name: statistics.median(film[name] for film in films) for name in films[0]}
    assert apart.pop('all masses and dampings') < 0.01
    assert min(apart.values()) > 1.0


def test_films_without_forces_have_trees_only() -> None:
    study = VideoStudy()
    cells = study.cells(study.select()).cells
    assert all((cell.method == TREE) == MECHANISMS[cell.mechanism].pushed for cell in cells)
    assert len({cell.seed for cell in cells if cell.method == TREE}) == 10

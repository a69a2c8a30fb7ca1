"""Films are simulations of their truth, and inferred mechanisms move as they do."""

import dataclasses
import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from emppi_ros.articulation.rigid_motion import Poses
from emppi_ros.articulation.tracks import PartTrack, Tracks
from emppi_ros.bench.video import compute, control, films, pipeline
from emppi_ros.bench.video.compute import ParameterResult, VideoCell, VideoRow
from emppi_ros.bench.video.films import PARTS, Film
from emppi_ros.bench.video.pipeline import Followed
from emppi_ros.cli import main
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.model import scene


@pytest.fixture(scope='module')
def film() -> Film:
    """Return a short film with small images."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(films, 'CAMERA', dataclasses.replace(films.CAMERA, width=32, height=24))
        patch.setattr(films, 'SECONDS', 4.0)
        return films.make(7)


def exact(film: Film) -> Followed:
    """Return the true poses as tracks with 0.1 mm and 0.1 mrad."""
    count = len(film.time)
    parts = [
        PartTrack(
            name,
            Poses(
                np.array([pose.rotation[i] for pose in film.poses]),
                np.array([pose.position[i] for pose in film.poses]),
            ),
            np.tile(1e-8 * np.eye(6), (count, 1, 1)),
            np.ones(count, bool),
        )
        for i, name in enumerate(PARTS)
    ]
    return Followed(Tracks(film.time, tuple(parts)), np.zeros((count, len(PARTS))))


def test_a_film_is_the_simulation_of_its_truth_and_its_force(film: Film) -> None:
    model = scene.load_scene(paths.ASSETS / films.FILE, visual=True)
    ranges = films.bounds(model)
    for name, value in film.truth.items():
        assert ranges[name][0] < value < ranges[name][1]
    films._set(model, film.truth)
    data = mujoco.MjData(model)
    first = film.poses[0]
    data.qpos[0] = first.position[0, 0]
    data.qpos[1] = np.arctan2(first.rotation[1, 0, 2], first.rotation[1, 0, 0])
    seen = iter(zip(film.time, film.poses, strict=True))
    next(seen)
    when, pose = next(seen)
    for force in film.force:
        if data.time >= when - 1e-9:
            moved = scene.kinematics(model, data.qpos)
            np.testing.assert_allclose(moved.body('pole').xpos, pose.position[1], atol=1e-6)
            if (later := next(seen, None)) is None:
                break
            when, pose = later
        data.ctrl[0] = force
        mujoco.mj_step(model, data)
    assert next(seen, None) is None
    image = film.images[0]
    assert image.shape == (24, 32)
    # the wall is behind the parts, which are about 1.6 m away; small images are mostly edges
    depths = image[np.isfinite(image)]
    assert len(depths) > 50 and 1.0 < depths.min() and depths.max() < 6.0


def test_the_inferred_mechanism_moves_as_the_true_one(film: Film, tmp_path: Path) -> None:
    mechanism = pipeline.infer_mechanism(exact(film), film, 0, tmp_path)
    angle, pivot = pipeline.geometry_errors(mechanism.tree)
    assert angle < 0.01 and pivot < 0.1
    model = mechanism.plant.at(np.array([film.truth[u.name] for u in mechanism.plant.unknowns]))
    assert [u.name for u in mechanism.plant.unknowns] == sorted(film.truth)
    data = mujoco.MjData(model)
    first = [mechanism.recording.signals['position', part] for part in PARTS]
    data.qpos[:] = [one.values[0] for one in first]
    errors = []
    for clock, force in zip(film.clock, film.force, strict=True):
        if clock > 1.0:
            break
        expected = [np.interp(clock, one.time, one.values) for one in first]
        errors.append(data.qpos - expected)
        data.ctrl[0] = force
        mujoco.mj_step(model, data)
    # positions between images are interpolated: curvature of 100 rad/s^2 over 33 ms
    assert np.max(np.abs(errors)) < 100.0 * (1.0 / 30.0) ** 2 / 8.0


def test_the_inferred_mechanism_is_upright_where_the_true_one_is(
    film: Film, tmp_path: Path
) -> None:
    mechanism = pipeline.infer_mechanism(exact(film), film, 0, tmp_path)
    rest = control.upright(mechanism.plant.model)
    data = mujoco.MjData(mechanism.plant.model)
    data.qpos[:] = rest
    mujoco.mj_forward(mechanism.plant.model, data)
    pole = data.body('pole').xipos - data.joint('pole').xanchor
    assert pole[2] == pytest.approx(np.linalg.norm(pole), rel=1e-6)
    assert data.body('cart').xpos[0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
def test_a_swing_up_with_the_truth_is_rewarded(film: Film, tmp_path: Path) -> None:
    mechanism = pipeline.infer_mechanism(exact(film), film, 0, tmp_path)
    # hanging down all the time gives 0, upright after half of the time 0.5
    assert control.reward(mechanism, film.truth, None, 0, tmp_path) > 0.5


def test_a_wrong_tree_is_refused(film: Film, tmp_path: Path) -> None:
    followed = exact(film)
    cart, pole = followed.tracks.parts
    still = Poses(np.tile(np.eye(3), (len(film.time), 1, 1)), np.zeros((len(film.time), 3)))
    tracks = dataclasses.replace(
        followed.tracks, parts=(dataclasses.replace(cart, poses=still), pole)
    )
    with pytest.raises(IdentificationError, match='the inferred tree is wrong: .*cart'):
        pipeline.infer_mechanism(followed._replace(tracks=tracks), film, 0, tmp_path)


def test_errors_are_relative_and_intervals_hold_the_truth() -> None:
    inside, outside = ParameterResult(1.1, 0.9, 1.2, 1.0), ParameterResult(2.2, 2.1, 2.3, 2.0)
    assert inside.inside and not outside.inside
    row = VideoRow(
        'shooting', 0, '', '', 0.1, 0.1, 1.0, {'a': inside, 'b': outside}, (), (), 1.0, ''
    )
    assert row.error == pytest.approx(0.1)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--methods: unknown method 'adam'"):
        compute.make_cells(['adam'], [0], quick=False)


def test_the_command_writes_a_report_of_stored_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def made(cell: VideoCell) -> VideoRow:
        good = ParameterResult(1.0, 0.9, 1.2, 1.01)
        parameters = dict.fromkeys(('cart_mass', 'pole_mass'), good)
        return VideoRow(
            cell.method,
            cell.seed,
            cell.digest,
            '',
            0.1,
            0.2,
            1.5,
            parameters,
            (0.9,),
            (1.0,),
            1.0,
            'here',
        )

    monkeypatch.setattr('emppi_ros.cli.bench_video.compute', made)
    command = ['bench', 'video', '--methods', 'shooting', '--jobs', '1', '--out', str(tmp_path)]
    assert main([*command, '--json']) == 0
    assert len(json.loads(capsys.readouterr().out)['rows']) == len(compute.SEEDS)
    text = (tmp_path / 'results.md').read_text()
    assert '| `shooting` | 5 | 0.010 (0.010 to 0.010) |' in text
    assert '| 100 | 1.5 | 0.1 | 0.2 |' in text
    assert '- `shooting`: -0.10 (-0.10 to -0.10)' in text

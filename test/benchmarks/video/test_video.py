"""Films are simulations of their truth, and inferred mechanisms move as they do."""

import dataclasses
import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from benchmarks.studies.video import VideoStudy
from benchmarks.video import compute, control, films, forecast, image_refinement, pipeline
from benchmarks.video.compute import OWN, REST, TRUTH, ParameterResult, VideoCell, VideoRow
from benchmarks.video.films import Film
from benchmarks.video.forecast import ForecastProblem, ImageErrors
from benchmarks.video.mechanisms import MECHANISMS, unknowns
from benchmarks.video.pipeline import Followed, InferredMechanism
from emppi_ros.articulation.tracks import PartTrack, Tracks
from emppi_ros.cli import main
from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.core.pose import Poses
from emppi_ros.model import scene


def exact(film: Film) -> Followed:
    """Return the true poses as tracks with 0.1 mm and 0.1 mrad."""
    count = len(film.time)
    parts = [
        PartTrack(
            name,
            Poses(
                np.array([pose.position[i] for pose in film.poses]),
                np.array([pose.rotation[i] for pose in film.poses]),
            ),
            np.tile(1e-8 * np.eye(6), (count, 1, 1)),
            np.ones(count, bool),
        )
        for i, name in enumerate(film.mechanism.parts)
    ]
    return Followed(Tracks(film.time, tuple(parts)), np.zeros((count, len(parts))))


WITH_FORCES = [name for name, one in MECHANISMS.items() if not one.pushed]


@pytest.fixture(scope='module', params=WITH_FORCES)
def found(request: pytest.FixtureRequest, tmp_path_factory) -> tuple[Film, InferredMechanism]:
    """Return a short film with small images, and the mechanism inferred from its true poses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(films, 'CAMERA', dataclasses.replace(films.CAMERA, width=32, height=24))
        film = films.make(MECHANISMS[request.param], 7, seconds=4.0)
    tree = pipeline.infer_tree(exact(film), film, 0)
    return film, pipeline.write_mechanism(tree, film, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope='module')
def problem(found) -> ForecastProblem:
    """Return what is known of the same film, as if it were a new one."""
    film, mechanism = found
    parts = forecast.FilmedParts(
        film.mechanism.load(visual=True),
        film.mechanism.parts,
        dataclasses.replace(films.CAMERA, width=32, height=24),
    )
    seen = forecast.joint_positions(mechanism.tree, exact(film.first(forecast.SEEN)).tracks)
    depths = np.array([parts.depth(poses) for poses in film.poses[forecast.SEEN :]])
    return ForecastProblem(film, seen, parts, depths)


def only(name: str) -> pytest.MarkDecorator:
    """Run a test with one of the mechanisms."""
    return pytest.mark.parametrize('found', [name], indirect=True, scope='module')


@pytest.mark.slow
def test_a_film_is_the_simulation_of_its_truth_and_its_forces(found) -> None:
    film, _ = found
    model = film.mechanism.load(visual=True)
    for name, one in unknowns(film.mechanism).items():
        assert one.lower < film.truth[name] < one.upper
    films.set_truth(model, film.mechanism, film.truth)
    data = mujoco.MjData(model)
    data.qpos[:] = np.random.default_rng([7, 0]).uniform(*film.mechanism.start)
    last = film.mechanism.parts[-1]
    seen = iter(zip(film.time, film.poses, strict=True))
    when, pose = next(seen)
    for force in film.force:
        if data.time >= when - 1e-9:
            moved = scene.kinematics(model, data.qpos)
            np.testing.assert_allclose(moved.body(last).xpos, pose.position[-1], atol=1e-6)
            if (later := next(seen, None)) is None:
                break
            when, pose = later
        data.ctrl[:] = force
        mujoco.mj_step(model, data)
    assert next(seen, None) is None
    image = film.images[0]
    assert image.shape == (24, 32)
    # the background is behind the parts, about 1.5 m away; small images are mostly edges
    depths = image[np.isfinite(image)]
    assert len(depths) > 50 and 0.7 < depths.min() and depths.max() < 6.0


def test_the_inferred_mechanism_moves_as_the_true_one(found) -> None:
    film, mechanism = found
    angle, pivot = pipeline.geometry_errors(mechanism.tree, film.mechanism)
    assert angle < 0.02 and pivot < 0.1
    assert sorted(u.name for u in mechanism.plant.unknowns) == sorted(film.truth)
    model = mechanism.plant.at(np.array([film.truth[u.name] for u in mechanism.plant.unknowns]))
    joints = scene.names(model, 'joint')
    signals = [mechanism.recording.signals['position', name] for name in joints]
    data = mujoco.MjData(model)
    data.qpos[:] = [one.values[0] for one in signals]
    errors = []
    for clock, force in zip(film.clock, film.force, strict=True):
        if clock > 1.0:
            break
        errors.append(data.qpos - [np.interp(clock, one.time, one.values) for one in signals])
        data.ctrl[:] = force
        mujoco.mj_step(model, data)
    # positions between images are interpolated: curvature of 200 rad/s^2 over 33 ms
    assert np.max(np.abs(errors)) < 200.0 * (1.0 / 30.0) ** 2 / 8.0


@only('craftsman')
def test_a_planar_joint_may_hold_another_part(found) -> None:
    tree, mechanism = found[1].tree, found[0].mechanism
    base, middle, end = (tree.joint(part) for part in mechanism.parts)
    moved = dataclasses.replace(base, child='middle')
    turned = dataclasses.replace(middle, parent='middle', child='base')
    other = dataclasses.replace(tree, joints=(moved, turned, end))
    assert pipeline.is_right(tree, mechanism) and pipeline.is_right(other, mechanism)
    loose = dataclasses.replace(turned, kind='prismatic')
    assert not pipeline.is_right(dataclasses.replace(tree, joints=(moved, loose, end)), mechanism)


def test_a_forecast_with_the_truth_sees_what_happened(found, problem: ForecastProblem) -> None:
    film, mechanism = found
    plant, ahead = mechanism.plant, len(film.images) - forecast.SEEN
    theta = np.array([film.truth[u.name] for u in plant.unknowns])
    qpos = forecast.forecast(problem, plant, theta)
    assert qpos.shape == (ahead, plant.model.nq)
    joints = scene.names(plant.model, 'joint')
    true = np.array([mechanism.recording.signals['position', j].values[forecast.SEEN :]
                     for j in joints]).T  # fmt: skip
    rest = forecast.at_rest(problem, plant)[:ahead]
    # tracks are exact to 0.1 mm and 0.1 mrad, and 3.7 s later
    assert np.max(np.abs(qpos - true)) < 0.05 * np.max(np.abs(rest - true))
    pytest.importorskip('skimage')
    good, none = (forecast.compare(problem, plant, one) for one in (qpos, rest))
    assert good.mse < 0.1 * none.mse and good.mae < 0.2 * none.mae and good.ssim > none.ssim


@only('cartpole')
def test_the_inferred_mechanism_is_upright_where_the_true_one_is(found) -> None:
    _, mechanism = found
    rest = control.upright(mechanism.plant.model)
    data = mujoco.MjData(mechanism.plant.model)
    data.qpos[:] = rest
    mujoco.mj_forward(mechanism.plant.model, data)
    pole = data.body('pole').xipos - data.joint('pole').xanchor
    assert pole[2] == pytest.approx(np.linalg.norm(pole), rel=1e-6)
    assert data.body('cart').xpos[0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
@only('cartpole')
def test_a_swing_up_with_the_truth_is_rewarded(found, tmp_path: Path) -> None:
    film, mechanism = found
    mechanism = pipeline.write_mechanism(mechanism.tree, film, tmp_path)
    # hanging down all the time gives 0, upright after half of the time 0.5
    assert control.reward('swing-up', mechanism, film, None, 0, tmp_path) > 0.5


@pytest.mark.slow
def test_images_bring_wrong_parameters_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    size = dataclasses.replace(films.CAMERA, width=160, height=120)
    monkeypatch.setattr(films, 'CAMERA', size)
    film = films.make(MECHANISMS['cartpole'], 7, seconds=4.0)
    tree = pipeline.infer_tree(exact(film), film, 0)
    mechanism = pipeline.write_mechanism(tree, film, tmp_path)
    motion, fitted = compute.fit_windows(mechanism)
    true = np.array([film.truth[one.name] for one in mechanism.plant.unknowns])
    wrong = fitted._replace(theta=true * 1.1)
    samples = image_refinement.refine(mechanism, film, motion, wrong, 0)
    errors, sd = np.median(samples, axis=0) / true - 1.0, samples.std(axis=0) / true
    assert np.all(np.abs(errors) < 4.0 * sd + 0.005)
    known = [one.name for one in mechanism.plant.unknowns].index('cart_mass')
    assert sd[known] < 0.01 and abs(errors[known]) < 0.02  # it was 10 % off


@only('cartpole')
def test_a_wrong_tree_is_refused(found) -> None:
    film = found[0].first(30)
    followed = exact(film)
    cart, pole = followed.tracks.parts
    still = Poses(np.zeros((len(film.time), 3)), np.tile(np.eye(3), (len(film.time), 1, 1)))
    tracks = dataclasses.replace(
        followed.tracks, parts=(dataclasses.replace(cart, poses=still), pole)
    )
    with pytest.raises(IdentificationError, match='the inferred tree is wrong: .*cart'):
        pipeline.infer_tree(followed._replace(tracks=tracks), film, 0)


def test_errors_are_relative_and_intervals_hold_the_truth() -> None:
    inside, outside = ParameterResult(1.1, 0.9, 1.2, 1.0), ParameterResult(2.2, 2.1, 2.3, 2.0)
    assert inside.inside and not outside.inside
    row = VideoRow('rott', OWN, 0, digest='', parameters={'a': inside, 'b': outside})
    assert row.error == pytest.approx(0.1)


def test_an_unknown_mechanism_or_method_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--methods: unknown method 'adam'"):
        VideoStudy().select(methods=['adam'])
    with pytest.raises(ConfigError, match=r"--mechanisms: unknown mechanism 'rot'"):
        VideoStudy().select(mechanisms=['rot'])


def test_films_that_are_not_whole_are_for_intervals_only() -> None:
    study = VideoStudy()
    chosen = study.select(mechanisms=['rott'], methods=[OWN, 'emcee'])
    cells = study.cells(chosen).cells
    assert {cell.seed for cell in cells if cell.method == OWN} == set(compute.SEEDS)
    assert {cell.seed for cell in cells if cell.method == 'emcee'} == set(compute.WHOLE)
    assert {cell.seed for cell in cells if cell.is_whole} == set(compute.WHOLE)
    given = study.cells(study.select([109, 200], mechanisms=['rott'], methods=['emcee'])).cells
    assert [cell.is_whole for cell in given] == [False, True]


def test_the_command_writes_a_report_of_stored_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def made(cell: VideoCell) -> VideoRow:
        good = ParameterResult(1.0, 0.9, 1.2, 1.01)
        names = unknowns(MECHANISMS[cell.mechanism])
        errors = ImageErrors(1e-4, 1e-3, 0.99)
        own, swings = cell.method == OWN, cell.mechanism == 'cartpole'
        return VideoRow(
            **cell.identity,
            digest=cell.digest,
            axis_deg=0.1,
            pivot_mm=0.2,
            track_p95_mm=1.5,
            parameters=dict.fromkeys(names, good),
            forecast=dict.fromkeys((cell.method, TRUTH, REST) if own else (cell.method,), errors),
            rewards={'swing-up': (0.9,), 'balancing': (0.5,)} if swings else {},
            rewards_with_truth={'swing-up': (1.0,), 'balancing': (0.5,)} if swings and own else {},
        )

    monkeypatch.setattr(VideoStudy, 'compute', staticmethod(made))
    command = ['bench', 'video', '--methods', 'shooting', 'Adam', '--seeds', '100-101']
    command += ['--jobs', '1', '--out', str(tmp_path)]
    assert main([*command, '--json']) == 0
    count = 2 * len(WITH_FORCES) * 2
    assert len(json.loads(capsys.readouterr().out)['rows']) == count
    assert main([*command, '--so-far']) == 0  # rows are read as they were written
    text = (tmp_path / 'results.md').read_text()
    assert '| `shooting` | 2 | 0.010 (0.010 to 0.010) |' in text
    assert '| rott | 2 | 2 of 2 | 1.5 | 0.1 | 0.2 |' in text
    assert '| no motion | 2 | 0.0001 (0.0001 to 0.0001) |' in text
    assert (
        '| swing-up: reward | at least 95 % of that with the truth | -10 %, difference -0.10 ('
        in text
    )
    assert (
        'true values in 90 % intervals | 80 to 97 % | 6/6 (61 %-100 %) | **no**, but too few'
        in text
    )
    assert 'all: true values in 90 % intervals | 80 to 97 % | 24/24 (' in text

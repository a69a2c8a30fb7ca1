"""Plots and videos of a short run; without a renderer, one line names the packages to install."""

import dataclasses
import importlib
import json
from pathlib import Path
import shutil
from typing import Any

import imageio.v2 as imageio
import mujoco
import numpy as np
import pytest

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.cli import main
from emppi_ros.core.pose import Pose
from emppi_ros.model.parameters import with_parameters
from emppi_ros.priors.particles import Belief
from emppi_ros.state.estimator import Estimator
from emppi_ros.tasks.task import Task, load_task
from emppi_ros.viz import renderer as rendering
from emppi_ros.viz.palette import GREEN, RED
from emppi_ros.viz.report import plots, recording, video
from emppi_ros.viz.report.recording import RunRecord
from emppi_ros.viz.shapes.joint_axes import uncertain_objects


@pytest.fixture(scope='module', params=['panda_push', 'cartpole_swingup'])
def run(request: pytest.FixtureRequest) -> tuple[Task, RunRecord]:
    task = load_task(request.param)
    return task, recording.of_trace(ClosedLoop(task, 0).run(0.3))


def test_a_record_has_one_row_per_time(run: tuple[Task, RunRecord]) -> None:
    task, record = run
    assert record.qpos.shape == (len(record.times), task.model.nq)
    assert record.error.shape == record.times.shape
    count = len(record.belief_times)
    assert count > 0
    assert record.belief_theta.shape == (count, task.belief.particles, len(task.parameters))
    # rounding of a sum of a hundred terms
    np.testing.assert_allclose(record.belief_weights.sum(axis=1), 1.0, atol=1e-12)
    assert record.ess.shape == (count,)


@pytest.mark.slow
def test_plots_are_written(run: tuple[Task, RunRecord], tmp_path: Path) -> None:
    written = plots.write_all(*run, tmp_path)
    assert [path.name for path in written] == ['belief.png', 'motion.png', 'latency.png']
    for path in written:
        picture = imageio.imread(path)
        assert picture.shape[0] > 300 and picture[..., :3].std() > 5.0  # not blank


@pytest.mark.slow
def test_plots_of_a_run_without_any_belief_are_written(tmp_path: Path) -> None:
    task = load_task('panda_push')
    record = recording.of_trace(ClosedLoop(task, 0, 'no-update').run(0.2))
    assert len(record.belief_times) == 0
    assert len(plots.write_all(task, record, tmp_path)) == 3


@pytest.mark.slow
@pytest.mark.usefixtures('renderer')
@pytest.mark.parametrize(
    ('run', 'name'), [('panda_push', 'a.mp4'), ('cartpole_swingup', 'a.gif')], indirect=['run']
)
def test_a_video_lasts_as_long_as_the_run(
    name: str, run: tuple[Task, RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, record = run
    if task.name == 'panda_push':  # the other has all its pixels
        for side in ('SCENE', 'PANEL', 'HEIGHT'):
            monkeypatch.setattr(video, side, getattr(video, side) // 2)
    seen: list[float] = []
    video.write(task, record, tmp_path / name, seen.append)
    pictures = imageio.mimread(tmp_path / name, memtest=False)
    if name.endswith('.mp4'):
        assert len(pictures) == len(seen)
    else:  # equal pictures are merged into one that lasts longer
        assert 1 <= len(pictures) <= len(seen)
    fps = {'.mp4': 25, '.gif': 10}[Path(name).suffix]
    assert len(seen) == int((record.times[-1] + 1.0) * fps) + 1  # and a second more, still
    assert np.asarray(pictures[0])[..., :3].std() > 5.0


@pytest.mark.slow
def test_a_run_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / 'deep' / 'report'
    command = ['run', 'cartpole_swingup', '--duration', '0.2', '--out', str(folder), '--json']
    assert main(command) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert json.loads((folder / 'summary.json').read_text()) == printed


def test_a_folder_that_cannot_be_created_is_a_one_line_error(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / 'file').write_text('')
    command = ['run', 'cartpole_swingup', '--duration', '0.1', '--out', str(tmp_path / 'file/x')]
    assert main(command) == 2
    assert 'cannot be created' in capsys.readouterr().err.splitlines()[-1]


def test_without_a_renderer_the_warning_names_the_packages_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    real = importlib.import_module

    def broken(name: str, *rest: Any) -> Any:
        if name in ('mujoco.egl', 'mujoco.gl_context'):
            # what PyOpenGL says where libEGL is missing
            raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")
        return real(name, *rest)

    monkeypatch.setattr('emppi_ros.viz.renderer.importlib.import_module', broken)
    path = tmp_path / 'a.mp4'
    assert main(['run', 'cartpole_swingup', '--duration', '0.1', '--video', str(path)]) == 0
    warning = capsys.readouterr().err
    assert 'no video' in warning and 'apt install' in warning  # only the picture is missing
    assert not path.exists()


def test_states_are_shown_by_the_true_model():
    task = load_task('panda_drawer')
    record = recording.of_trace(ClosedLoop(task, 0).run(0.1))
    model = video.true_model(task, record)
    joint = uncertain_objects(task)[0][0].id
    axis = record.truth[:3] / np.linalg.norm(record.truth[:3])
    np.testing.assert_allclose(model.jnt_axis[joint], axis, atol=1e-15)  # rounding


@pytest.mark.slow
def test_a_run_completes_without_a_renderer(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise rendering.RenderError('no off-screen rendering here')

    monkeypatch.setattr(rendering, '_open_context', fail)
    command = ['run', 'panda_drawer', '--duration', '0.2', '--out', str(tmp_path), '--json']
    assert main(command) == 0
    assert 'no picture of the belief in the scene: no off-screen' in capsys.readouterr().err
    assert (tmp_path / 'summary.json').is_file() and (tmp_path / 'belief.png').is_file()
    assert not (tmp_path / 'scene.png').exists()


def test_the_encoder_is_in_a_wheel() -> None:
    from imageio_ffmpeg import get_ffmpeg_exe

    assert shutil.which(get_ffmpeg_exe())


def test_the_overlay_shows_the_belief_of_each_time():
    task = load_task('panda_push')
    record = recording.of_trace(ClosedLoop(task, 3).run(0.3))
    model = with_parameters(task.model, task.parameters, record.truth)
    before, after = (video.belief_shapes(task, record, model, now) for now in (0.0, 0.3))
    names = {shape.name for shape in after}
    assert {'bars', 'scales', 'objects', 'target'} <= names
    bars = [next(s for s in found if s.name == 'bars').corners for found in (before, after)]
    assert not np.array_equal(*bars)  # it has learned
    assert np.isclose(bars[0][..., 2].min(), bars[1][..., 2].min())  # and the panel stays there


def test_the_overlay_of_a_run_without_learning_is_empty():
    task = load_task('panda_push')
    record = recording.of_trace(ClosedLoop(task, 3, 'no-update').run(0.1))
    assert video.belief_shapes(task, record, task.model, 0.1) == []


def test_plots_show_when_the_truth_changed() -> None:
    task = load_task('cartpole_swingup')
    loop = ClosedLoop(task, 0, truth={'pole_mass': [(0.0, 0.3), (0.1, 0.5)]})
    record = recording.of_trace(loop.run(0.3))
    (line,) = (one for one in plots.belief(task, record).axes[0].lines if one.get_color() == RED)
    assert line.get_drawstyle() == 'steps-post'
    assert line.get_xdata()[:2].tolist() == [0.0, 0.1]
    assert line.get_ydata().tolist() == [0.3, 0.5, 0.5]
    times = (0.05, 0.1, 9.0)
    assert [record.truth_at(time)[0] for time in times] == [0.3, 0.5, 0.5]
    panel = video.BeliefPanel(task, record, 400, 300)
    for time in times:
        panel.draw(time)
        assert panel._truth.get_xdata().tolist() == [record.truth_at(time)[0]]


def test_an_observer_takes_the_truth_from_the_simulator() -> None:
    task = load_task('cartpole_swingup')
    names = [parameter.name for parameter in task.parameters]
    observer = recording.RunObserver(task)
    assert np.isnan(observer.truths(task)['truths']).all()
    observer.record_diagnostics('simulator', 1.0, {'simulated_time_s': '0'})  # without a task
    for stamp, mass in ((2.0, 0.3), (3.0, 0.3), (4.0, 0.4), (6.5, 0.5), (7.5, 0.5)):
        values = {'true pole_mass': repr(mass), 'true pole_inertia': '0.02'}
        observer.record_diagnostics('simulator', stamp, values)
        if stamp == 4.0:
            observer.start(5.0)
    found = observer.truths(task)
    assert found['truth_times'].tolist() == [0.0, 1.5]
    assert found['truths'][:, names.index('pole_mass')].tolist() == [0.4, 0.5]
    assert np.isnan(observer.truths(load_task('panda_push'))['truths']).all()


def test_an_observed_door_is_as_far_open_as_its_true_joint_says() -> None:
    task = load_task('panda_cabinet')
    truth = np.array([0.03, -0.02, 1.0, 0.01, -0.2, 0.0])  # a hinge; the scene has a slide
    data, item = mujoco.MjData(with_parameters(task.model, task.parameters, truth)), 'handle'
    names, opened = [parameter.name for parameter in task.parameters], (0.0, 0.1, 0.3)
    observer, estimator = recording.RunObserver(task), Estimator(task)
    values = {f'true {name}': repr(float(x)) for name, x in zip(names, truth, strict=True)}
    observer.record_diagnostics('simulator', 0.0, values)
    observer.record_belief(0.0, Belief(truth[None], np.zeros(1)))
    observer.start(0.0)
    home = np.array(task.robot.home)
    data.qpos[:] = task.start().qpos
    for stamp, q in enumerate(opened):
        estimator.clear()  # it has no time to filter
        data.qpos[task.jointed[item].qpos] = q
        mujoco.mj_kinematics(data.model, data)
        body = data.body(task.jointed[item].body)
        for time in (stamp - 0.01, stamp):
            estimator.add_joints(time, home, np.zeros_like(home))
            estimator.add_pose(item, time, Pose(body.xpos.copy(), body.xquat.copy()))
        observer.record_state(estimator)
    summary, record = observer.summarize()
    # up to the rounding of a fit in closed form
    assert record.qpos[:, task.jointed[item].qpos] == pytest.approx(opened, abs=1e-6)
    assert record.error == pytest.approx([0.2, 0.1, 0.0], abs=1e-6)
    assert summary['success'] and record.success_s == 2.0


def test_the_summary_of_an_observed_run_names_misfits() -> None:
    observer = recording.RunObserver(load_task('cartpole_swingup'))
    assert observer.summarize()[0]['misfit'] == []
    for names in (['joint_velocity'], ['joint_velocity', 'object_position'], []):
        observer.record_diagnostics('belief', 1.0, {'misfit': ', '.join(names)})
        assert observer.summarize()[0]['misfit'] == names


def test_the_summary_of_an_observed_run_has_the_changes_since_its_start() -> None:
    observer = recording.RunObserver(load_task('cartpole_swingup'))
    observer.record_diagnostics('belief', 1.0, {'changed pole_mass': '99.500'})
    observer.start(100.0)
    for stamp in ('102.250', '102.250', '104.000'):
        observer.record_diagnostics('belief', 1.0, {'changed pole_mass': stamp})
    summary, record = observer.summarize()
    assert record.changes == ((2.25, 'pole_mass'), (4.0, 'pole_mass'))
    assert summary['changes'][0] == {'parameter': 'pole_mass', 'time_s': 2.25}


def test_plots_show_detected_changes_of_their_parameter() -> None:
    task = load_task('cartpole_swingup')
    record = recording.of_trace(ClosedLoop(task, 0).run(0.3))
    record = dataclasses.replace(record, changes=((0.1, 'pole_mass'), (0.2, 'pole_mass')))
    names = [parameter.name for parameter in task.parameters]
    for name, axis in zip(names, plots.belief(task, record).axes, strict=False):
        times = [line.get_xdata()[0] for line in axis.lines if line.get_color() == GREEN]
        assert times == ([0.1, 0.2] if name == 'pole_mass' else [])


@pytest.mark.parametrize(
    ('option', 'name', 'reason'),
    [
        ('--out', 'file', 'it is a file'),
        ('--out', 'file/deep/x', 'file is not a folder'),
        ('--video', 'file/a.mp4', 'file is not a folder'),
        ('--save', 'folder.yaml', 'it is a folder'),
        ('--record', 'folder.csv', 'it is a folder'),
    ],
)
def test_output_paths_are_checked_before_the_run(
    option: str, name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    (tmp_path / 'file').write_text('')
    (tmp_path / 'folder.yaml').mkdir()
    (tmp_path / 'folder.csv').mkdir()
    monkeypatch.setattr('emppi_ros.cli.run.ClosedLoop', None)  # not reached
    assert main(['run', 'cartpole_swingup', option, str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert said.startswith('error: ') and option in said and reason in said


@pytest.mark.slow
def test_ctrl_c_leaves_no_part_of_a_video(run, tmp_path: Path, renderer) -> None:
    task, record = run
    path = tmp_path / 'motion.mp4'
    path.write_text('before')

    def interrupted(_done: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        video.write(task, record, path, interrupted)
    assert [one.name for one in tmp_path.iterdir()] == ['motion.mp4']
    assert path.read_text() == 'before'


def test_a_record_that_ends_at_success_has_nothing_later(run: tuple[Task, RunRecord]) -> None:
    _, record = run
    ended = dataclasses.replace(record, success_s=0.2).until_success()
    assert 0.15 < ended.times[-1] <= 0.2 and ended.belief_times[-1] <= 0.2
    for name in ('qpos', 'error'):
        assert len(getattr(ended, name)) == len(ended.times)
    for name in ('belief_theta', 'belief_weights', 'ess'):
        assert len(getattr(ended, name)) == len(ended.belief_times)
    assert np.array_equal(ended.qpos, record.qpos[: len(ended.qpos)])
    assert record.success_s is None and record.until_success() is record


def test_a_panel_says_when_the_task_succeeded(run: tuple[Task, RunRecord]) -> None:
    task, record = run
    panels = [
        video.BeliefPanel(task, one, 400, 400)
        for one in (record, dataclasses.replace(record, success_s=0.2))
    ]
    for now, says in ((0.18, False), (0.2, True)):
        pictures = [panel.draw(now) for panel in panels]
        assert np.array_equal(*pictures) is not says


@pytest.mark.slow
@pytest.mark.usefixtures('renderer')
def test_a_still_has_a_caption(run: tuple[Task, RunRecord], tmp_path: Path) -> None:
    task, record = run
    for name, one in (('no', record), ('yes', dataclasses.replace(record, success_s=0.2))):
        video.write_still(task, one, tmp_path / f'{name}.png')
    no, yes = (imageio.imread(tmp_path / f'{name}.png') for name in ('no', 'yes'))
    differ = np.flatnonzero((no != yes).any(axis=(1, 2)))
    assert len(differ) and differ.max() < video.CAPTION  # only in the caption

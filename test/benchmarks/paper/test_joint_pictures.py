"""The benchmark draws the belief about uncertain joints once."""

import dataclasses

import numpy as np
import pytest

from benchmarks.paper import cells, joint_pictures, plots
from benchmarks.paper.cells import Request, make_cells
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.tasks.task import load_task
from emppi_ros.viz import renderer
from emppi_ros.viz.renderer import Renderer
from emppi_ros.viz.report import recording, video
from emppi_ros.viz.shapes.joint_axes import uncertain_objects

REQUEST = Request(
    ('panda_drawer', 'cartpole_swingup'),
    ('mppi-true', 'emppi'),
    (cells.SUCCESS,),
    range(2),
    quick=True,
)
THETA = np.array([[0.0, 0.0, 1.0, 0.0, 0.1, 0.0]])


@pytest.mark.slow
def test_one_run_of_each_task_with_an_uncertain_joint_is_drawn_once(tmp_path, monkeypatch):
    drawn, said = [], []

    def write_all(task, record, folder, name, source):
        drawn.append((task.name, len(record.belief_times) > 0, source))
        (folder / f'{name}.png').touch()
        return [folder / f'{name}.png']

    monkeypatch.setattr(renderer, 'check_renderer', lambda: None)
    monkeypatch.setattr(joint_pictures, 'write_all', write_all)
    monkeypatch.setattr(joint_pictures, 'source_of', lambda _: drawn[-1][2])
    wanted = make_cells(REQUEST)
    (path,) = plots.write_joint_pictures(wanted, tmp_path, said.append)
    assert path.name == 'articulation_panda_drawer.png'
    (learner,) = (
        c for c in wanted if c.task == 'panda_drawer' and c.seed == 0 and c.controller == 'emppi'
    )
    assert drawn == [('panda_drawer', True, learner.digest)] and len(said) == 1
    assert plots.write_joint_pictures(wanted, tmp_path, said.append) == [path] and len(drawn) == 1
    monkeypatch.setattr(joint_pictures, 'source_of', lambda _: 'other settings')
    assert plots.write_joint_pictures(wanted, tmp_path, said.append) == [path] and len(drawn) == 2


def test_without_a_renderer_a_message_replaces_the_pictures(tmp_path, monkeypatch):
    def fail():
        raise renderer.RenderError('no off-screen rendering here')

    monkeypatch.setattr(renderer, 'check_renderer', fail)
    said = []
    assert plots.write_joint_pictures(make_cells(REQUEST), tmp_path, said.append) == []
    assert said == ['no pictures of the belief about joints: no off-screen rendering here']


def test_no_picture_without_a_run_of_the_learner(tmp_path):
    without = make_cells(REQUEST._replace(controllers=('mppi-true',)))
    assert plots.write_joint_pictures(without, tmp_path, [].append) == []


@pytest.fixture(scope='module')
def run():
    """Return the task of which nobody knows whether it is a drawer, and a short recording."""
    task = load_task('panda_drawer')
    return task, recording.of_trace(ClosedLoop(task, 0).run(0.3))


@pytest.mark.slow
@pytest.mark.usefixtures('renderer')
def test_a_picture_of_the_belief_is_written_with_its_source(run, tmp_path):
    (path,) = joint_pictures.write_all(*run, tmp_path, 'articulation_x', 'abc')
    assert path.name == 'articulation_x.png' and joint_pictures.source_of(path) == 'abc'
    picture = joint_pictures.imageio.imread(path)[..., :3]
    width = joint_pictures.PANEL[0] * 2  # nothing has moved 2 cm yet: the start, and the end
    assert picture.shape[1] == width and picture.std() > 5.0  # not blank
    assert joint_pictures.source_of(tmp_path / 'other.png') is None


@pytest.mark.slow
@pytest.mark.usefixtures('renderer')
@pytest.mark.parametrize('moved', [0, 1])
def test_particles_without_weight_are_not_drawn(run, moved):
    task, record = run
    ((joint, item),) = uncertain_objects(task)
    renderer = Renderer(
        video.true_model(task, record),
        *joint_pictures.PANEL,
        joint_pictures._camera(task, joint, item, THETA)[0],
    )
    weights = np.eye(len(record.belief_weights[0]))[:1]  # all on the first
    pictures = []
    for tilt in (0.0, 0.3):
        theta = record.belief_theta[:1].copy()
        theta[0, moved, :3] = [0.0, tilt, 1.0]
        theta[0, 1 - moved, :3] = [0.0, 0.0, 1.0]
        one = dataclasses.replace(
            record, belief_theta=theta, belief_weights=weights, belief_times=np.zeros(1)
        )
        pictures.append(joint_pictures._picture(task, one, joint, item, 5, renderer, 1.0)[0])
    renderer.close()
    assert np.array_equal(*pictures) == (moved == 1)


def test_no_picture_without_a_belief_or_an_uncertain_joint(run, make_task, tmp_path):
    task, _ = run
    blind = recording.of_trace(ClosedLoop(task, 0, 'no-update').run(0.1))
    assert joint_pictures.write_all(task, blind, tmp_path) == []
    slider = make_task('slider')
    assert (
        joint_pictures.write_all(
            slider, recording.of_trace(ClosedLoop(slider, 0).run(0.1)), tmp_path
        )
        == []
    )

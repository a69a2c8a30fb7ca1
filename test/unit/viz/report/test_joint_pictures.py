"""Pictures of the belief about joints; they need a renderer."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.cli import main
from emppi_ros.tasks.task import load_task
from emppi_ros.viz import renderer as rendering
from emppi_ros.viz.renderer import Renderer
from emppi_ros.viz.report import joint_pictures, recording, video
from emppi_ros.viz.shapes.joint_axes import kind_names, uncertain_objects

THETA = np.array([[0.0, 0.0, 1.0, 0.0, 0.1, 0.0]])


@pytest.fixture(scope='module')
def drawer():
    """Return the task of which nobody knows whether it is a drawer."""
    return load_task('panda_drawer')


@pytest.fixture(scope='module')
def run(drawer):
    """Return the task and a short recording of it."""
    return drawer, recording.of_trace(ClosedLoop(drawer, 0).run(0.3))


def test_the_kinds_of_a_joint_have_names(make_task, drawer):
    ((joint, _),) = uncertain_objects(drawer)
    assert kind_names(drawer, joint) == ['slide', 'hinge']
    assert uncertain_objects(make_task('slider')) == []


@pytest.mark.usefixtures('renderer')
def test_a_picture_of_the_belief_is_written_with_its_source(run, tmp_path):
    (path,) = joint_pictures.write_all(*run, tmp_path, 'articulation_x', 'abc')
    assert path.name == 'articulation_x.png' and joint_pictures.source_of(path) == 'abc'
    picture = joint_pictures.imageio.imread(path)[..., :3]
    width = joint_pictures.PANEL[0] * 2  # nothing has moved 2 cm yet: the start, and the end
    assert picture.shape[1] == width and picture.std() > 5.0  # not blank
    assert joint_pictures.source_of(tmp_path / 'other.png') is None


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


@pytest.mark.usefixtures('renderer')
def test_states_are_shown_by_the_true_model(run):
    task, record = run
    model = video.true_model(task, record)
    joint = uncertain_objects(task)[0][0].id
    axis = record.truth[:3] / np.linalg.norm(record.truth[:3])
    np.testing.assert_allclose(model.jnt_axis[joint], axis, atol=1e-15)  # rounding


def test_a_run_completes_without_a_renderer(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise rendering.RenderError('no off-screen rendering here')

    monkeypatch.setattr(rendering, '_open_context', fail)
    command = ['run', 'panda_drawer', '--duration', '0.2', '--out', str(tmp_path), '--json']
    assert main(command) == 0
    assert 'no picture of the belief in the scene: no off-screen' in capsys.readouterr().err
    assert (tmp_path / 'summary.json').is_file() and (tmp_path / 'belief.png').is_file()
    assert not (tmp_path / 'articulation.png').exists()

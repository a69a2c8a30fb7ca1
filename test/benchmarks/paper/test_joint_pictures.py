"""The benchmark draws the belief about uncertain joints once."""

from benchmarks.paper import cells, plots
from benchmarks.paper.cells import Request, make_cells
from emppi_ros.viz import renderer
from emppi_ros.viz.report import joint_pictures

REQUEST = Request(
    ('panda_drawer', 'cartpole_swingup'),
    ('mppi-true', 'emppi'),
    (cells.SUCCESS,),
    range(2),
    quick=True,
)


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

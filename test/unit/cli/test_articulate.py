"""`emppi articulate`: from a table to a model, joint positions, a task and a report."""

import json

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.cli import main
from emppi_ros.recordings import tables
from emppi_ros.recordings.recordings import read_recording
from emppi_ros.recordings.signals import Signal

FRAMES = 120


@pytest.fixture
def table(tmp_path):
    """Write the track of a door that opens by 1.2 rad about a vertical axis; return its path."""
    rng = np.random.default_rng(0)
    q = 1.2 * np.sin(np.linspace(0.0, 3.0, FRAMES))
    turn = Rotation.from_rotvec(q[:, None] * [0.0, 0.0, 1.0])
    noisy = Rotation.from_rotvec(0.0175 * rng.standard_normal((FRAMES, 3))) * turn
    position = [0.5, 0.1, 0.4] + turn.apply([0.3, 0.0, 0.0])
    position += 0.002 * rng.standard_normal((FRAMES, 3))
    values = np.hstack([position, noisy.as_quat()[:, [3, 0, 1, 2]]])
    path = tmp_path / 'tracks.csv'
    tables.write(path, [Signal('pose', 'door', 'm, 1', np.arange(FRAMES) / 30.0, values, '')])
    return path


@pytest.mark.slow
def test_it_writes_a_model_positions_a_task_and_a_report(table, tmp_path, capsys):
    outputs = {
        'out': tmp_path / 'door.xml',
        'positions': tmp_path / 'door.csv',
        'task': tmp_path / 'door.yaml',
        'report': tmp_path / 'report',
    }
    options = [word for name, path in outputs.items() for word in (f'--{name}', str(path))]
    assert main(['articulate', str(table), *options, '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert found['joints']['door']['joint'] == 'revolute'
    model = mujoco.MjModel.from_xml_path(str(outputs['out']))
    assert model.joint('door').type[0] == mujoco.mjtJoint.mjJNT_HINGE
    assert 'door is revolute on world' in outputs['task'].read_text()
    assert (outputs['report'] / 'axes.png').stat().st_size > 1000
    # `emppi identify` reads the positions
    (signal,) = read_recording([outputs['positions']]).signals.values()
    assert (signal.kind, signal.of, signal.unit) == ('position', 'door', 'rad')
    assert np.ptp(signal.values) == pytest.approx(1.2, abs=0.05)


def test_existing_outputs_are_not_replaced(table, tmp_path, capsys):
    out = tmp_path / 'door.xml'
    out.write_text('mine')
    assert main(['articulate', str(table), '--out', str(out)]) == 2
    assert 'exists; give another name, or --overwrite' in capsys.readouterr().err
    assert out.read_text() == 'mine'


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--out', 'door.yaml'], '--out: found door.yaml, expected a name that ends in .xml'),
        (['--out', 'nowhere/door.xml'], '--out: no such folder: nowhere'),
        (['--out', 'a.xml', '--positions', 'a.txt'], '--positions: found a.txt, expected a name'),
        (['--out', 'a.xml', '--task', 'a.xml'], '--task: found a.xml, expected a name'),
    ],
)
def test_wrong_options_are_named(table, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(['articulate', str(table), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_part_called_world_is_refused(tmp_path, capsys):
    path = tmp_path / 'a.csv'
    rows = '\n'.join(f'{i},1,2,3' for i in range(20))
    path.write_text(f'time_s,pose/world.x [m],pose/world.y [m],pose/world.z [m]\n{rows}\n')
    assert main(['articulate', str(path), '--out', str(tmp_path / 'a.xml')]) == 2
    assert 'pose/world: this name is taken' in capsys.readouterr().err

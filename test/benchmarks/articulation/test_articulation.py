"""The benchmark of articulation: its mechanisms, its judgement and its report."""

from argparse import Namespace
import gzip
import json

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks.articulation import mechanisms, recordings
from benchmarks.articulation.mechanisms import MECHANISMS
from benchmarks.studies.articulate import NOISE, ArticulationStudy
from emppi_ros.articulation import topology, tracks
from emppi_ros.articulation.tracks import Tracks
from emppi_ros.cli import main
from emppi_ros.core.errors import BenchError, ConfigError

KINDS = {
    'chain': ['revolute'] * 3,
    'cartpole': ['prismatic', 'revolute'],
    'cabinet-together': ['static', 'prismatic', 'revolute'],
    'cabinet-in-turn': ['static', 'prismatic', 'revolute'],
    'floating-chain': ['free', 'revolute', 'revolute'],
    'jar': ['static', 'screw'],
    'short-drawer': ['prismatic'],
    'short-door': ['revolute'],
}


@pytest.mark.parametrize('name', MECHANISMS)
def test_mechanisms_have_the_joints_that_they_are_named_after(name):
    one = MECHANISMS[name](np.random.default_rng(0))
    assert [joint.kind for joint in mechanisms.joints(one)] == KINDS[name]
    assert one.qpos.shape == (mechanisms.FRAMES, one.model.nq)


def test_axes_of_the_truth_are_fixed_to_parent_and_child():
    """A point of the true axis does not move when its own joint does."""
    one = MECHANISMS['cartpole'](np.random.default_rng(1))
    data = mujoco.MjData(one.model)
    pole = mechanisms.joints(one)[1]
    data.qpos = one.qpos[0]
    mujoco.mj_kinematics(one.model, data)
    place = data.body('pole').xmat.reshape(3, 3).T @ (pole.pivot - data.body('pole').xpos)
    data.qpos[1] += 1.0
    mujoco.mj_kinematics(one.model, data)
    moved = data.body('pole').xmat.reshape(3, 3) @ place + data.body('pole').xpos
    np.testing.assert_allclose(moved, pole.pivot, atol=1e-12)


def test_noise_and_outliers_are_as_large_as_they_should_be():
    rng = np.random.default_rng(2)
    one = MECHANISMS['chain'](rng)
    exact = mechanisms.poses(one)
    found = mechanisms.track(one, NOISE, 0.1, rng)
    off = np.array([part.poses.position - exact[part.name][0] for part in found.parts])
    far = np.linalg.norm(off, axis=2) > 0.02  # ten standard deviations
    assert 0.05 < far.mean() < 0.16  # 450 draws of 10 %: 4 standard deviations
    assert np.std(off[~far]) == pytest.approx(0.002, rel=0.1)


def test_a_right_tree_and_a_wrong_one_are_told_apart():
    rng = np.random.default_rng(3)
    one = MECHANISMS['short-door'](rng)
    tree = topology.infer(mechanisms.track(one, tracks.Noise(1e-4, 1e-3), 0.0, rng))
    assert mechanisms.compare(tree, one).kinds
    other = MECHANISMS['short-drawer'](rng)
    renamed = tree.joints[0]
    wrong = mechanisms.compare(
        topology.KinematicTree(
            tree.tracks, (topology.TreeJoint(**{**vars(renamed), 'child': 'drawer'}),), (), {}
        ),
        other,
    )
    assert (wrong.topology, wrong.kinds, wrong.undecided) == (True, False, False)


def write_kitchen(folder, degrees):
    """Write one recording of a rotation about z, with a dropout."""
    angles = np.radians(np.linspace(0.0, degrees, 60))
    turn = Rotation.from_rotvec(angles[:, None] * [0.0, 0.0, 1.0])
    position = turn.apply([0.4, 0.0, 0.0])
    rows = np.hstack([position, turn.as_quat()])
    rows[5, 3:] = 0.0
    place = folder / recordings.FOLDER / recordings.KITCHEN
    place.mkdir(parents=True)
    text = '\n'.join(' '.join(map(str, row)) for row in rows) + '\n\n'
    (place / 'one.log.gz').write_bytes(gzip.compress(text.encode()))


@pytest.mark.parametrize(('degrees', 'kind'), [(50.0, 'revolute'), (20.0, ''), (5.0, 'prismatic')])
def test_recordings_are_labelled_by_their_range_of_rotation(tmp_path, degrees, kind):
    write_kitchen(tmp_path, degrees)
    (one,) = recordings.read(tmp_path)
    assert one.kind == kind
    assert one.rotation_deg == pytest.approx(degrees, rel=0.06)  # the outer 4 % are left out
    part = one.tracks.parts[0]
    assert part.seen.sum() == 59 and not part.seen[5]
    assert isinstance(one.tracks, Tracks)


def test_a_folder_without_recordings_is_refused(tmp_path):
    study = ArticulationStudy()
    with pytest.raises(BenchError, match='sturm_tracks'):
        study.cells(study.select([0], options=Namespace(data=tmp_path)))
    with pytest.raises(ConfigError, match="did you mean 'chain'"):
        study.select(mechanisms=['chan'])


@pytest.mark.slow
def test_the_command_resumes_and_reports(tmp_path, capsys):
    write_kitchen(tmp_path, 60.0)
    words = ['bench', 'articulate', '--data', str(tmp_path), '--mechanisms', 'short-door']
    words += ['--quick', '--jobs', '1', '--out', str(tmp_path / 'out'), '--json']
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first['runs'], first['reused']) == (3, 0)
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)['reused'] == 3
    text = (tmp_path / 'out' / 'results.md').read_text()
    assert '| short door | 0 % |' in text
    assert '| kitchen | 1/1' in text

"""Priors from joints that were seen: around the true joint, as wide as the fit says."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from emppi_ros.articulation import prior, topology
from emppi_ros.articulation.tracks import Noise, Tracks, from_arrays
from emppi_ros.cli import main
from emppi_ros.core.errors import IdentificationError
from emppi_ros.model import parameters
from emppi_ros.recordings import tables
from emppi_ros.recordings.signals import UNITS, Signal
from emppi_ros.tasks.task import Task, load_task

NOISE = Noise(0.001, 0.003)
DOOR = {
    'axis_x': 0.1,
    'axis_y': -0.05,
    'axis_z': 1.0,
    'pivot_x': -0.03,
    'pivot_y': 0.2,
    'pivot_z': 0.0,
}
DRAWER = {**DOOR, 'axis_x': 1.0, 'axis_y': 0.05, 'axis_z': -0.1}


def opened(task: Task, truth: dict[str, float], amount: float) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and quaternions of the handle while MuJoCo opens it."""
    theta = np.array([truth[parameter.name] for parameter in task.parameters])
    model = parameters.with_parameters(task.model, task.parameters, theta)
    data, poses = mujoco.MjData(model), []
    item = task.jointed['handle']
    for q in amount * np.sin(np.linspace(0.0, np.pi, 80)) ** 2:
        data.qpos[item.qpos] = q
        mujoco.mj_kinematics(model, data)
        poses.append((data.xpos[item.body].copy(), data.xquat[item.body].copy()))
    rng = np.random.default_rng(0)
    position, quaternion = (np.array(rows) for rows in zip(*poses, strict=True))
    position += NOISE.position_sd_m * rng.standard_normal(position.shape)
    turned = np.zeros(4)
    for row, turn in zip(
        quaternion, NOISE.rotation_sd_rad * rng.standard_normal((80, 3)), strict=True
    ):
        step = np.zeros(4)
        mujoco.mju_axisAngle2Quat(step, turn / np.linalg.norm(turn), np.linalg.norm(turn))
        mujoco.mju_mulQuat(turned, step, row)
        row[:] = turned
    return position, quaternion


def tracks(position: np.ndarray, quaternion: np.ndarray, name: str = 'handle') -> Tracks:
    time = np.arange(len(position)) / 30.0
    return Tracks(time, (from_arrays(name, position, quaternion, noise=NOISE),))


@pytest.mark.parametrize(('truth', 'amount'), [(DOOR, 0.8), (DRAWER, 0.2)])
def test_samples_are_around_the_true_joint(truth: dict[str, float], amount: float) -> None:
    task = load_task('panda_cabinet')
    tree = topology.infer(tracks(*opened(task, truth, amount)))
    made = prior.make(tree, task, ())
    axes = np.column_stack([made.parameters[f'axis_{c}'].values for c in 'xyz'])
    axis = np.array([truth[f'axis_{c}'] for c in 'xyz'])
    axis /= np.linalg.norm(axis)
    axes *= np.sign(axes @ axis)[:, None]
    away, spread = axes.mean(axis=0) - axis, tree.joint('handle').axis_sd_rad
    assert np.linalg.norm(away) < 5.0 * spread  # in all but one of 10^5 cases
    # 200 draws across the axis: five standard errors
    assert np.sqrt(
        np.mean(np.sum((axes - axes.mean(axis=0)) ** 2, axis=1)) / 2.0
    ) == pytest.approx(spread, rel=5.0 * np.sqrt(0.5 / 200))
    names = {f'axis_{c}' for c in 'xyz'}
    if truth is DOOR:
        names |= {f'pivot_{c}' for c in 'xyz'}
        places = np.column_stack([made.parameters[f'pivot_{c}'].values for c in 'xyz'])
        apart = places.mean(axis=0) - [truth[f'pivot_{c}'] for c in 'xyz']
        across = apart - axis * (apart @ axis)
        assert np.linalg.norm(across) < 5.0 * tree.joint('handle').pivot_sd_m
    assert set(made.parameters) == names


def test_a_joint_that_the_task_cannot_have_is_an_error() -> None:
    task = load_task('panda_cabinet')
    position, quaternion = opened(task, DOOR, 0.8)
    elsewhere = topology.infer(tracks(position, quaternion, 'lid'))
    with pytest.raises(IdentificationError, match='jointed objects .* are handle.* have lid'):
        prior.make(elsewhere, task, ())
    still = topology.infer(
        tracks(position[:1].repeat(80, axis=0), quaternion[:1].repeat(80, axis=0))
    )
    with pytest.raises(IdentificationError, match=r"'handle' has a hinge or a slide .*static"):
        prior.make(still, task, ())
    # a hinge about x looks like a slide to the field of this task
    time = np.linspace(0.0, 1.0, 80)
    rolled = np.column_stack([np.cos(0.5 * time), np.sin(0.5 * time), 0.0 * time, 0.0 * time])
    about_x = topology.infer(tracks(np.zeros((80, 3)), rolled))
    with pytest.raises(IdentificationError, match='jnt_articulation is a slide if x is largest'):
        prior.make(about_x, task, ())


def test_the_command_writes_a_prior_that_the_task_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    task = load_task('panda_cabinet')
    position, quaternion = opened(task, DOOR, 0.8)
    time = np.arange(len(position)) / 30.0
    poses = np.concatenate([position, quaternion], axis=1)
    tables.write(
        tmp_path / 'tracks.csv', [Signal('pose', 'handle', UNITS['pose'][0], time, poses, '')]
    )
    command = ['articulate', str(tmp_path / 'tracks.csv'), '--out', str(tmp_path / 'model.xml')]
    made = ['--prior', str(tmp_path / 'seen.yaml')]
    assert main([*command, *made]) == 2
    assert '--prior and --prior-for: give both' in capsys.readouterr().err
    assert main([*command, *made, '--prior-for', 'panda_cabinet']) == 0
    narrow = task.with_prior(str(tmp_path / 'seen.yaml')).prior
    before, after = (
        one.sample(500, np.random.default_rng(0)).std(axis=0) for one in (task.prior, narrow)
    )
    assert np.all(after < 0.5 * before)

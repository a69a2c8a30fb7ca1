"""Tracked poses on the time steps of a model."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant, UnknownParameter
from emppi_ros.identification.states import diagnostics, method
from emppi_ros.identification.states.estimation import estimate
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.recordings import tables
from emppi_ros.recordings.motion import default_step, resample
from emppi_ros.recordings.recordings import Recording, read_recording
from emppi_ros.recordings.signals import Signal

BRICK = """<mujoco><option timestep="{step}"/><worldbody><body name="brick">
  <freejoint name="flying"/><geom type="box" size="0.1 0.2 0.3" mass="1"/></body>
</worldbody></mujoco>"""


def tumbling(time):
    """Return poses (n, 7) at constant velocity and constant rate, about one axis."""
    axis, angle = np.array([1.0, 2.0, 2.0]) / 3.0, 3.0 * time[:, None]
    quaternions = np.hstack([np.cos(angle / 2), np.sin(angle / 2) * axis])
    return np.hstack([time[:, None] * [0.3, -0.2, 0.1], quaternions])


def record(folder, poses, period, name='brick'):
    time = period * np.arange(len(poses))
    path = folder / 'run.csv'
    tables.write(path, [Signal('pose', name, 'm, 1', time, poses, '')])
    return read_recording([path])


def brick(step=0.01):
    return mujoco.MjModel.from_xml_string(BRICK.format(step=step))


def test_poses_are_interpolated_on_the_straight_line_and_the_shortest_arc(tmp_path):
    period, step = 0.02, 0.005
    poses = tumbling(period * np.arange(200))
    poses[np.random.default_rng(0).random(200) < 0.3, 3:] *= -1.0  # the same rotations
    motion = resample(record(tmp_path, poses, period), brick(step))
    expected = tumbling(step * np.arange(motion.steps))
    assert motion.steps == 199 * 4 + 1
    expected[:, 3:] *= np.sign(expected[0, 3:] @ motion.qpos[0, 3:])
    np.testing.assert_allclose(motion.qpos, expected, atol=1e-12)  # rounding
    seen = np.arange(motion.steps) % 4 == 0
    np.testing.assert_array_equal(motion.weights, np.repeat(seen[:, None], 6, axis=1))


def test_the_damping_of_a_thrown_brick_is_estimated_from_its_tracked_poses(tmp_path):
    def write(model, theta):
        model.dof_damping[:3] = theta[0]

    plant = Plant(brick(), (UnknownParameter('drag', 'N s/m', 0.3, 0.0, 10.0),), write)
    model = plant.at(np.array([1.0]))
    data = mujoco.MjData(model)
    data.qvel[:] = 1.0, 0.5, 8.0, 2.0, 3.0, -1.0
    qpos = np.empty((300, 7))
    for row in qpos:
        row[:] = data.qpos
        mujoco.mj_step(model, data)
    rng = np.random.default_rng(0)
    seen = qpos[::2].copy()
    seen[:, :3] += 0.002 * rng.standard_normal((150, 3))
    for row in seen:
        turn = np.empty(4)
        mujoco.mju_euler2Quat(turn, 0.01 * rng.standard_normal(3), 'xyz')
        mujoco.mju_mulQuat(row[3:], row[3:].copy(), turn)
    motion = resample(record(tmp_path, seen, 0.02), plant.model)
    result = estimate(plant, motion, SolverConfig())
    diagnostics.check_model(result)
    sd = result.uncertainty.sd[0]
    assert result.knowledge == ('found',) and sd < 0.01
    assert result.theta[0] == pytest.approx(1.0, abs=5.0 * sd)  # five standard deviations
    # estimated states are closer to the truth than the measurements
    assert np.std(result.solution.qpos[::2, :3][:150] - qpos[:299:2, :3]) < 0.001
    noise = method.summarize(result)['observation_sd']
    for axis in 'xyz':  # the simulated noise; 150 samples determine it to 6 %
        assert noise[f'flying {axis}'] == pytest.approx(0.002, rel=0.25)
        assert noise[f'flying about {axis}'] == pytest.approx(0.01, rel=0.25)


@pytest.mark.parametrize(
    ('name', 'change', 'words'),
    [
        ('brik', lambda p: p, r"pose/brik: unknown body 'brik' \(did you mean 'brick'\?\)"),
        ('brick', lambda p: np.tile(p[:1], (200, 1)), 'pose/brick: unexciting: it never moves'),
        ('brick', lambda p: p * 1.5, r'pose/brick: quaternion of length 1.5 at .* s, expected 1'),
    ],
)
def test_poses_that_do_not_fit_are_named(tmp_path, name, change, words):
    poses = change(tumbling(0.02 * np.arange(200)))
    with pytest.raises(IdentificationError, match=words):
        resample(record(tmp_path, poses, 0.02, name), brick())


def test_a_pose_needs_all_columns(tmp_path):
    record(tmp_path, tumbling(0.02 * np.arange(200)), 0.02)
    path = tmp_path / 'run.csv'
    text = path.read_text()
    for old, new, words in (
        ('brick.qw [1]', 'brick.w [1]', r"column 'pose/brick.w \[1\]': expected a name such as"),
        ('brick.x [m]', 'brick.x [mm]', r"unit: found 'mm', expected m: units are not converted"),
        (',pose/brick.qz [1]', ',pose/other.qz [1]', r'pose/brick: no column for qz: a pose has'),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(IdentificationError, match=words):
            read_recording([path])
    header, first, *rest = text.splitlines()
    path.write_text('\n'.join([header, first.rpartition(',')[0] + ',', *rest]))
    with pytest.raises(IdentificationError, match=r'at 0 s some columns have a number and some'):
        read_recording([path])


def test_a_free_body_must_be_tracked(tmp_path):
    path = tmp_path / 'run.csv'
    time = 0.01 * np.arange(200)
    tables.write(path, [Signal('command', 'motor', 'N', time, time, '')])
    recording = read_recording([path])
    xml = BRICK.format(step=0.01).replace(
        '</mujoco>', '<actuator><motor name="motor" joint="flying"/></actuator></mujoco>'
    )
    model = mujoco.MjModel.from_xml_string(xml)
    words = "a free body 'brick', whose pose was not recorded .* in a bag the topic tracking/brick"
    with pytest.raises(IdentificationError, match=words):
        resample(recording, model)


HINGE = """<mujoco><option timestep="{step}"/><worldbody><body>
  <joint name="hinge" type="hinge"/><geom size="0.1" pos="1 0 0" mass="1"/></body>
</worldbody></mujoco>"""


def swinging(period):
    """Return a recording of 200 positions of a hinge."""
    time = period * np.arange(200)
    signal = Signal('position', 'hinge', 'rad', time, np.sin(9.0 * time), 'position/hinge')
    return Recording({('position', 'hinge'): signal}, ())


def hinge(step):
    return mujoco.MjModel.from_xml_string(HINGE.format(step=step))


def test_joints_may_be_sampled_less_often_than_the_model_steps():
    motion = resample(swinging(0.004), hinge(0.001), steps_per_sample=4)
    seen = np.arange(motion.steps) % 4 == 0
    np.testing.assert_array_equal(motion.observed[:, 0], seen)
    assert motion.weights[~seen].max() < 1e-3  # interpolated
    with pytest.raises(IdentificationError, match='a sample every 0.004 s, and the model steps'):
        resample(swinging(0.004), hinge(0.001))


@pytest.mark.parametrize(
    ('period', 'scene_step', 'expected'),
    [
        (0.01, 0.01, 0.01),  # may be a simulation with the scene's step
        (0.02, 0.01, 0.01),
        (0.004, 0.01, 0.001),
        (0.001, 0.01, 0.001),
        (1 / 300, 0.01, 1 / 1200),
        (0.0004, 0.01, 0.0004),
        (0.004, 0.0005, 0.0005),
    ],
)
def test_the_default_step_is_short_if_samples_come_between_the_steps_of_the_scene(
    period, scene_step, expected
):
    found = default_step([swinging(period)], hinge(scene_step))
    assert found == pytest.approx(expected, abs=1e-6)  # rounded to microseconds

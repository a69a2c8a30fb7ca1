"""Trees of several parts, and their export to MuJoCo and back."""

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
import yaml

from benchmarks.articulation import mechanisms
from benchmarks.articulation.mechanisms import MECHANISMS, Mechanism
from emppi_ros.articulation import joint_models, mjcf, report, rigid_motion, topology, tracks
from emppi_ros.articulation.tracks import Tracks
from emppi_ros.core import config
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.pose import Poses
from emppi_ros.priors.distributions import Prior
from emppi_ros.tasks.schema import ParameterConfig, TrackedObjectConfig
from emppi_ros.tracking.jointed_parts import JointedParts

from .conftest import AXIS, as_tracks, on_hinge, on_slide, part

RISE = np.linspace(0.0, 1.0, 40)
PRECISE = tracks.Noise(0.0005, float(np.radians(0.25)))


@pytest.fixture(scope='module')
def cabinet():
    """Return tree and mechanism of a cabinet with a drawer and a door."""
    rng = np.random.default_rng(500)
    mechanism = MECHANISMS['cabinet-together'](rng)
    whole = mechanisms.track(mechanism, PRECISE, 0.0, rng)
    moving = tuple(one for one in whole.parts if one.name != 'cabinet')
    return topology.infer(Tracks(whole.time, moving)), mechanism


@pytest.mark.slow
def test_a_cabinet_is_recognised_and_its_axes_are_those_of_the_model(cabinet):
    tree, mechanism = cabinet
    found = mechanisms.compare(tree, mechanism)
    assert (found.topology, found.kinds) == (True, True)
    sds = [joint.axis_sd_rad for joint in tree.joints if np.isfinite(joint.axis_sd_rad)]
    for error, sd in zip(found.axis_rad, sds, strict=True):
        assert error < 4.0 * sd  # in the worst of two directions


def test_the_exported_model_moves_as_the_tree_says(cabinet):
    """Joint positions of the tree, simulated by MuJoCo, give the measured poses."""
    tree, _ = cabinet
    model = mujoco.MjModel.from_xml_string(mjcf.to_text(tree))
    data = mujoco.MjData(model)
    by_name = {one.name: one for one in tree.tracks.parts}
    off, turned = [], []
    for frame in range(len(tree.tracks.time)):
        for joint in tree.joints:
            if joint.kind != 'static':
                data.joint(joint.child).qpos = joint.q[frame, 0]
        if np.isnan(data.qpos).any():  # a frame that a joint does not explain
            continue
        mujoco.mj_kinematics(model, data)
        for name, one in by_name.items():
            off.append(data.body(name).xpos - one.poses.position[frame])
            there = Rotation.from_matrix(data.body(name).xmat.reshape(3, 3))
            measured = Rotation.from_matrix(one.poses.rotation[frame])
            turned.append((there * measured.inv()).as_rotvec())
    # what is left is the noise of the tracks, but for the direction along each joint: five of six
    squares = np.sum(np.square(off)) / PRECISE.position_sd_m**2
    squares += np.sum(np.square(turned)) / PRECISE.rotation_sd_rad**2
    # a chi-square of 1500 has a relative standard deviation of 4 %
    assert len(off) > 280
    assert squares / (5 * len(off)) == pytest.approx(1.0, abs=0.12)


@pytest.mark.parametrize('name', ['drawer', 'door'])
def test_covariances_in_the_exported_model_are_of_motions_of_the_joint(cabinet, rng, name):
    tree, _ = cabinet
    joint = tree.joint(name)
    step = 1e-3 * rng.normal(size=12)  # of the fit's parameters: m and rad
    in_child = rigid_motion.adjoint(joint.model.child.inverse()) @ step[6:]
    motions = np.concatenate([step[:6], in_child])
    places = []
    for model, covariance in (
        (joint.model, np.outer(motions, motions)),
        (joint_models.changed(joint.model, step), None),
    ):
        own = dataclasses.replace(joint, model=model, covariance=covariance)
        others = [one for one in tree.joints if one.child != name]
        others = [dataclasses.replace(one, covariance=None) for one in others]
        text = mjcf.to_text(dataclasses.replace(tree, joints=(own, *others)))
        jointed = JointedParts(mujoco.MjModel.from_xml_string(text), (name,))
        places.append(jointed.places(np.array([0.4, 0.4])))
    before, after = (one.poses for one in places)
    turn = Rotation.from_matrix(after.rotation[0] @ before.rotation[0].T).as_rotvec()
    moved = np.concatenate([after.position[0] - before.position[0], turn])
    expected = np.outer(moved, moved)
    # second order of the step, and rounding of the file: 0.1 % each
    np.testing.assert_allclose(places[0].covariance, expected, atol=0.01 * np.abs(expected).max())


def round_trip(first, seed):
    """Return the tree of tracks that MuJoCo makes from a tree's model and joint positions."""
    model = mujoco.MjModel.from_xml_string(mjcf.to_text(first))
    columns = []
    for signal in report.signals(first):
        time = first.tracks.time
        columns.append(np.interp(time, signal.time, signal.values))
        assert model.joint(signal.of).qposadr[0] == len(columns) - 1  # in the order of qpos
    again = Mechanism(model, np.column_stack(columns))
    rng = np.random.default_rng(seed)
    return topology.infer(mechanisms.track(again, PRECISE, 0.0, rng))


def check_equal(first, second):
    edges = [(j.parent, j.child, j.kind) for j in first.joints]
    assert edges == [(j.parent, j.child, j.kind) for j in second.joints]
    for old, new in zip(first.joints, second.joints, strict=True):
        if old.kind != 'static':
            apart = np.linalg.norm(np.cross(old.model.axis, new.model.axis))
            assert apart < 4.0 * new.axis_sd_rad
            # signs and zeros are conventions: positions agree up to noise, of 0.25 degrees
            both = np.isfinite(old.q[:, 0]) & np.isfinite(new.q[:, 0])
            assert np.std(old.q[both, 0] - new.q[both, 0]) < 0.01


def test_tracks_of_an_exported_model_give_the_same_tree(rng):
    """Through MuJoCo: tree -> MJCF -> mj_kinematics -> tracks -> tree."""
    q = np.interp(np.arange(mechanisms.FRAMES), [0, 75, 150], [0.0, 1.0, -0.2])
    sd = PRECISE.position_sd_m, PRECISE.rotation_sd_rad
    first = topology.infer(as_tracks(part('door', *on_hinge(q), rng, sd=sd)))
    check_equal(first, round_trip(first, 1))


@pytest.mark.slow
@pytest.mark.parametrize('name', ['cabinet-in-turn', 'jar', 'chain'])
def test_tracks_of_exported_mechanisms_give_the_same_tree(name):
    rng = np.random.default_rng(501)
    first = topology.infer(mechanisms.track(MECHANISMS[name](rng), PRECISE, 0.0, rng))
    check_equal(first, round_trip(first, 2))


def test_a_screw_is_coupled_by_an_equality(rng):
    turn = np.linspace(0.0, 9.0, 60)
    rotation, position = on_hinge(turn, arm=(0.03, 0.0, 0.0))
    lid = part('lid', rotation, position + np.outer(0.006 * turn, AXIS), rng)
    tree = topology.infer(as_tracks(lid))
    stub = yaml.safe_load(mjcf.task_stub(tree, Path('lid.xml'), 'lid'))
    assert stub['objects'] == {}  # tracked objects have one hinge or slide
    model = mujoco.MjModel.from_xml_string(mjcf.to_text(tree))
    assert tree.joint('lid').kind == 'screw'
    assert model.eq_data[0, 1] == pytest.approx(0.006, rel=0.1)
    assert {model.joint(i).name for i in range(2)} == {'lid', 'lid_translation'}
    data = mujoco.MjData(model)
    model.opt.gravity[:] = 0.0
    data.joint('lid').qvel = 5.0
    data.joint('lid_translation').qvel = 5.0 * model.eq_data[0, 1]
    while data.time < 0.5:
        mujoco.mj_step(model, data)
    moved = data.joint('lid_translation').qpos[0] / data.joint('lid').qpos[0]
    assert moved == pytest.approx(model.eq_data[0, 1], rel=0.05)  # a soft constraint


@pytest.mark.slow
def test_a_part_that_nothing_holds_is_free_and_one_on_a_table_is_planar(rng):
    count = 60
    wave = np.sin(np.outer(np.linspace(0.0, 6.0, count), [1.0, 1.7, 2.3, 1.3, 2.9, 0.7]))
    flat = Rotation.from_rotvec(wave[:, [2]] * [0.0, 0.0, 1.0])
    on_table = part('block', flat, 0.3 * wave[:, :3] * [1.0, 1.0, 0.0], rng)
    in_hand = part('cup', Rotation.from_rotvec(0.8 * wave[:, 3:]), 0.3 * wave[:, :3], rng)
    tree = topology.infer(as_tracks(on_table, in_hand))
    assert {joint.child: joint.kind for joint in tree.joints} == {'block': 'planar', 'cup': 'free'}
    normal = tree.joint('block').model.axis
    assert abs(normal[2]) == pytest.approx(1.0, abs=1e-3)
    model = mujoco.MjModel.from_xml_string(mjcf.to_text(tree))
    assert not model.body('block').simple[0]  # its joints may be displaced
    data = mujoco.MjData(model)
    frame = 30
    for (name, _), value in zip(
        mjcf.joint_names(tree.joint('block')), tree.joint('block').q[frame], strict=True
    ):
        data.joint(name).qpos = value
    mujoco.mj_kinematics(model, data)
    apart = data.body('block').xpos - on_table.poses.position[frame]
    assert np.linalg.norm(apart) < 5.0 * 0.002


def shifted_after_a_turn(rng, shift):
    """Return a part that turns about a vertical axis, and in the last quarter is moved."""
    late = np.clip(RISE - 0.75, 0.0, None)[:, None]
    turn = Rotation.from_rotvec(1.2 * np.minimum(RISE, 0.75)[:, None] * [0.0, 0.0, 1.0])
    return part('lid', turn, turn.apply([0.3, 0.0, 0.0]) + late * shift, rng)


@pytest.mark.parametrize(
    ('shift', 'candidates'),
    [
        # along the radius: planar as a whole. Up: no joint has it
        ([0.8, 0.4, 0.0], ('planar',)),
        ([0.0, 0.0, 1.2], ('revolute', 'free')),
    ],
)
def test_a_joint_that_misses_many_frames_in_a_row_is_not_the_whole_motion(rng, shift, candidates):
    joint = topology.infer(as_tracks(shifted_after_a_turn(rng, shift))).joint('lid')
    assert joint.candidates == candidates
    assert joint.kind == (candidates[0] if len(candidates) == 1 else 'undecided')


def test_as_many_wrong_poses_that_are_scattered_leave_the_joint(rng):
    whole = shifted_after_a_turn(rng, np.zeros(3))
    wrong = rng.permutation(40) < 10
    position = whole.poses.position + wrong[:, None] * rng.uniform(-0.3, 0.3, (40, 3))
    poses = Poses(position, whole.poses.rotation)
    joint = topology.infer(as_tracks(dataclasses.replace(whole, poses=poses))).joint('lid')
    assert joint.kind == 'revolute'
    assert joint.explained == pytest.approx(0.75, abs=0.06)


@pytest.mark.slow
def test_a_joint_between_moving_parts_does_not_depend_on_their_order(rng):
    wave = np.sin(np.outer(np.linspace(0.0, 6.0, 60), [1.0, 1.7, 2.3, 1.3, 2.9, 0.7]))
    base = Rotation.from_rotvec(0.6 * wave[:, 3:])
    turn, arm = on_hinge(1.5 * RISE.repeat(2)[:60])
    hand = part('hand', base, 0.3 * wave[:, :3], rng)
    tool = part('tool', base * turn, 0.3 * wave[:, :3] + base.apply(arm), rng)
    one = topology.infer(as_tracks(hand, tool))
    two = topology.infer(as_tracks(tool, hand))
    joints = [next(j for j in tree.joints if j.kind == 'revolute') for tree in (one, two)]
    assert {(j.parent, j.child) for j in joints} <= {('hand', 'tool'), ('tool', 'hand')}
    assert joints[0].travel == pytest.approx(joints[1].travel, abs=0.02)
    assert joints[0].axis_sd_rad == pytest.approx(joints[1].axis_sd_rad, rel=0.1)


def test_the_axis_points_along_its_largest_component(cabinet):
    tree, _ = cabinet
    for joint in tree.joints:
        if joint.kind != 'static':
            axis = joint.model.axis
            assert axis[np.argmax(np.abs(axis))] > 0.0
            assert joint.q[np.isfinite(joint.q[:, 0])][0, 0] == 0.0


def test_frames_in_which_a_part_was_not_seen_have_no_position(rng):
    rotation, position = on_slide(0.3 * RISE)
    whole = part('drawer', rotation, position, rng)
    seen = np.ones(40, bool)
    seen[10:20] = False
    tree = topology.infer(
        as_tracks(tracks.PartTrack('drawer', whole.poses, whole.covariance, seen))
    )
    assert tree.joint('drawer').kind == 'prismatic'
    assert np.isnan(tree.joint('drawer').q[10:20]).all()


@pytest.mark.parametrize(('factor', 'kind'), [(3.0, 'revolute'), (12.0, 'free')])
def test_a_joint_may_leave_a_few_times_the_given_noise(rng, factor, kind):
    sd = tuple(factor * np.array([0.002, np.radians(1.0)]))
    noisy = part('door', *on_hinge(1.2 * RISE), rng, sd=sd)
    assert topology.infer(as_tracks(noisy)).joint('door').kind == kind


def test_positions_of_a_wheel_go_on_over_several_turns(rng):
    q = np.linspace(0.0, 4.0 * np.pi, 60)
    joint = topology.infer(as_tracks(part('wheel', *on_hinge(q, (0.2, 0.0, 0.0)), rng))).joint(
        'wheel'
    )
    assert joint.kind == 'revolute'
    assert abs(joint.q[-1, 0]) == pytest.approx(4.0 * np.pi, abs=0.1)
    assert joint.travel == pytest.approx(0.96 * 4.0 * np.pi, rel=0.03)  # without the outer 2 %


def test_a_short_track_is_refused(rng):
    rotation, position = on_slide(0.3 * RISE[:6])
    with pytest.raises(IdentificationError, match='pose/drawer: seen in 6 of 6 frames'):
        topology.infer(Tracks(RISE[:6], (part('drawer', rotation, position, rng),)))


def test_the_task_stub_has_valid_parameters_and_objects(cabinet, tmp_path):
    tree, _ = cabinet
    stub = yaml.safe_load(mjcf.task_stub(tree, tmp_path / 'model.xml', 'cabinet'))
    assert stub['scene'] == 'model.xml'
    assert set(stub['objects']) == {'drawer', 'door'}
    for name, entry in stub['parameters'].items():
        assert isinstance(config.build(ParameterConfig, entry, name).prior, Prior)
    for name, entry in stub['objects'].items():
        assert config.build(TrackedObjectConfig, entry, name).motion == 'jointed'


def test_the_report_names_alternatives_and_reasons(cabinet, tmp_path):
    tree, _ = cabinet
    written = report.write(tree, tmp_path / 'report')
    text = written[0].read_text()
    assert '| drawer | world | prismatic |' in text
    assert '| world - drawer | drawer - door |' in text
    assert 'm away)' in text
    assert [path.name for path in written] == ['report.md', 'axes.png', 'positions.png']

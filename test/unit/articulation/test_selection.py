"""Types are right where the motion shows them, and undecided where it does not."""

import numpy as np
import pytest

from emppi_ros.articulation import selection, topology, tracks

from .conftest import AXIS, SD, as_tracks, observe, on_hinge, on_slide, part

RISE = np.linspace(0.0, 1.0, 60)


def select(one):
    return selection.select(observe(one), np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize('oriented', [True, False])
@pytest.mark.parametrize(
    ('kind', 'motion'),
    [
        ('static', on_slide(0.0 * RISE)),
        ('prismatic', on_slide(0.4 * RISE)),
        ('revolute', on_hinge(RISE)),
    ],
)
def test_the_type_is_the_one_that_moved(kind, motion, oriented, rng):
    assert select(part('thing', *motion, rng, oriented=oriented)).kind == kind


def test_a_part_whose_roll_nobody_sees_shows_its_hinge(rng):
    rotation, position = on_hinge(RISE)
    rolls = type(rotation).from_rotvec(rng.uniform(-1.0, 1.0, (60, 1)) * [0.0, 0.0, 1.0])
    rolled = part('bottle', rotation * rolls, position, rng)
    axes = rotation.as_matrix()[:, :, 2]  # of the cylinder
    blind = rolled.covariance.copy()
    blind[:, 3:, 3:] += tracks.UNKNOWN_SD**2 * axes[:, :, None] * axes[:, None, :]
    found = select(tracks.PartTrack('bottle', rolled.poses, blind, rolled.seen))
    assert found.kind == 'revolute'
    assert np.linalg.norm(np.cross(found.best.model.axis, AXIS)) < np.radians(2.0)
    # without saying so, the roll is taken for noise of 30 degrees
    assert select(rolled).scale > 10.0 * found.scale


def test_a_slide_of_positions_that_cannot_show_a_hinge_is_undecided(rng):
    found = select(part('drawer', *on_slide(0.05 * RISE), rng, oriented=False))
    assert found.kind == 'undecided'
    assert set(found.candidates) == {'prismatic', 'revolute'}


@pytest.mark.parametrize('sd', [0.0001, 0.001, 0.002, 0.004])  # m; 0.002 is the given one
@pytest.mark.parametrize('arc', [0.08, 0.3])
@pytest.mark.parametrize('radius', [1.4, 2.2, 2.8])
def test_a_far_hinge_is_never_a_slide(radius, arc, sd, rng):
    door = on_hinge(arc / radius * RISE, arm=(radius, 0.0, 0.0))
    found = select(part('gate', *door, rng, sd=(sd, SD[1]), oriented=False))
    assert 'revolute' in found.candidates


@pytest.mark.parametrize('oriented', [True, False])
def test_a_far_hinge_that_turned_far_is_a_hinge(oriented, rng):
    door = on_hinge(0.7 * RISE, arm=(1.6, 0.0, 0.0))
    assert select(part('gate', *door, rng, oriented=oriented)).kind == 'revolute'


def test_a_slide_with_play_that_a_hinge_fits_better_is_undecided(rng):
    rotation, position = on_slide(0.4 * RISE)
    across = np.cross(AXIS, [1.0, 0.0, 0.0])
    bent = position + 0.025 * np.outer(RISE * (1.0 - RISE), across)  # 6 mm
    drawer = part('drawer', rotation, bent, rng, oriented=False)
    joint = topology.infer(as_tracks(drawer)).joints[0]
    assert set(joint.candidates) == {'prismatic', 'revolute'}


def test_a_slide_is_never_a_hinge_that_is_far_away(rng):
    # a rotation that grows along the slide, as of a marker that bends: a circle of 4 m
    rotation, position = on_slide(0.4 * RISE)
    bent = type(rotation).from_rotvec(np.outer(0.1 * RISE, [0.0, 1.0, 0.0])) * rotation
    found = select(part('drawer', bent, position, rng))
    assert found.kind != 'revolute'
    assert 'away' in found.fits['revolute'].reason


def test_a_screw_is_a_hinge_if_it_turned_little(rng):
    q = 0.8 * RISE
    rotation, position = on_hinge(q, arm=(0.05, 0.0, 0.0))
    found = select(part('lid', rotation, position, rng))
    assert found.fits['screw'].reason.startswith('turned')
    assert found.kind == 'revolute'


@pytest.mark.slow
def test_larger_noise_than_given_is_measured_and_weakens_evidence(rng):
    noisy = part('drawer', *on_slide(0.4 * RISE), rng, sd=(0.008, np.radians(4.0)))
    found = select(noisy)
    assert np.sqrt(found.scale) == pytest.approx(4.0, rel=0.3)  # a median of 60 squares
    gap = found.fits['static'].cost - found.fits['prismatic'].cost
    precise = select(part('drawer', *on_slide(0.4 * RISE), rng))
    assert 0.0 < gap < precise.fits['static'].cost - precise.fits['prismatic'].cost


def test_costs_do_not_change_when_the_world_moves(rng):
    rotation, position = on_hinge(RISE)
    one = part('door', rotation, position, rng)
    turn = type(rotation).from_euler('xyz', [0.4, -0.8, 1.2])
    moved = tracks.from_arrays(
        'door',
        turn.apply(one.poses.position) + [1.0, -2.0, 0.5],
        (turn * type(rotation).from_matrix(one.poses.rotation)).as_quat()[:, [3, 0, 1, 2]],
    )
    before, after = select(one), select(moved)
    assert before.candidates == after.candidates
    for kind in ('static', 'revolute'):  # unique minima; the convergence of the fit is 1e-5
        assert after.fits[kind].cost == pytest.approx(before.fits[kind].cost, rel=1e-3)

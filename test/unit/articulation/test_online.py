"""The tree of what moved so far: undecided at first, then right, with growing evidence."""

import numpy as np
import pytest

from emppi_ros.articulation import online
from emppi_ros.articulation.online import OnlineArticulationConfig, PoseHistory
from emppi_ros.core.errors import IdentificationError

from .conftest import on_hinge, on_slide, part

SETTINGS = OnlineArticulationConfig()


def poses(one):
    return one.poses.rows


def replay(history, clock, **rows):
    for i, time in enumerate(clock):
        for name, own in rows.items():
            history = online.add(SETTINGS, history, name, time, own[i])
    return history


@pytest.mark.slow
def test_types_are_undecided_before_the_motion_and_evidence_grows_with_it(rng):
    share = np.concatenate([np.zeros(60), np.linspace(0.0, 1.0, 40)])  # 2 s of rest
    drawer, door = part('drawer', *on_slide(0.3 * share), rng), part('door', *on_hinge(share), rng)
    clock, history, found = np.arange(100) / 30.0, PoseHistory(), []
    for start, stop in ((0, 60), (60, 80), (80, 100)):
        chosen = slice(start, stop)
        rows = {one.name: poses(one)[chosen] for one in (drawer, door)}
        history = replay(history, clock[chosen], **rows)
        found.append(online.propose(SETTINGS, history))
    assert found[0].kinds == {'drawer': 'undecided', 'door': 'undecided'}
    right = {'drawer': 'prismatic', 'door': 'revolute'}
    assert found[1].kinds == found[2].kinds == right
    for name in right:
        assert found[2].evidence[name] > found[1].evidence[name] > 3.0  # odds of 20 to 1
        before, after = (one.tree.joint(name).axis_sd_rad for one in found[1:])
        assert after < before


def test_frames_are_far_apart_and_few(rng):
    settings = OnlineArticulationConfig(frames=20, rest_s=1.0)
    one, history = part('drawer', *on_slide(np.linspace(0.0, 2.0, 200)), rng), PoseHistory()
    for time, pose in zip(np.arange(200) / 100.0, poses(one), strict=True):
        history = online.add(settings, history, 'drawer', time, pose)
        assert len(history.kept) <= 20
    places = np.array([frame.poses['drawer'][:3] for frame in history.kept])
    # 10 mm a frame; noise of 2 mm per axis
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).min() > 0.005
    assert np.linalg.norm(places[-1] - places[0]) > 1.5


def test_poses_that_come_too_late_are_left_out_and_a_clock_set_back_begins_again():
    pose = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    history = replay(PoseHistory(), [5.0, 5.5], lid=[pose, pose + [0.1, 0, 0, 0, 0, 0, 0]])
    assert len(history.kept) == 1
    together = online.add(SETTINGS, history, 'jar', 5.503, pose)
    assert set(together.open.poses) == {'lid', 'jar'} and together.open.time == 5.5
    assert online.add(SETTINGS, together, 'jar', 5.4, pose) == together
    again = online.add(SETTINGS, together, 'lid', 1.0, pose)
    assert again.kept == () and again.open.time == 1.0
    assert online.propose(SETTINGS, again) is None  # too few frames


def test_errors_along_an_axis_of_huge_variance_do_not_change_the_tree(rng):
    door = part('door', *on_hinge(np.linspace(0.0, 0.8, 30)), rng)
    covariance, clean = door.covariance.copy(), poses(door)
    covariance[:, 2, 2] = 100.0**2  # m^2: the height is not seen
    wrong = clean.copy()
    wrong[:, 2] += np.linspace(0.0, 0.1, 30)

    def infer(rows, known):
        history = PoseHistory()
        for i, time in enumerate(np.arange(30) / 4.0):  # one frame each
            history = online.add(SETTINGS, history, 'door', time, rows[i])
            if known is not None:
                history = online.add_covariance(SETTINGS, history, 'door', time, known[i])
        return online.propose(SETTINGS, history)

    right, same = infer(clean, covariance), infer(wrong, covariance)
    assert right.kinds == same.kinds == {'door': 'revolute'}
    axes = [one.tree.joint('door').model.axis for one in (right, same, infer(wrong, None))]
    # errors of 0.1 m are a thousandth of their deviation; a twentieth is where the fit stops
    sd = right.tree.joint('door').axis_sd_rad
    np.testing.assert_allclose(axes[1], axes[0], atol=0.1 * sd)
    assert np.abs(axes[2] - axes[0]).max() > sd


@pytest.mark.parametrize('later', [-1, 0, 1])
def test_covariances_belong_to_poses_of_the_same_stamp_whatever_comes_first(later):
    pose, known = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), np.zeros((20, 6, 6))
    known[:] = np.arange(1.0, 21.0)[:, None, None] * (np.eye(6) + 0.1)
    given, history = np.triu(known), PoseHistory()  # as in bags, the upper triangle counts
    for i in range(-1, 21):
        if 0 <= i < 20:
            history = online.add(SETTINGS, history, 'lid', i / 4.0, pose)
        if 0 <= (j := i - later) < 20 and j != 4:  # one is lost: that of the frame before holds
            history = online.add_covariance(SETTINGS, history, 'lid', j / 4.0, given[j])
    found = online.as_tracks(SETTINGS, history).parts[0].covariance
    np.testing.assert_array_equal(found, known[[0, 1, 2, 3, 3, *range(5, 19)]])
    assert history.waiting == ()


def test_covariances_that_cannot_be_are_refused():
    with pytest.raises(IdentificationError, match='lid: the covariance is not positive definite'):
        online.add_covariance(SETTINGS, PoseHistory(), 'lid', 9.0, np.zeros((6, 6)))
    with pytest.raises(IdentificationError, match='covariance/lid: covariance with values that'):
        online.add_covariance(SETTINGS, PoseHistory(), 'lid', 9.0, np.full((6, 6), np.nan))

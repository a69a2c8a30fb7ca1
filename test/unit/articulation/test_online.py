"""The tree of what moved so far: undecided at first, then right, with growing evidence."""

import numpy as np

from emppi_ros.articulation import online
from emppi_ros.articulation.online import OnlineArticulationConfig, PoseHistory
from emppi_ros.tracking import renderer
from emppi_ros.tracking.renderer import Placement

from .conftest import on_hinge, on_slide, part

SETTINGS = OnlineArticulationConfig()


def poses(one):
    return renderer.pose_rows(Placement(one.poses.position, one.poses.rotation))


def replay(history, clock, **rows):
    for i, time in enumerate(clock):
        for name, own in rows.items():
            history = online.add(SETTINGS, history, name, time, own[i])
    return history


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

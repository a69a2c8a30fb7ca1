"""Tracks from tables and bags, and errors that people can act on."""

import numpy as np
import pytest

from emppi_ros.articulation import tracks
from emppi_ros.core.errors import IdentificationError
from emppi_ros.recordings import tables
from emppi_ros.recordings.signals import UNITS, Signal, covariance_triangles

HEADER = 'time_s,pose/a.x [m],pose/a.y [m],pose/a.z [m]'
TURN = ',pose/a.qw [1],pose/a.qx [1],pose/a.qy [1],pose/a.qz [1]'
VARIANCES = ''.join(f',covariance/a.{one}.{one} [SI]' for one in tracks.ERRORS)


def write(path, header, *rows):
    path.write_text('\n'.join([header, *rows]) + '\n')
    return path


def test_a_table_of_poses_is_read_back(tmp_path):
    rng = np.random.default_rng(0)
    quaternion = rng.standard_normal((20, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1)[:, None]
    values = np.hstack([rng.standard_normal((20, 3)), quaternion])
    path = tmp_path / 'poses.csv'
    tables.write(path, [Signal('pose', 'door', 'm, 1', np.arange(20) / 30.0, values, '')])
    found = tracks.read([path])
    assert [one.name for one in found.parts] == ['door']
    np.testing.assert_allclose(found.parts[0].poses.position, values[:, :3])
    x, y = found.parts[0].poses.rotation[:, 0, 0], values[:, 3] ** 2 + values[:, 4] ** 2
    np.testing.assert_allclose(x, 2.0 * y - 1.0, atol=1e-12)  # of a unit quaternion
    np.testing.assert_allclose(found.parts[0].covariance[0], tracks.Noise().covariance())


def test_zero_quaternions_and_empty_cells_are_frames_without_the_part(tmp_path):
    rows = '0,1,2,3,1,0,0,0', '1,1,2,3,0,0,0,0', '2,,,,,,,', '3,1,2,3,0,1,0,0'
    path = write(tmp_path / 'a.csv', HEADER + TURN, *rows)
    assert tracks.read([path]).parts[0].seen.tolist() == [True, False, False, True]


def test_positions_alone_have_unknown_rotations(tmp_path):
    one = tracks.read([write(tmp_path / 'a.csv', HEADER, '0,1,2,3', '1,1,2,3')]).parts[0]
    assert not one.oriented
    assert one.covariance[0, 3, 3] == tracks.UNKNOWN_SD**2


def test_covariances_are_read_with_their_correlations(tmp_path):
    header = HEADER + TURN + VARIANCES + ',covariance/a.x.rz [m rad]'
    path = write(tmp_path / 'a.csv', header, '0,1,2,3,1,0,0,0,4,5,6,7,8,9,0.5')
    covariance = tracks.read([path]).parts[0].covariance[0]
    np.testing.assert_allclose(np.diag(covariance), [4, 5, 6, 7, 8, 9])
    assert covariance[0, 5] == covariance[5, 0] == 0.5


def test_poses_and_covariances_of_emppi_track_are_read(tmp_path):
    rng = np.random.default_rng(3)
    roots = rng.standard_normal((12, 6, 6))
    covariance = roots @ np.swapaxes(roots, 1, 2)
    poses = np.hstack([rng.standard_normal((12, 3)), np.tile([1.0, 0.0, 0.0, 0.0], (12, 1))])
    time, triangles = np.arange(12) / 30.0, covariance_triangles(covariance)
    path = tmp_path / 'tracks.csv'
    pose = Signal('pose', 'door', UNITS['pose'][0], time, poses, '')
    tables.write(path, [pose, pose._replace(kind='covariance', values=triangles)])
    np.testing.assert_allclose(tracks.read([path]).parts[0].covariance, covariance)


@pytest.mark.parametrize(
    ('header', 'rows', 'message'),
    [
        (HEADER + ',pose/a.qw [1]', ['0,1,2,3,1'], 'pose/a: no column for qx, qy, qz'),
        (HEADER + TURN, ['0,1,2,3,2,0,0,0'], 'quaternion of length 2 in frame 0, expected 1'),
        (HEADER, ['0,1,2,3', '0,1,2,3'], 'row 1 is not after the one before'),
        ('time_s,position/hinge [rad]', ['0,1'], 'no poses: expected columns such as'),
        (HEADER + ',pose/a.w [1]', ['0,1,2,3,1'], "expected a name such as 'pose/block.x"),
        (HEADER + ',covariance/b.x.x [m]', ['0,1,2,3,1'], 'covariance/b: no pose/b'),
        (HEADER + ',covariance/a.x.x [m]', ['0,1,2,3,1'], 'variance of y, z'),
        (HEADER + TURN + VARIANCES, ['0,1,2,3,1,0,0,0,1,1,1,1,1,-1'], 'not positive definite'),
    ],
)
def test_errors_name_file_and_column(tmp_path, header, rows, message):
    path = write(tmp_path / 'a.csv', header, *rows)
    with pytest.raises(IdentificationError, match='a.csv') as caught:
        tracks.read([path])
    assert message in str(caught.value)


def test_two_tables_are_refused(tmp_path):
    path = write(tmp_path / 'a.csv', HEADER, '0,1,2,3')
    with pytest.raises(IdentificationError, match='a second table'):
        tracks.read([path, path])


def test_errors_of_the_parent_grow_with_the_distance_of_the_child():
    rng = np.random.default_rng(1)
    count = 20_000
    parent = tracks.world(count)
    turned = np.hstack([np.ones((count, 1)), 0.005 * rng.standard_normal((count, 3))])
    turned /= np.linalg.norm(turned, axis=1)[:, None]  # half the angle: 0.01 rad
    shape = (count, 1, 1)
    turning = np.tile(np.diag([1e-12] * 3 + [1e-4] * 3), shape)
    base = tracks.from_arrays('base', np.zeros((count, 3)), turned, turning)
    place, still = np.tile([2.0, 0.0, 0.0], (count, 1)), np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))
    child = tracks.from_arrays('child', place, still, np.tile(1e-12 * np.eye(6), shape))
    poses, covariance, _ = tracks.pair(base, child)
    spread = np.cov(poses.position.T)
    expected = covariance.mean(axis=0)[:3, :3]
    # 20 000 draws: 1 % of each variance; second order effects along x are 1e-8
    np.testing.assert_allclose(np.diag(spread)[1:], np.diag(expected)[1:], rtol=0.05)
    assert np.diag(expected)[1] == pytest.approx((2.0 * 0.01) ** 2, rel=0.01)
    assert np.all(tracks.pair(parent, child)[1][0] == child.covariance[0])


def test_poses_of_a_bag_are_interpolated_but_not_over_gaps():
    time = np.array([0.0, 0.1, 0.2, 0.3, 1.0, 1.1])
    values = np.zeros((6, 7))
    values[:, 0], values[:, 3] = time, 1.0
    clock = np.array([0.05, 0.25, 0.6, 1.05])
    found = tracks._at_times('a', time, values, clock, tracks.Noise())
    assert found.seen.tolist() == [True, True, False, True]
    np.testing.assert_allclose(found.poses.position[found.seen, 0], clock[found.seen])

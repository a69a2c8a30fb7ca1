"""Bags hold the same signals as tables, and errors name what is wrong with them."""

import json
import sys

from mcap.reader import make_reader
from mcap.writer import Writer
import numpy as np
import pytest
import zstandard

from benchmarks.identify import pendulums
from emppi_ros.articulation import tracks
from emppi_ros.cli import main
from emppi_ros.core.errors import EmppiError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.recordings import bag_reader, bags, tables
from emppi_ros.recordings.recordings import read_recording
from emppi_ros.tasks.task import load_task


def read(path):
    return read_recording([path])


def test_a_bag_holds_the_same_as_its_table(messages, tmp_path):
    bag = read(messages.write(tmp_path / 'run.mcap'))
    kinds = {key: len(signal.time) for key, signal in bag.signals.items()}
    assert kinds == {
        ('position', 'slider'): 200, ('position', 'hinge'): 200,
        ('velocity', 'slider'): 200, ('velocity', 'hinge'): 200,
        ('command', 'slider'): 400, ('pose', 'block'): 101,
    }  # fmt: skip
    assert bag.sources[0].name == 'run.mcap' and bag.notes == ()
    hinge = bag.signals['position', 'hinge']
    # stamps are integer nanoseconds, relative to the first of all
    np.testing.assert_allclose(hinge.time, 0.01 * np.arange(200), atol=1e-9)
    np.testing.assert_array_equal(hinge.values, np.cos(2.0 * np.arange(0.0, 2.0, 0.01)))
    for name in ('run.csv', 'run.parquet'):
        if name.endswith('parquet'):
            pytest.importorskip('pyarrow', reason='the extra `identify` is not installed')
        tables.write(tmp_path / name, list(bag.signals.values()))
        with pytest.raises(EmppiError, match=r"unit: found 'SI', expected rad or m: units"):
            read(tmp_path / name)
        units = {'position': 'm', 'velocity': 'm/s', 'command': 'N', 'pose': 'm, 1'}
        told = [one._replace(unit=units[one.kind]) for one in bag.signals.values()]
        tables.write(tmp_path / name, told)
        table = read(tmp_path / name)
        assert table.signals.keys() == bag.signals.keys()
        for key, signal in table.signals.items():
            np.testing.assert_array_equal(signal.time, bag.signals[key].time)
            np.testing.assert_array_equal(signal.values, bag.signals[key].values)


def test_namespaces_folders_and_efforts_are_read(messages, tmp_path):
    for t in np.arange(0.0, 2.0, 0.01):
        nan = [float('nan')]
        messages.state('arm/joint_states', t, ['elbow'], position=[t], velocity=nan, effort=[2.0])
    (tmp_path / 'bag').mkdir()
    messages.write(tmp_path / 'bag' / 'bag_0.mcap', prefix='/left/')
    found = read(tmp_path / 'bag')
    assert found.sources[0].name == 'bag_0.mcap'
    assert ('position', 'hinge') in found.signals and ('pose', 'block') in found.signals
    assert set(found.signals['effort', 'elbow'].values) == {2.0}
    assert ('velocity', 'elbow') not in found.signals  # all NaN: not measured


def test_poses_alone_are_read_without_joint_states(messages, tmp_path):
    whole = read(messages.write(tmp_path / 'whole.mcap')).signals['pose', 'block']
    messages.rows = [row for row in messages.rows if row[0].startswith('tracking/')]
    path = messages.write(tmp_path / 'poses.mcap')
    ((pose,), _, notes) = bags.read([path], 'pose')
    assert (pose.of, notes) == ('block', [])
    # signs and lengths of quaternions are aligned later: one rounding error
    np.testing.assert_allclose(np.abs(pose.values), np.abs(whole.values), atol=1e-15)
    (track,) = tracks.read([path]).parts
    assert track.name == 'block' and track.seen.all()


def test_covariances_of_poses_are_read_from_their_own_topic(messages, tmp_path):
    root = np.random.default_rng(0).normal(size=(6, 6))
    covariance = 1e-6 * root @ root.T
    times, still = np.arange(0.0, 2.0, 0.1), [1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0]
    for t in times:
        messages.pose('cup', t, still, (1.0 + t) * covariance)
    path = messages.write(tmp_path / 'run.mcap')
    block, cup = tracks.read([path]).parts
    # one rounding of the mean of both triangles; stamps are those of the poses of the block
    nearest = times[np.abs(tracks.read([path]).time[:, None] - times).argmin(axis=1)]
    expected = (1.0 + nearest)[:, None, None] * covariance
    np.testing.assert_allclose(cup.covariance[cup.seen], expected[cup.seen], rtol=1e-6)
    np.testing.assert_array_equal(
        block.covariance, tracks.Noise().covariance()[None].repeat(101, 0)
    )
    assert 'covariance' not in {one.kind for one in bags.read([path])[0]}
    messages.pose('cup', 2.0, still, -covariance)
    with pytest.raises(
        EmppiError, match='tracking_covariance/cup: row 21 is not positive definite'
    ):
        tracks.read([messages.write(tmp_path / 'wrong.mcap')])


def test_a_bag_without_poses_says_which_topics_it_has(messages, tmp_path):
    messages.rows = [row for row in messages.rows if not row[0].startswith('tracking/')]
    with pytest.raises(EmppiError, match='no poses on a topic tracking/<object>'):
        bags.read([messages.write(tmp_path / 'run.mcap')], 'pose')


def test_bags_of_one_clock_need_positions_once(messages, tmp_path):
    rows, paths = messages.rows, []
    for name, is_state in (('states.mcap', True), ('tracking.mcap', False)):
        messages.rows = [row for row in rows if (row[0] == 'joint_states') is is_state]
        paths.append(messages.write(tmp_path / name))
    found = read_recording(paths)
    assert ('position', 'hinge') in found.signals and ('pose', 'block') in found.signals
    assert [source.name for source in found.sources] == ['states.mcap', 'tracking.mcap']


def test_a_truncated_bag_is_read_up_to_its_end(messages, tmp_path):
    path = messages.write(tmp_path / 'run.mcap')
    half = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(half)
    with pytest.raises(EmppiError, match=r'block: too short: .* samples.*; .* is truncated'):
        read(path)
    messages.rows = [row for row in messages.rows if row[0] != 'tracking/block']
    whole = read(messages.write(path)).signals
    path.write_bytes(path.read_bytes()[: int(0.6 * path.stat().st_size)])
    found = read(path)
    assert 'is truncated or damaged' in found.notes[0] and 'read up to there' in found.notes[0]
    hinge = found.signals['position', 'hinge']
    count = len(hinge.time)
    assert 100 <= count < 200
    np.testing.assert_array_equal(hinge.values, whole['position', 'hinge'].values[:count])


def compressed(path, mode):
    """
    Return a folder with a bag as `ros2 bag record --compression-mode` writes it.

    Instead of compressed, it may be without definitions.
    """
    folder, bare = path.parent / mode, mode == 'bare'
    folder.mkdir()
    if mode == 'file':
        # `ros2 bag record` writes one frame; the program zstd may write several
        whole = path.read_bytes()
        parts = [whole[k : k + 4096] for k in range(0, len(whole), 4096)]
        frames = [zstandard.compress(part) for part in parts]
        (folder / 'run_0.mcap.zstd').write_bytes(b''.join(frames))
        return folder
    with path.open('rb') as old, (folder / 'run_0.mcap').open('wb') as new:
        writer, channels = Writer(new), {}
        writer.start()
        for schema, channel, message in make_reader(old).iter_messages():
            if channel.id not in channels:
                channels[channel.id] = writer.register_channel(
                    channel.topic,
                    'cdr',
                    writer.register_schema(
                        schema.name, *(('', b'') if bare else (schema.encoding, schema.data))
                    ),
                )
            data = message.data if bare else zstandard.compress(message.data)
            writer.add_message(channels[channel.id], message.log_time, data, message.log_time)
        writer.finish()
    return folder


def check_same(found, expected):
    assert found.signals.keys() == expected.signals.keys() and len(found.signals) == 6
    for key, signal in found.signals.items():
        np.testing.assert_array_equal(signal.time, expected.signals[key].time)
        np.testing.assert_array_equal(signal.values, expected.signals[key].values)


@pytest.mark.parametrize('mode', ['file', 'message'])
def test_compressed_bags_hold_the_same(messages, tmp_path, monkeypatch, mode):
    path = messages.write(tmp_path / 'run.mcap')
    folder = compressed(path, mode)
    check_same(read(folder), read(path))
    (file,) = folder.iterdir()
    check_same(read(file), read(path))
    if mode == 'file':  # decompressed beside it
        (folder / 'run_0.mcap').write_bytes(path.read_bytes())
        check_same(read(folder), read(path))
        (folder / 'run_0.mcap').unlink()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, 'zstandard', None)
        with pytest.raises(EmppiError, match='by zstd: pip install zstandard, or .* conv'):
            read(folder)


def test_standard_types_need_no_definitions(messages, tmp_path, monkeypatch):
    pytest.importorskip('rosbags', reason='the extra `identify` is not installed')
    path = messages.write(tmp_path / 'run.mcap')
    folder = compressed(path, 'bare')
    check_same(read(folder), read(path))
    bag_reader._standard_definition.cache_clear()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, 'rosbags.typesys', None)
        with pytest.raises(EmppiError, match=r"schema ''; .* come from rosbags: pip install"):
            read(folder)
    bag_reader._standard_definition.cache_clear()


def test_truncated_compressed_bags_are_read_up_to_their_end(messages, tmp_path):
    messages.rows = [row for row in messages.rows if row[0] == 'joint_states']
    messages.write(tmp_path / 'run.mcap')
    (file,) = compressed(tmp_path / 'run.mcap', 'file').iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: -len(whole) // 3])
    found = read(file)
    assert 'is truncated or damaged' in found.notes[0]
    assert 100 <= len(found.signals['position', 'hinge'].time) < 200
    file.write_bytes(whole[:20])
    with pytest.raises(EmppiError, match='run_0.mcap.zstd: truncated: nothing of it'):
        read(file)
    file.write_bytes(b'no zstd' * 10)
    with pytest.raises(EmppiError, match='run_0.mcap.zstd: cannot be decompressed'):
        read(file)


def nothing(messages):
    messages.rows = [row for row in messages.rows if row[0] == 'emppi/applied']


def lost(messages):
    messages.rows = [
        row for row in messages.rows if row[0] != 'tracking/block' or not 1.0 < row[2] < 1.5
    ] + [(*row[:2], row[2] + 2.02, row[3]) for row in messages.rows if row[0] == 'tracking/block']


def broken(messages):
    messages.state('joint_states', 1.005, ['hinge'], position=[float('inf')])


def uneven(messages):
    messages.state('joint_states', 1.005, ['hinge'], position=[1.0, 2.0])


def commanded_twice(messages):
    messages.state('emppi/applied', 1.001, ['slider'], effort=[1.0], velocity=[1.0])


def other_type(messages):
    messages.state('tracking/cup', 1.0, ['hinge'], position=[1.0])


def stretched(messages):
    for topic, _, t, message in messages.rows:
        if topic == 'tracking/block' and t == 1.0:
            message['pose']['orientation']['w'] += 1.0


def two_arms(messages):
    for t in np.arange(0.0, 2.0, 0.01):
        messages.state('right/joint_states', t, ['hinge'], position=[t])


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        (
            nothing,
            r'run.mcap: no positions on a topic joint_states .*contains: emppi/applied',
        ),
        (lost, r'tracking/block: gap of 0.5 s after 1 s.*: the tracker lost it: use one part'),
        (broken, r'joint_states: position of hinge: at stamp 1700000001.005.* s: found inf'),
        (uneven, r'joint_states: 2 values of position for 1 names'),
        (commanded_twice, r'emppi/applied: filled are velocity, effort of .* expected one'),
        (other_type, r'tracking/cup: another type of message, expected geometry_msgs/PoseSt'),
        (stretched, r'tracking/block: quaternion of length .* at 1 s, expected 1'),
        (two_arms, r'hinge on two topics: right/joint_states \(200 .* --topic right/joint_states'),
    ],
)
def test_wrong_bags_are_named(messages, tmp_path, change, words):
    change(messages)
    with pytest.raises(EmppiError, match=words):
        read(messages.write(tmp_path / 'run.mcap'))


@pytest.mark.parametrize('topic', ['/joint_states', 'joint_states', '/right/joint_states'])
def test_joints_on_two_topics_are_read_from_the_chosen_one(messages, tmp_path, topic):
    expected = read(messages.write(tmp_path / 'run.mcap')).signals
    two_arms(messages)
    path = messages.write(tmp_path / 'two.mcap')
    found = read_recording([path], topic=topic).signals
    hinge = found['position', 'hinge']
    assert ('right' in hinge.where) == ('right' in topic)
    if 'right' in topic:  # the slider is on the other topic only
        np.testing.assert_allclose(hinge.values, hinge.time, atol=1e-9)
        assert ('velocity', 'hinge') not in found
    else:
        np.testing.assert_array_equal(hinge.values, expected['position', 'hinge'].values)
    slider = expected['position', 'slider'].values
    np.testing.assert_array_equal(found['position', 'slider'].values, slider)
    with pytest.raises(
        EmppiError, match='--topic /arm: .* has no such joint states; it has: joint'
    ):
        read_recording([path], topic='/arm')


@pytest.mark.slow
def test_a_bag_and_its_table_give_the_same_estimate(messages, tmp_path, capsys):
    plant = Plant.from_task(load_task('cartpole_swingup'))
    qpos, ctrl = pendulums.simulate(
        plant,
        np.array([0.31, 0.022]),
        [0.0, np.pi],
        300,
        lambda data: [6.0 * np.sin(3.1 * data.time) - 8.0 * data.qpos[0]],
    )
    messages.rows.clear()
    for k, (q, u) in enumerate(zip(qpos.tolist(), ctrl.tolist(), strict=True)):
        messages.state('joint_states', 0.01 * k, ['slider', 'hinge'], position=q)
        messages.state('emppi/applied', 0.01 * k, ['slider'], effort=u)
    bag, table = messages.write(tmp_path / 'run.mcap'), tmp_path / 'run.csv'
    units = {('position', 'slider'): 'm', ('position', 'hinge'): 'rad', ('command', 'slider'): 'N'}
    told = [s._replace(unit=units[key]) for key, s in read(bag).signals.items()]
    tables.write(table, told)
    found = []
    for path in (bag, table):
        words = ['identify', '--data', str(path), '--task', 'cartpole_swingup', '--json']
        assert main(words) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert found[0]['parameters']['pole_mass']['value'] == pytest.approx(0.31, rel=1e-4)


def test_a_bag_and_a_table_cannot_be_combined(messages, tmp_path):
    path = messages.write(tmp_path / 'run.mcap')
    with pytest.raises(EmppiError, match=r'run.mcap is a bag, but .*run.csv is a table: they do'):
        read_recording([path, tmp_path / 'run.csv'])
    with pytest.raises(EmppiError, match=r'nowhere.mcap: no such file or folder'):
        read(tmp_path / 'nowhere.mcap')


@pytest.fixture(params=[''])
def humble(messages, tmp_path, request):
    """Return a bag in MCAP, and the same bag in the SQLite format of ROS 2 Humble."""
    rosbag2 = pytest.importorskip('rosbags.rosbag2', reason='extra `identify` not installed')
    from rosbags.rosbag2.enums import CompressionFormat, CompressionMode, StoragePlugin
    from rosbags.typesys import Stores, get_typestore

    file, folder = messages.write(tmp_path / 'run.mcap', prefix='/left/'), tmp_path / 'humble'
    known, store = {}, get_typestore(Stores.ROS2_HUMBLE)
    plugin = StoragePlugin.SQLITE3
    created = rosbag2.Writer(folder, version=8, storage_plugin=plugin)
    if request.param:
        created.set_compression(CompressionMode[request.param], CompressionFormat.ZSTD)
    with created as writer, file.open('rb') as opened:
        for schema, channel, message in make_reader(opened).iter_messages():
            if channel.topic not in known:
                known[channel.topic] = writer.add_connection(
                    channel.topic, schema.name, typestore=store
                )
            writer.write(known[channel.topic], message.log_time, message.data)
    return file, folder


@pytest.mark.parametrize('humble', ['', 'FILE', 'MESSAGE'], indirect=True)
def test_bags_in_sqlite_hold_the_same(humble):
    one, other = map(read, humble)
    (source,) = other.sources
    assert source.name.removesuffix('.zstd') == 'humble.db3'
    check_same(other, one)


def test_wrong_bags_in_sqlite_are_named(humble, monkeypatch):
    _, folder = humble
    with pytest.raises(EmppiError, match='humble.db3: a part of a bag: give the folder'):
        read(folder / 'humble.db3')
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, 'rosbags.rosbag2', None)
        with pytest.raises(EmppiError, match=r'rosbags is not installed.*ros2 bag convert'):
            read(folder)
    (folder / 'metadata.yaml').rename(folder / 'away')
    with pytest.raises(EmppiError, match='no metadata.yaml.*ros2 bag reindex'):
        read(folder)
    (folder / 'metadata.yaml').write_text('broken')
    with pytest.raises(EmppiError, match=f'{folder}: not a bag: '):
        read(folder)


@pytest.mark.parametrize('where', [0.5, 0.9])
def test_a_damaged_bag_in_sqlite_is_an_error(humble, where):
    folder = humble[1]
    content = bytearray((folder / 'humble.db3').read_bytes())
    content[int(where * len(content)) : int(where * len(content)) + 9000] = b'x' * 9000
    (folder / 'humble.db3').write_bytes(content)
    with pytest.raises(EmppiError, match=f'{folder}: .*(malformed|no sensor_msgs|no geometry)'):
        read(folder)

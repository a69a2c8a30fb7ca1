"""Truncated bags are read up to the damage; nothing is overwritten without request."""

import struct

from mcap.reader import make_reader
import pytest
from rosbags.highlevel import AnyReader
import yaml

from emppi_ros.cli import main
from emppi_ros.core.errors import ReplayError
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.recordings.bag_writer import BagTopic, BagWriter
from emppi_ros.replay import replay as replaying

QOS = """- history: 1
  depth: 1
  reliability: 1
  durability: 1
  deadline: {sec: 9223372036, nsec: 854775807}
  lifespan: {sec: 9223372036, nsec: 854775807}
  liveliness: 1
  liveliness_lease_duration: {sec: 9223372036, nsec: 854775807}
  avoid_ros_namespace_conventions: false"""
STRING = BagTopic('/emppi/task', 'std_msgs/msg/String', 'string data', QOS)


def cdr(text):
    data = text.encode() + b'\0'
    return b'\x00\x01\x00\x00' + struct.pack('<I', len(data)) + data


def texts(path, **options):
    bag = Bag(path, **options)
    return [heard.data.data for heard in bag.messages({'emppi/task'})], bag.cut


def write(folder, count=500, **options):
    writer = BagWriter(folder, **options)
    writer.add(STRING)
    for i in range(count):
        writer.write('/emppi/task', cdr(f'{i} ' + 'x' * 1000), 10**9 + i, 5)
    writer.close()
    return writer.path


def test_a_written_bag_is_read_here_and_by_other_readers(tmp_path):
    folder = tmp_path / 'bag'
    write(folder)
    found, cut = texts(folder)
    assert [text.split()[0] for text in found] == [str(i) for i in range(500)] and not cut
    with AnyReader([folder]) as reader:
        (connection,) = reader.connections
        assert (connection.topic, connection.msgcount) == ('/emppi/task', 500)
        assert connection.ext.offered_qos_profiles[0].durability.name == 'TRANSIENT_LOCAL'
        messages = [reader.deserialize(raw, c.msgtype).data for c, _, raw in reader.messages()]
    assert messages == found
    metadata = yaml.safe_load((folder / 'metadata.yaml').read_text())
    assert metadata['rosbag2_bagfile_information']['duration'] == {'nanoseconds': 499}


def test_times_within_a_topic_never_go_back(tmp_path):
    writer = BagWriter(tmp_path / 'bag')
    writer.add(STRING)
    for received, sent in ((10, 5), (9, 7), (12, 6)):
        writer.write('/emppi/task', cdr('x'), received, sent)
    writer.close()
    with writer.path.open('rb') as file:
        messages = [message for _, _, message in make_reader(file).iter_messages()]
    assert [(one.log_time, one.publish_time) for one in messages] == [(10, 5), (10, 7), (12, 7)]


def test_a_bag_truncated_anywhere_is_read_up_to_there(tmp_path, rng):
    path = write(tmp_path / 'bag')
    whole, all_of_it = path.read_bytes(), texts(path)[0]
    seen = set()
    for size in sorted({*rng.integers(8, len(whole) - 1, 40).tolist(), 9, len(whole) - 1}):
        path.write_bytes(whole[:size])
        found, cut = texts(path)
        assert found == all_of_it[: len(found)]
        assert f'{path} is truncated or damaged at byte' in cut and 'read up to there' in cut
        seen.add(len(found))
    assert len(seen) > 2  # of several chunks


def test_a_damaged_byte_never_yields_a_message(tmp_path, rng):
    path = write(tmp_path / 'bag')
    whole, all_of_it = path.read_bytes(), texts(path)[0]
    for place in rng.integers(100, len(whole) - 40, 40).tolist():
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(spoiled)
        try:
            found, _ = texts(path)
        except ReplayError:
            continue
        assert set(found) <= set(all_of_it)  # chunks have checksums


@pytest.mark.slow
def test_a_truncated_bag_is_replayed_with_a_note(bag, capsys):
    whole = bag.read_bytes()
    opened = Bag(bag)
    replay = replaying.replay(opened, replaying.read(opened))
    bag.write_bytes(whole[: int(0.55 * len(whole))])
    opened = Bag(bag)
    cut = replaying.replay(opened, replaying.read(opened))
    assert cut['identical'] and 'is truncated' in cut['notes'][0]
    assert 0 < cut['planner']['replayed'] < replay['planner']['replayed']
    assert main(['replay', str(bag)]) == 0
    assert 'is truncated' in capsys.readouterr().err


def test_only_bags_are_overwritten_and_only_on_request(tmp_path):
    folder = tmp_path / 'bag'
    write(folder)
    with pytest.raises(ReplayError, match='already exists: choose another --out, or add --over'):
        BagWriter(folder)
    assert len(texts(write(folder, count=2, overwrite=True))[0]) == 2
    (folder / 'thesis.tex').write_text('')
    with pytest.raises(ReplayError, match='thesis.tex is not part of a bag'):
        BagWriter(folder, overwrite=True)
    file = tmp_path / 'file.mcap'
    file.write_text('')
    with pytest.raises(ReplayError, match='it is a file, not a folder'):
        BagWriter(file, overwrite=True)


def test_a_path_that_is_not_a_bag_is_an_error(tmp_path, capsys):
    with pytest.raises(ReplayError, match='no such file or folder'):
        Bag(tmp_path / 'nothing')
    (tmp_path / 'old_0.db3').write_bytes(b'SQLite')
    with pytest.raises(ReplayError, match=r'(?s)has no \*.mcap file .*old_0.db3.*convert'):
        Bag(tmp_path)
    text = tmp_path / 'text.mcap'
    text.write_text('hello')
    for command in ('replay', 'report'):
        assert main([command, str(text)]) == 2
        assert 'text.mcap: not an MCAP file' in capsys.readouterr().err


def test_missing_topics_are_named(tmp_path, capsys):
    folder = tmp_path / 'bag'
    write(folder, count=1)
    assert main(['replay', str(folder)]) == 2
    error = capsys.readouterr().err
    assert 'emppi/belief/journal are missing; it contains: emppi/task' in error
    assert main(['report', str(folder)]) == 2
    assert 'its task is no longer valid' in capsys.readouterr().err


def test_namespaces_are_detected_or_given(tape, tmp_path):
    path = tape.write(tmp_path / 'run.mcap', prefix='/left/arm/')
    for namespace in (None, 'left/arm', '/left/arm/'):
        bag = Bag(path, namespace)
        assert replaying.read(bag).journals[replaying.PLANNER]
    with pytest.raises(ReplayError, match='it contains: .*left/arm/emppi/task'):
        replaying.read(Bag(path, 'right'))

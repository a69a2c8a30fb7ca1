"""
Writer of bags: a folder with an MCAP file and the metadata.yaml of `ros2 bag`.

Chunks are small, so that little is lost if the recorder is killed; a bag without metadata is still
readable. Viewers read chunks by time, so that messages are brought in order before.
"""

from collections.abc import Collection
from pathlib import Path
import struct
from typing import NamedTuple

from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import Writer
import yaml

from emppi_ros.core.errors import ReplayError
from emppi_ros.recordings.bag_reader import SUFFIX

_CHUNK = 2**17  # bytes, before compression: less than a second of a run
_METADATA = 'metadata.yaml'
_VERSION = 5  # of the metadata: from ROS 2 Humble on
_HOLD_NS = 500_000_000  # messages of a topic are sorted if no further apart
_PERIOD_NS = 100_000_000  # between sortings
_STAMP = struct.Struct('<iI')
_HEADER = 4  # bytes before the content of a CDR message


class BagTopic(NamedTuple):
    """Name, type and QoS of a topic."""

    name: str  # absolute
    kind: str  # such as sensor_msgs/msg/JointState
    definition: str  # of the type and all that it contains, as ros2msg
    qos: str = ''  # offered profiles, YAML as `ros2 bag` writes it


class BagWriter:
    """Writes a bag; `close` completes it."""

    def __init__(self, folder: Path, overwrite: bool = False) -> None:
        """Create the folder; ReplayError if it is not empty, unless it is a bag to overwrite."""
        self.folder = folder
        self.path = folder / f'{folder.resolve().name}_0{SUFFIX}'
        _remove_old_bag(folder, overwrite)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open('wb')
        except OSError as error:
            raise ReplayError(f'{folder}: cannot be written: {error.strerror}') from None
        self._writer = Writer(self._file, chunk_size=_CHUNK)
        self._writer.start(profile='ros2', library='emppi_ros')
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._topics: dict[str, BagTopic] = {}
        self.counts: dict[str, int] = {}
        self._times: dict[str, tuple[int, int]] = {}  # of the last message of each topic
        self._span: tuple[int, int] | None = None  # of all messages

    def add(self, topic: BagTopic) -> None:
        """Register a topic."""
        if topic.kind not in self._schemas:
            self._schemas[topic.kind] = self._writer.register_schema(
                topic.kind, SchemaEncoding.ROS2, topic.definition.encode()
            )
        self._channels[topic.name] = self._writer.register_channel(
            topic.name,
            MessageEncoding.CDR,
            self._schemas[topic.kind],
            {'offered_qos_profiles': topic.qos},
        )
        self._topics[topic.name], self.counts[topic.name] = topic, 0

    def write(self, name: str, data: bytes, time_ns: int, sent_ns: int) -> None:
        """
        Write a CDR message of a registered topic with the times of reception and sending.

        Neither goes back within a topic, because viewers sort by either of them: a message that
        another one overtook, in the middleware or from another publisher, gets the times of that.
        """
        before = self._times.get(name, (0, 0))
        time_ns, sent_ns = max(time_ns, before[0]), max(sent_ns, before[1])
        self._times[name] = time_ns, sent_ns
        self._writer.add_message(
            self._channels[name], time_ns, data, sent_ns, sequence=self.counts[name]
        )
        self.counts[name] += 1
        first, last = self._span or (time_ns, time_ns)
        self._span = min(first, time_ns), max(last, time_ns)

    def flush(self) -> None:
        """Hand complete chunks to the operating system, so that they survive this process."""
        self._file.flush()

    def close(self) -> None:
        """Write indices and metadata."""
        self._writer.finish()
        self._file.close()
        text = yaml.safe_dump(self._metadata(), sort_keys=False)
        (self.folder / _METADATA).write_text(text, encoding='utf-8')

    def _metadata(self) -> dict[str, object]:
        first, last = self._span or (0, 0)
        time = {
            'duration': {'nanoseconds': last - first},
            'starting_time': {'nanoseconds_since_epoch': first},
            'message_count': sum(self.counts.values()),
        }
        topics = [
            {
                'topic_metadata': {
                    'name': topic.name,
                    'type': topic.kind,
                    'serialization_format': 'cdr',
                    'offered_qos_profiles': topic.qos,
                },
                'message_count': self.counts[topic.name],
            }
            for topic in self._topics.values()
        ]
        return {
            'rosbag2_bagfile_information': {
                'version': _VERSION,
                'storage_identifier': 'mcap',
                **time,
                'topics_with_message_count': topics,
                'compression_format': '',
                'compression_mode': '',
                'relative_file_paths': [self.path.name],
                'files': [{'path': self.path.name, **time}],
            }
        }


class RecordedMessage(NamedTuple):
    """A CDR message with the times of its reception and of its sending."""

    topic: str
    data: bytes
    time_ns: int
    sent_ns: int


class MessageOrder:
    """
    Holds messages for a moment, and returns them by the time of reception.

    Within a topic they are also in the order of sending: the n-th that was sent has the n-th time
    of reception. Topics in `stamped` have several publishers, and messages that begin with a
    header: there stamps take the place of the times of sending.
    """

    def __init__(self, stamped: Collection[str] = ()) -> None:
        self._stamped = frozenset(stamped)
        self._held: list[RecordedMessage] = []
        self._next = 0  # time of the next sorting

    def add(self, message: RecordedMessage) -> None:
        """Add a received message."""
        self._held.append(message)

    def take(self, now_ns: int) -> list[RecordedMessage]:
        """Return, in order, what no message can precede if all from before `now_ns` are here."""
        if now_ns < self._next:
            return []
        self._next = now_ns + _PERIOD_NS
        held = self.take_all()
        late = (i for i, message in enumerate(held) if message.time_ns >= now_ns - _HOLD_NS)
        end = next(late, len(held))
        self._held = held[end:]
        return held[:end]

    def take_all(self) -> list[RecordedMessage]:
        """Return all messages, in order."""
        held, self._held = sorted(self._held, key=lambda message: message.time_ns), []
        places: dict[str, list[int]] = {}
        for i, message in enumerate(held):
            places.setdefault(message.topic, []).append(i)
        for indices in places.values():
            times = [held[i].time_ns for i in indices]
            ordered = sorted((held[i] for i in indices), key=self._sent_ns)
            for i, message, time_ns in zip(indices, ordered, times, strict=True):
                held[i] = message if message is held[i] else message._replace(time_ns=time_ns)
        return held

    def _sent_ns(self, message: RecordedMessage) -> int:
        """Return the time of sending, or the stamp in the header that a message begins with."""
        if message.topic not in self._stamped:
            return message.sent_ns
        seconds, nanoseconds = _STAMP.unpack_from(message.data, _HEADER)
        return int(seconds * 1_000_000_000 + nanoseconds)


def _remove_old_bag(folder: Path, overwrite: bool) -> None:
    """Remove a bag that is to be overwritten; ReplayError without `overwrite`."""
    there = list(folder.iterdir()) if folder.is_dir() else [folder] if folder.exists() else []
    if not there:
        return
    if not overwrite:
        raise ReplayError(f'{folder}: already exists: choose another --out, or add --overwrite')
    if strange := [p.name for p in there if p.suffix != SUFFIX and p.name != _METADATA]:
        raise ReplayError(f'{folder}: not overwritten: {strange[0]} is not part of a bag')
    if not folder.is_dir():
        raise ReplayError(f'{folder}: not overwritten: it is a file, not a folder')
    for path in there:
        path.unlink()

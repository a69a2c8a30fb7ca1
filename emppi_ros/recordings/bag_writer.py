"""
Writer of bags: a folder with an MCAP file and the metadata.yaml of `ros2 bag`.

The file is written in small chunks, so that little is lost if the recorder is killed. The
metadata are written last; a bag without them is still readable.
"""

from pathlib import Path
from typing import NamedTuple

from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import Writer
import yaml

from emppi_ros.core.errors import ReplayError
from emppi_ros.recordings.bag_reader import SUFFIX

_CHUNK = 2**17  # bytes, before compression: less than a second of a run
_METADATA = 'metadata.yaml'
_VERSION = 5  # of the metadata: from ROS 2 Humble on


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
        self._first: int | None = None
        self._last = 0

    def add(self, topic: BagTopic) -> None:
        """Register a topic."""
        if topic.kind not in self._schemas:
            self._schemas[topic.kind] = self._writer.register_schema(
                topic.kind, SchemaEncoding.ROS2, topic.definition.encode()
            )
        schema, qos = self._schemas[topic.kind], {'offered_qos_profiles': topic.qos}
        self._channels[topic.name] = self._writer.register_channel(
            topic.name, MessageEncoding.CDR, schema, qos
        )
        self._topics[topic.name], self.counts[topic.name] = topic, 0

    def write(self, name: str, data: bytes, time_ns: int, sent_ns: int) -> None:
        """
        Write a CDR message of a registered topic with the times of reception and sending.

        Neither goes back within a topic, because viewers sort by either of them: a message that
        another one overtook gets the times of that one. The middleware holds a message back until
        an earlier one of the same publisher has been sent again, and messages of several
        publishers, as on /diagnostics, may arrive in another order than they were sent.
        """
        before = self._times.get(name, (0, 0))
        time_ns, sent_ns = max(time_ns, before[0]), max(sent_ns, before[1])
        self._times[name] = time_ns, sent_ns
        self._writer.add_message(
            self._channels[name], time_ns, data, sent_ns, sequence=self.counts[name]
        )
        self.counts[name] += 1
        self._first = time_ns if self._first is None else min(self._first, time_ns)
        self._last = max(self._last, time_ns)

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
        first, total = self._first or 0, sum(self.counts.values())
        time = {
            'duration': {'nanoseconds': max(0, self._last - first)},
            'starting_time': {'nanoseconds_since_epoch': first},
            'message_count': total,
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


def _remove_old_bag(folder: Path, overwrite: bool) -> None:
    """Remove a bag that is to be overwritten; ReplayError without `overwrite`."""
    if not folder.exists():
        return
    there = list(folder.iterdir()) if folder.is_dir() else [folder]
    if folder.is_dir() and not there:
        return
    if not overwrite:
        raise ReplayError(f'{folder}: already exists: choose another --out, or add --overwrite')
    if strange := [p.name for p in there if p.suffix != SUFFIX and p.name != _METADATA]:
        raise ReplayError(f'{folder}: not overwritten: {strange[0]} is not part of a bag')
    if not folder.is_dir():
        raise ReplayError(f'{folder}: not overwritten: it is a file, not a folder')
    for path in there:
        path.unlink()

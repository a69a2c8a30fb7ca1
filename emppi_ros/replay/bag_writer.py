"""
Writing bags: a folder with an MCAP file and the metadata.yaml that `ros2 bag` looks for.

The file is written in small chunks, so that little is lost when the recorder is killed; the
metadata come last, and a bag without them is still one.
"""

from pathlib import Path
from typing import NamedTuple

from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import Writer
import yaml

from emppi_ros.core.errors import ReplayError
from emppi_ros.replay.bag_reader import SUFFIX

_CHUNK = 2**17  # bytes, before compression: less than a second of a run
_METADATA = 'metadata.yaml'
_VERSION = 5  # of the metadata: from ROS 2 Humble on


class Topic(NamedTuple):
    """What is said on a topic."""

    name: str  # absolute
    kind: str  # such as sensor_msgs/msg/JointState
    definition: str  # of the type and all that it is made of, as ros2msg
    qos: str = ''  # offered profiles, YAML as `ros2 bag` writes it


class BagWriter:
    """A bag that is being written; `close` completes it."""

    def __init__(self, folder: Path, overwrite: bool = False) -> None:
        """Make the folder; ReplayError if there is something already, unless it is a bag."""
        self.folder = folder
        self.path = folder / f'{folder.resolve().name}_0{SUFFIX}'
        _make_room(folder, overwrite)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open('wb')
        except OSError as error:
            raise ReplayError(f'{folder}: cannot be written: {error.strerror}') from None
        self._writer = Writer(self._file, chunk_size=_CHUNK)
        self._writer.start(profile='ros2', library='emppi_ros')
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._topics: dict[str, Topic] = {}
        self.counts: dict[str, int] = {}
        self._first: int | None = None
        self._last = 0

    def add(self, topic: Topic) -> None:
        """Announce a topic."""
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
        """Write a message (CDR) on a topic that was announced; times are received and sent."""
        self._writer.add_message(
            self._channels[name], time_ns, data, sent_ns, sequence=self.counts[name]
        )
        self.counts[name] += 1
        self._first = time_ns if self._first is None else min(self._first, time_ns)
        self._last = max(self._last, time_ns)

    def flush(self) -> None:
        """Give complete chunks to the system, which keeps them if this process is killed."""
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


def _make_room(folder: Path, overwrite: bool) -> None:
    """Remove a bag that is to be overwritten; ReplayError unless that was asked for."""
    if not folder.exists():
        return
    there = list(folder.iterdir()) if folder.is_dir() else [folder]
    if folder.is_dir() and not there:
        return
    if not overwrite:
        raise ReplayError(f'{folder}: exists already: choose another --out, or add --overwrite')
    if strange := [p.name for p in there if p.suffix != SUFFIX and p.name != _METADATA]:
        raise ReplayError(f'{folder}: not overwritten: {strange[0]} is no part of a bag')
    if not folder.is_dir():
        raise ReplayError(f'{folder}: not overwritten: it is a file, not a folder')
    for path in there:
        path.unlink()

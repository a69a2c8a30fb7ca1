"""Open bags in MCAP or in SQLite; the latter are read by `rosbags`."""

from collections.abc import Collection, Iterator
from pathlib import Path
import sqlite3
from types import ModuleType
from typing import Any

from emppi_ros.core.errors import IdentificationError, import_optional
from emppi_ros.recordings.bag_reader import SUFFIX, Bag, BagMessage, find_files, has_suffix

SQLITE_SUFFIX = '.db3'


def open_bag(path: Path, namespace: str | None = None) -> Bag:
    """Return the reader of a bag: a folder of `ros2 bag`, or an MCAP file."""
    if has_files(path, SQLITE_SUFFIX):
        return SqliteBag(path, namespace)
    return Bag(path, namespace)


def is_recorded(path: Path) -> bool:
    """Return whether a path is a bag, in either format."""
    return has_files(path, SUFFIX) or has_files(path, SQLITE_SUFFIX)


def has_files(path: Path, suffix: str) -> bool:
    """Return whether a path is a file of a format, or a folder with such files."""
    return bool(find_files(path, suffix)) if path.is_dir() else has_suffix(path, suffix)


class SqliteBag(Bag):
    """A bag in SQLite; `cut` stays empty, since damage of a database is an error."""

    def __init__(self, path: Path, namespace: str | None = None) -> None:
        """Open it; IdentificationError if it is not a bag, ConfigError without the library."""
        if not path.is_dir():
            raise IdentificationError(
                f'{path}: a part of a bag: give the folder that `ros2 bag record` made, with its '
                'metadata.yaml'
            )
        if not (path / 'metadata.yaml').is_file():
            raise IdentificationError(
                f'{path}: no metadata.yaml, as a recorder that was killed leaves it: '
                '`ros2 bag reindex` makes it'
            )
        rosbags = _rosbags(path)
        try:
            with rosbags.Reader(path) as reader:
                connections = list(reader.connections)
                self.span_ns = reader.start_time, reader.end_time
        except Exception as error:  # also errors of YAML and SQLite
            raise IdentificationError(f'{path}: not a bag: {error}') from None
        self.path, self.files, self.cut = path, find_files(path, SQLITE_SUFFIX), ''
        self._set_namespace(namespace)
        for connection in connections:  # the namespace is detected
            self._relative(connection.topic)
        self.counts: dict[str, int] = {}  # of messages by topic
        for connection in connections:
            topic = self._relative(connection.topic)
            self.counts[topic] = self.counts.get(topic, 0) + connection.msgcount

    def messages(self, topics: Collection[str]) -> Iterator[BagMessage]:
        """Yield the messages of some topics in recording order."""
        typesys, rosbags = _rosbags(self.path, 'typesys'), _rosbags(self.path)
        store = typesys.get_typestore(typesys.Stores.LATEST)
        with rosbags.Reader(self.path) as reader:
            wanted = [c for c in reader.connections if self._relative(c.topic) in topics]
            if not wanted:  # the library would yield all messages
                return
            for connection in wanted:
                if connection.msgtype not in store.types and connection.msgdef.data:
                    definition = connection.msgdef.data, connection.msgtype
                    store.register(typesys.get_types_from_msg(*definition))
            try:
                for connection, time_ns, raw in reader.messages(wanted):
                    data = self._decode_row(store, connection, raw)
                    yield BagMessage(self._relative(connection.topic), time_ns, data)
            except sqlite3.DatabaseError as error:
                raise IdentificationError(f'{self.path}: a damaged bag: {error}') from None

    def _decode_row(self, store: Any, connection: Any, raw: bytes) -> Any:
        try:
            return store.deserialize_cdr(raw, connection.msgtype)
        except Exception as error:  # a damaged message may raise anything
            raise IdentificationError(
                f'{self.path}: {connection.topic}: a message that is not a {connection.msgtype}: '
                f'{error}'
            ) from None


def _rosbags(path: Path, name: str = 'rosbag2') -> ModuleType:
    return import_optional(
        f'rosbags.{name}',
        lambda _: (
            f"{path}: rosbags is not installed: pip install 'emppi_ros[identify]', or "
            'convert to MCAP by `ros2 bag convert`'
        ),
    )

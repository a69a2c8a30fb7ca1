"""Bags in SQLite, as `ros2 bag record` makes them up to Humble, read by `rosbags`."""

from collections.abc import Collection, Iterator
import importlib
from pathlib import Path
import sqlite3
from types import ModuleType
from typing import Any

from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.replay.bag_reader import Heard

SUFFIX = '.db3'


def is_one(path: Path) -> bool:
    """Return whether a path is such a bag."""
    return path.suffix.lower() == SUFFIX or (path.is_dir() and any(path.glob(f'*{SUFFIX}')))


class SqliteBag:
    """A bag on disk; like `emppi_ros.replay.bag_reader.Bag`."""

    cut = ''  # a damaged database is an error: SQLite tells nothing of what it may have lost

    def __init__(self, path: Path) -> None:
        """Open it; IdentificationError if it is no bag, ConfigError without the library."""
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
        self.path, self.files = path, sorted(path.glob(f'*{SUFFIX}'))
        rosbags = _library(path)
        try:
            with rosbags.Reader(path) as reader:
                connections = list(reader.connections)
        except Exception as error:  # also YAML's and SQLite's own
            raise IdentificationError(f'{path}: no bag: {error}') from None
        self.counts: dict[str, int] = {}  # of messages by topic
        for one in connections:
            topic = one.topic.removeprefix('/')
            self.counts[topic] = self.counts.get(topic, 0) + one.msgcount

    def messages(self, topics: Collection[str]) -> Iterator[Heard]:
        """Yield the messages on topics, in the order in which they were recorded."""
        typesys, rosbags = _library(self.path, 'typesys'), _library(self.path)
        store = typesys.get_typestore(typesys.Stores.LATEST)
        with rosbags.Reader(self.path) as reader:
            wanted = [c for c in reader.connections if c.topic.removeprefix('/') in topics]
            if not wanted:  # the library would take none for all
                return
            try:
                for one, time_ns, raw in reader.messages(wanted):
                    yield Heard(
                        one.topic.removeprefix('/'), time_ns, self._decode(store, one, raw)
                    )
            except sqlite3.DatabaseError as error:
                raise IdentificationError(f'{self.path}: a damaged bag: {error}') from None

    def _decode(self, store: Any, connection: Any, raw: bytes) -> Any:
        try:
            return store.deserialize_cdr(raw, connection.msgtype)
        except Exception as error:  # whatever a damaged message leads to
            raise IdentificationError(
                f'{self.path}: {connection.topic}: a message that is no {connection.msgtype}: '
                f'{error}'
            ) from None


def _library(path: Path, name: str = 'rosbag2') -> ModuleType:
    try:
        return importlib.import_module(f'rosbags.{name}')
    except ModuleNotFoundError:
        raise ConfigError(
            f"{path}: rosbags is not installed: pip install 'emppi_ros[identify]', or make MCAP "
            'of it by `ros2 bag convert`'
        ) from None

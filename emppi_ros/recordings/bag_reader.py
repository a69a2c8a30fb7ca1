"""
Reader of bags: MCAP files with ROS 2 messages, as written by `emppi record` and `ros2 bag record`.

A truncated bag, after a crash or with a full disk, is read up to the damage. Files and messages
may be compressed by zstd, as with `--compression-mode file` or `message`.
"""

from collections.abc import Collection, Iterator
import functools
import importlib
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NamedTuple

from mcap.records import Channel, Message, Schema
from mcap.stream_reader import StreamReader
from mcap_ros2.decoder import DecoderFactory

from emppi_ros.core.errors import ReplayError, import_optional

_MAGIC = b'\x89MCAP0\r\n'
_ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'  # no CDR message begins with it
_COMPRESSED = ('.zstd', '.zst')  # by `ros2 bag record`, by the program zstd
SUFFIX = '.mcap'


class BagMessage(NamedTuple):
    """A message of a bag."""

    topic: str  # relative to the bag's namespace
    time_ns: int  # of recording
    data: Any  # with the attributes of its ROS type


class Bag:
    """A bag on disk; after reading, `cut` describes a truncated end."""

    def __init__(self, path: Path, namespace: str | None = None) -> None:
        """Find the files of a bag: one file, or a folder of `ros2 bag`."""
        self.path = path
        self.files = _find(path)
        self.cut = ''
        self.counts: dict[str, int] = {}  # messages by topic, after reading
        self.span_ns = (0, 0)  # recording times of the first and last message
        self._set_namespace(namespace)

    def _set_namespace(self, namespace: str | None) -> None:
        given = (namespace or '').strip('/')
        self.namespace = f'/{given}/'.replace('//', '/')  # of the robot, given or detected
        self._given = namespace is not None

    def messages(self, topics: Collection[str]) -> Iterator[BagMessage]:
        """Yield the messages of some topics in recording order."""
        self.cut, self.counts, first, last = '', {}, None, 0
        for file in self.files:
            channels: dict[int, Channel] = {}
            schemas: dict[int, Schema] = {}
            factory = DecoderFactory()
            for record in self._records(file):
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel):
                    channels[record.id] = record
                elif isinstance(record, Message) and record.channel_id in channels:
                    channel = channels[record.channel_id]
                    topic = self._relative(channel.topic)
                    self.counts[topic] = self.counts.get(topic, 0) + 1
                    first = record.log_time if first is None else first
                    last = max(last, record.log_time)
                    if topic in topics:
                        schema = schemas.get(channel.schema_id)
                        data = self._decode(factory, channel, schema, record)
                        yield BagMessage(topic, record.log_time, data)
        self.span_ns = (first or 0, last)
        if self.cut:
            seconds = (self.span_ns[1] - self.span_ns[0]) * 1e-9
            self.cut = f'{self.cut}: read up to there, {seconds:.2f} s'

    def _records(self, path: Path) -> Iterator[Any]:
        """Yield the readable records of a file; set `cut` if it is truncated."""
        with _open(path) as file:
            limit = None if _is_compressed(path) else path.stat().st_size
            reader = StreamReader(file, validate_crcs=True, record_size_limit=limit)
            try:
                yield from reader.records
            except Exception as error:  # a truncated record may raise anything
                why = str(error) or type(error).__name__
                self.cut = f'{path} is truncated or damaged at byte {file.tell()} ({why})'

    def _relative(self, name: str) -> str:
        """Return a topic's name relative to the namespace, detected if there is one robot."""
        if not self._given and name.endswith('/emppi/task') and self.namespace == '/':
            self.namespace = name.removesuffix('emppi/task')
        if self.namespace != '/' and name.startswith(self.namespace):
            return name.removeprefix(self.namespace)
        return name if name == '/diagnostics' else name.removeprefix('/')

    def _decode(
        self, factory: DecoderFactory, channel: Channel, schema: Schema | None, record: Message
    ) -> Any:
        if schema is not None and not schema.data.strip():  # the recorder had no definitions
            text = _standard_definition(schema.name)
            schema = Schema(schema.id, text.encode(), 'ros2msg' if text else '', schema.name)
        decode = factory.decoder_for(channel.message_encoding, schema)
        if decode is None or schema is None:
            encoding = 'none' if schema is None else schema.encoding
            raise ReplayError(
                f'{self.path}: {channel.topic}: encoding {channel.message_encoding!r} with schema '
                f"{encoding!r}; expected 'cdr' with 'ros2msg' (definitions of standard types that "
                "the file lacks come from rosbags: pip install 'emppi_ros[identify]')"
            )
        try:
            return decode(self._decompress(record.data))
        except Exception as error:
            raise ReplayError(
                f'{self.path}: {channel.topic}: invalid {schema.name}: {error}'
            ) from None

    def _decompress(self, data: bytes) -> bytes:
        """Return a message that was recorded with `--compression-mode message`, or as it is."""
        if not data.startswith(_ZSTD_MAGIC):
            return data
        return bytes(_zstandard(self.path).ZstdDecompressor().decompressobj().decompress(data))


@functools.cache
def _standard_definition(name: str) -> str:
    """Return the definition of a standard message type, '' if `rosbags` is missing or lacks it."""
    try:
        typesys = importlib.import_module('rosbags.typesys')
        store = typesys.get_typestore(typesys.Stores.LATEST)
        text: str = store.generate_msgdef(name, ros_version=2)[0]
    except Exception:  # KeyError or errors of the library
        return ''
    return text


def has_suffix(path: Path, suffix: str) -> bool:
    """Return whether a file has a suffix, be it compressed or not."""
    return path.name.lower().endswith((suffix, *(suffix + end for end in _COMPRESSED)))


def find_files(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a bag in order; those that were decompressed beside it only once."""
    files = {path.name: path for path in folder.iterdir() if has_suffix(path, suffix)}
    return sorted(
        (path for path in files.values() if not (_is_compressed(path) and path.stem in files)),
        key=_order,
    )


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() in _COMPRESSED


def _open(path: Path) -> IO[bytes]:
    file = path.open('rb')
    if not _is_compressed(path):
        return file
    decompressor = _zstandard(path).ZstdDecompressor()
    stream: IO[bytes] = decompressor.stream_reader(file, read_across_frames=True)
    return stream


def _zstandard(path: Path) -> ModuleType:
    return import_optional(
        'zstandard',
        lambda _: (
            f'{path}: compressed by zstd: pip install zstandard, or decompress it by '
            '`ros2 bag convert`'
        ),
        ReplayError,
    )


def _find(path: Path) -> list[Path]:
    """Return the MCAP files of a bag, in order; ReplayError if there is none."""
    if not path.exists():
        raise ReplayError(f'{path}: no such file or folder')
    files = [path]
    if path.is_dir():
        files = find_files(path, SUFFIX)
        if not files:
            other = ', '.join(sorted(p.name for p in path.iterdir())[:5]) or 'nothing'
            raise ReplayError(
                f'{path}: not a bag: the folder has no *{SUFFIX} file (it contains: {other}); '
                '`ros2 bag convert` converts other bags to MCAP'
            )
    for file in files:
        with _open(file) as stream:
            try:
                begin = stream.read(len(_MAGIC))
            except Exception as error:  # of the decompressor
                raise ReplayError(f'{file}: cannot be decompressed: {error}') from None
            if not begin and _is_compressed(file):
                raise ReplayError(f'{file}: truncated: nothing of it can be decompressed')
            if begin != _MAGIC:
                raise ReplayError(f'{file}: not an MCAP file')
    return files


def _order(path: Path) -> tuple[int, str]:
    """Return the sort key of a file of a bag: NAME_0.mcap, NAME_1.mcap, ..."""
    number = path.name.partition('.')[0].rpartition('_')[2]
    return (int(number) if number.isdecimal() else 0, path.name)

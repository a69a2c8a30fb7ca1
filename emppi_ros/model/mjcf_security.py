"""
What a scene's XML may refer to and ask for, checked before MuJoCo's parser sees it.

Every file that it names must lie in its root: the folder of the scene itself, or one that the
caller vouches for, such as the assets of an installed package. No plugins, no entities, and
no sizes that would fill the memory: a scene comes with a task, and a task may be anyone's.
"""

import io
import math
import os.path
from pathlib import Path
import re
from typing import NamedTuple
from xml.etree import ElementTree

from emppi_ros.core.errors import SceneError

MAX_XML, MAX_TOTAL = 5 << 20, 50 << 20  # bytes: one XML file; all files together
MAX_FILES, MAX_DEPTH = 1000, 100
MAX_ELEMENTS = 20_000  # after replication
MAX_PIXELS = 8192  # along each side of a picture
_REFUSED = ('plugin', 'extension')  # they load shared libraries
_LARGEST = {  # numbers that cost memory or time
    **dict.fromkeys(('iterations', 'ls_iterations', 'noslip_iterations', 'maxhullvert'), 1e4),
    **dict.fromkeys(('ccd_iterations', 'sdf_iterations', 'sdf_initpoints'), 1e4),
    **dict.fromkeys(('width', 'height', 'resolution'), MAX_PIXELS),
    **dict.fromkeys(('nrow', 'ncol'), 2048),
    **dict.fromkeys(('dim', 'num', 'nsample', 'nkey', 'cellcount', 'gridsize', 'nchannel'), 1000),
    **dict.fromkeys(('numslices', 'numstacks', 'numquads', 'params', 'inttotal'), 100),
    **dict.fromkeys(('njmax', 'nconmax', 'nuserdata'), 100_000),
    'nstack': 1e8,
}
_MAX_MEMORY = 1 << 30  # bytes of MuJoCo's arena
_UNITS = {'': 1, 'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}
_NAME = re.compile(r'[\w .+()/-]+')  # no drive, no scheme, no backslash, nothing unprintable
_NAN = re.compile(r'(?i)(^|[\s+-])(nan|inf)')
_XML = ('.xml', '.mjcf')
_DATA = ('.stl', '.obj', '.msh', '.png', '.skn', '.hf', '.bin')


class _Xml(NamedTuple):
    """What one XML file says."""

    references: list[tuple[str, str]]  # element, file
    folders: list[str]  # where the compiler looks for meshes and textures
    elements: int  # after replication
    attached: int  # copies of other models


def check(path: Path, root: Path | None = None) -> None:
    """
    Raise SceneError unless an MJCF file keeps to its root and to every bound.

    Where MuJoCo looks for a file depends on the element, and on its version. So all of the
    places where it might look must be inside, whether or not something is there.
    """
    lexical = Path(os.path.abspath(path)).parent
    roots = [root.resolve()] if root else [lexical.resolve(), path.resolve().parent]
    try:
        _check(path, lexical, roots)
    except SceneError as error:
        raise SceneError(f'{path}: {error}') from None
    except OSError as error:
        raise SceneError(f'{path}: cannot be read: {error}') from None


def _check(path: Path, folder: Path, roots: list[Path]) -> None:
    """Read the scene and what it includes; then look at all files that these refer to."""
    _places([folder], [''], path.name, roots, _XML)
    files = {_inside(folder / path.name, roots)}
    todo, read, other = [(folder / path.name, False)], {}, []
    while todo:
        here, attached = todo.pop()
        read[here] = xml = _scan(here)
        if attached and xml.attached:
            raise SceneError(f'{here.name}: an attached model attaches others')
        for element, name in xml.references:
            if element not in ('include', 'model'):
                other.append((here.parent, name))
                continue
            for place in _places([folder, here.parent], [''], name, roots, _XML):
                if place.is_file() and place not in read:
                    files.add(_inside(place, roots))
                    todo.append((place, attached or element == 'model'))
        if len(read) + len(other) > MAX_FILES:
            raise SceneError(f'more than {MAX_FILES} files')
    copies = 1 + sum(xml.attached for xml in read.values())
    if (elements := copies * sum(xml.elements for xml in read.values())) > MAX_ELEMENTS:
        raise SceneError(f'{elements:g} elements, at most {MAX_ELEMENTS}')
    folders = ['', *{name for xml in read.values() for name in xml.folders}]
    for base, name in other:
        for place in _places([folder, base], folders, name, roots, _DATA):
            if place.is_file():
                files.add(_inside(place, roots))
                _check_picture(place)
    if (total := sum(file.stat().st_size for file in files)) > MAX_TOTAL:
        raise SceneError(f'files of {total} bytes, at most {MAX_TOTAL}')


def _places(
    bases: list[Path], folders: list[str], name: str, roots: list[Path], suffixes: tuple[str, ...]
) -> list[Path]:
    """Return where a file may be looked for; SceneError if any place is out of bounds."""
    if not name.lower().endswith(suffixes):
        raise SceneError(f'{name!r} is none of {", ".join(suffixes)}')
    names = {name, name.rpartition('/')[2]}  # the latter with the compiler's strippath
    places = [b / folder / n for b in set(bases) for folder in folders for n in names]
    for place in places:
        _inside(place, roots)
    return places


def _inside(place: Path, roots: list[Path]) -> Path:
    """Return where a path really leads; SceneError if that is outside, or no plain file."""
    lexical = Path(os.path.normpath(place)).parent.resolve() / place.name
    real = place.resolve()
    for found in (lexical, real):
        if not any(found.is_relative_to(root) for root in roots):
            raise SceneError(f'{place.name!r} leads to {found}, outside of {roots[0]}')
    if real.exists() and not real.is_file():
        raise SceneError(f'{place.name!r} is no plain file')
    return real


def _scan(path: Path) -> _Xml:
    """Read one XML file, element by element."""
    with path.open('rb') as file:
        raw = file.read(MAX_XML + 1)
    if len(raw) > MAX_XML:
        raise SceneError(f'{path.name}: more than {MAX_XML} bytes of XML')
    try:
        text = raw.decode('utf-8')
        if '<!DOCTYPE' in text or '<!ENTITY' in text:
            raise SceneError(f'{path.name}: has a document type or entities')
        return _read(text)
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise SceneError(f'{path.name}: not well-formed XML: {error}') from None


def _read(text: str) -> _Xml:
    references, folders, elements, attached = [], [], 0, 0
    factors = [1]  # how often the element that we are in will be there, and those around it
    source = io.BytesIO(text.encode('utf-8'))  # what it declares to be encoded in counts no more
    parser = ElementTree.XMLParser(encoding='utf-8')
    for event, element in ElementTree.iterparse(source, ('start', 'end'), parser):
        if event == 'end':
            factors.pop()
            element.clear()
            continue
        tag = element.tag.rpartition('}')[2]
        values = {key.rpartition('}')[2]: value for key, value in element.items()}
        factors.append(min(factors[-1] * _check_element(tag, values), 1 << 40))
        elements += factors[-1]
        attached += factors[-1] * (tag == 'attach')
        if len(factors) > MAX_DEPTH:
            raise SceneError(f'elements within one another, more than {MAX_DEPTH} deep')
        references += [(tag, v) for key, v in values.items() if key.startswith('file')]
        folders += [v for key, v in values.items() if key.endswith('dir') and tag == 'compiler']
    for name in (*folders, *(name for _, name in references)):
        if not _NAME.fullmatch(name):
            raise SceneError(f'{name!r} is no plain file name')
    return _Xml(references, folders, elements, attached)


def _check_element(tag: str, values: dict[str, str]) -> int:
    """Return how many an element stands for; SceneError if it asks for what is not allowed."""
    if tag in _REFUSED or 'plugin' in values:
        raise SceneError(f'<{tag}>: plugins are not allowed')
    for key, text in values.items():
        if _NAN.search(text) and key not in ('name', 'class'):
            raise SceneError(f'<{tag}>: {key}: found {text[:40]!r}, expected finite numbers')
        largest = 10_000 if (tag, key) == ('numeric', 'size') else _LARGEST.get(key)
        if key.startswith('nuser_'):
            largest = 1000
        if largest is not None and not max(_numbers(tag, text), default=0.0) <= largest:
            raise SceneError(f'<{tag}>: {key}: found {text[:40]}, at most {largest:g}')
    memory = re.fullmatch(r'\s*([0-9]+)\s*([kmg]?)b?\s*', values.get('memory', '0').lower())
    if memory is None or int(memory[1]) * _UNITS[memory[2]] > _MAX_MEMORY:
        raise SceneError(f'<{tag}>: memory: found {values["memory"]}, at most 1G')
    return max(1, int(min(math.prod(_numbers(tag, values.get('count', '1'))), 1e12)))


def _numbers(tag: str, text: str) -> list[float]:
    """Return the sizes of the numbers in an attribute."""
    try:
        found = [abs(float(word)) for word in text.split()]
    except ValueError:
        found = [math.nan]
    if any(map(math.isnan, found)):
        raise SceneError(f'<{tag}>: found {text[:40]!r}, expected numbers')
    return found


def _check_picture(path: Path) -> None:
    """Raise if a PNG, which may be a small file, would fill the memory."""
    with path.open('rb') as file:
        head = file.read(24)
    if head.startswith(b'\x89PNG'):
        sides = int.from_bytes(head[16:20], 'big'), int.from_bytes(head[20:24], 'big')
        if max(sides) > MAX_PIXELS:
            raise SceneError(f'{path.name}: {sides[0]} x {sides[1]} pixels, at most {MAX_PIXELS}')

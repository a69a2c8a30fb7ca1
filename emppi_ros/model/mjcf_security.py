"""
Security checks of MJCF files, before MuJoCo's parser reads them.

Tasks, and with them scenes, may come from untrusted sources. All files that a scene refers to must
lie in its root: the folder of the scene, or one given by the caller, such as the assets of an
installed package. Plugins, XML entities and sizes that would exhaust the memory are rejected.
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
MAX_PIXELS = 8192  # per side of an image
_REFUSED = ('plugin', 'extension')  # these load shared libraries
_LARGEST = {  # limits of attributes that take memory or time
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
_NAME = re.compile(r'[\w .+()/-]+')  # no drives, schemes, backslashes or control characters
# whole words: names may begin like them, and MuJoCo refuses such words where it needs numbers
_NAN = re.compile(r'(?i)(?<!\S)[+-]?(nan(\(\S*\))?|inf(inity)?)(?!\S)')
_XML = ('.xml', '.mjcf')
_DATA = ('.stl', '.obj', '.msh', '.png', '.skn', '.hf', '.bin')


class _Xml(NamedTuple):
    """References and size of one XML file."""

    references: list[tuple[str, str]]  # element, file
    folders: list[str]  # of meshes and textures, from <compiler>
    elements: int  # after replication
    attached: int  # copies of other models


def check(path: Path, root: Path | None = None) -> None:
    """
    Raise SceneError if an MJCF file refers to files outside its root, or exceeds a limit.

    Where MuJoCo looks for a file depends on the element and on its version. Therefore all
    candidate paths must be inside the root, whether or not they exist.
    """
    folder = Path(os.path.abspath(path)).parent
    roots = [root.resolve()] if root else [folder.resolve(), path.resolve().parent]
    try:
        _check(folder / path.name, roots)
    except (SceneError, OSError) as error:
        reason = 'cannot be read: ' if isinstance(error, OSError) else ''
        raise SceneError(f'{path}: {reason}{error}') from None


def _check(path: Path, roots: list[Path]) -> None:
    """Scan the scene and its includes, then check all files that they refer to."""
    folder = path.parent
    _places([folder], [''], path.name, roots, _XML)
    files = {_inside(path, roots)}
    todo, read, other = [(path, False)], {}, []
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
                _check_image(place)
    if (total := sum(file.stat().st_size for file in files)) > MAX_TOTAL:
        raise SceneError(f'files of {total} bytes, at most {MAX_TOTAL}')


def _places(
    bases: list[Path], folders: list[str], name: str, roots: list[Path], suffixes: tuple[str, ...]
) -> list[Path]:
    """Return all candidate paths of a file; SceneError if one is outside the roots."""
    if not name.lower().endswith(suffixes):
        remedy = ''
        if name.lower().endswith('.urdf'):
            scene = f'{name.rpartition("/")[2][:-5]}.xml'
            remedy = f': convert it: emppi robot {name} --scene {scene} --out robot.yaml'
        raise SceneError(f'{name!r} does not end in one of {", ".join(suffixes)}{remedy}')
    names = {name, name.rpartition('/')[2]}  # the latter with strippath of <compiler>
    places = [b / folder / n for b in set(bases) for folder in folders for n in names]
    for place in places:
        _inside(place, roots)
    return places


def _inside(place: Path, roots: list[Path]) -> Path:
    """Return the resolved path; SceneError if it is outside the roots, or not a regular file."""
    lexical = Path(os.path.normpath(place)).parent.resolve() / place.name
    real = place.resolve()
    for candidate in (lexical, real):
        if not any(candidate.is_relative_to(root) for root in roots):
            raise SceneError(
                f'{place.name!r} resolves to {candidate}, outside of {roots[0]}; if files of the '
                'scene lie beside its folder, give `scene_root`'
            )
    if real.exists() and not real.is_file():
        raise SceneError(f'{place.name!r} is not a regular file')
    return real


def _scan(path: Path) -> _Xml:
    """Scan one XML file."""
    with path.open('rb') as file:
        raw = file.read(MAX_XML + 1)
    if len(raw) > MAX_XML:
        raise SceneError(f'{path.name}: more than {MAX_XML} bytes of XML')
    try:
        text = raw.decode('utf-8')
        if '<!DOCTYPE' in text or '<!ENTITY' in text:
            raise SceneError(f'{path.name}: has a document type or entities')
        return _read(raw)
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise SceneError(f'{path.name}: not well-formed XML: {error}') from None


def _read(raw: bytes) -> _Xml:
    references, folders, elements, attached = [], [], 0, 0
    factors = [1]  # multiplicity of the current element and its ancestors
    parser = ElementTree.XMLParser(encoding='utf-8')  # ignore a declared encoding
    for event, element in ElementTree.iterparse(io.BytesIO(raw), ('start', 'end'), parser):
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
            raise SceneError(f'elements nested more than {MAX_DEPTH} levels deep')
        references += [(tag, v) for key, v in values.items() if key.startswith('file')]
        folders += [v for key, v in values.items() if key.endswith('dir') and tag == 'compiler']
    for name in (*folders, *(name for _, name in references)):
        if not _NAME.fullmatch(name):
            raise SceneError(f'{name!r} is not a plain file name')
    return _Xml(references, folders, elements, attached)


def _check_element(tag: str, values: dict[str, str]) -> int:
    """Return the multiplicity of an element; SceneError if an attribute is not allowed."""
    if tag in _REFUSED or 'plugin' in values:
        raise SceneError(f'<{tag}>: plugins are not allowed')
    for key, text in values.items():
        if _NAN.search(text) and key not in ('name', 'class'):
            raise SceneError(f'<{tag}>: {key}: found {text[:40]!r}, expected finite numbers')
        largest = 1000 if key.startswith('nuser_') else _LARGEST.get(key)
        largest = 10_000 if (tag, key) == ('numeric', 'size') else largest
        if largest is not None and not max(_numbers(tag, text), default=0.0) <= largest:
            raise SceneError(f'<{tag}>: {key}: found {text[:40]}, at most {largest:g}')
    memory = re.fullmatch(r'\s*([0-9]+)\s*([kmg]?)b?\s*', values.get('memory', '0').lower())
    if memory is None or int(memory[1]) * _UNITS[memory[2]] > _MAX_MEMORY:
        raise SceneError(f'<{tag}>: memory: found {values["memory"]}, at most 1G')
    return max(1, int(min(math.prod(_numbers(tag, values.get('count', '1'))), 1e12)))


def _numbers(tag: str, text: str) -> list[float]:
    """Return the absolute values of the numbers in an attribute."""
    try:
        numbers = [abs(float(word)) for word in text.split()]
    except ValueError:
        numbers = [math.nan]
    if any(map(math.isnan, numbers)):
        raise SceneError(f'<{tag}>: found {text[:40]!r}, expected numbers')
    return numbers


def _check_image(path: Path) -> None:
    """Raise SceneError if a PNG is too large when decoded."""
    with path.open('rb') as file:
        head = file.read(24)
    if head.startswith(b'\x89PNG'):
        sides = int.from_bytes(head[16:20], 'big'), int.from_bytes(head[20:24], 'big')
        if max(sides) > MAX_PIXELS:
            raise SceneError(f'{path.name}: {sides[0]} x {sides[1]} pixels, at most {MAX_PIXELS}')

"""
Wrong YAML, made from the shipped files: case `index` is always the same text.

>>> kind, text = case(17)   # 'tasks' or 'robots', and bytes
"""

import copy
from typing import Any

import numpy as np

from emppi_ros.core import config, paths

BASES = [
    (kind, path.read_text(), dict(config.load(path)))
    for kind in ('tasks', 'robots')
    for path in sorted((paths.share() / 'config' / kind).glob('*.yaml'))
]


class Raw(str):
    """Text that goes into the YAML as it is."""


NUMBERS = [
    Raw(word)
    for word in (
        '.nan -.nan .inf -.inf 1e308 -1e308 1e400 5e-324 0 -0.0 0.0 -1 1 2 1e-12 1e12 1000000000 '
        '1000000001 99999999999999999999 0x7fffffff 0b1 010 1_000 1:30 190:20:30.15 +.5 1e 1e-3'
    ).split()
]
WORDS = [
    Raw(word)
    for word in (
        'null ~ true yes off "" x "x" [] {} [[]] [{}] {a: 1} [1,2,3] !!int "1" !!float "x" '
        '!!binary "gIGC" !!python/name:os.system !!set {a} !!omap [a: 1] 2001-01-01 &a 1 *a '
        '"\\0" "\\u2028" "\\U0001F916" \u0661\u0662 "../../etc/passwd" "/dev/zero" "%s%n" '
        '"{0.__class__}" "a\\nb" <<'
    ).split(' ')
]
VALUES = [*NUMBERS, *WORDS]
BOMBS = [
    b'a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n',
    b'a: ' + b'[' * 3000,
    b'a: ' + b'{b: ' * 3000,
    b'- ' * 3000,
    b'? ' * 3000,
    b'a: !!binary |\n ' + b'A' * 20000,
    b'a: "' + b'\\x41' * 7000 + b'"',
    b'a: 0x' + b'f' * 20000,
    b'a: ' + b'1' * 20000,
    b'a: ' + b'9:' * 10000 + b'9',
    b'<<: {a: 1}\n<<: {a: 2}\n',
    b'\xff\xfea\x00:\x00',
    b'\xef\xbb\xbfname: x\n',
    b'%YAML 9.9\n---\na: 1\n',
    b'%TAG ! tag:yaml.org,2002:python/\n---\na: !object x\n',
    b'a: 1\n---\na: 2\n',
    b'\x00' * 100,
    b'a' * 40000,
    b'x: ' + b'y' * 10_000_000,
    b'',
    b'#',
]


def case(index: int) -> tuple[str, bytes]:
    """Return kind and bytes of one case."""
    rng = np.random.default_rng([20200127, index])
    kind, text, data = BASES[rng.integers(len(BASES))]
    draw = rng.random()
    if draw < 0.001:
        return kind, BOMBS[rng.integers(len(BOMBS))]
    if draw < 0.25:
        changed = text.encode()
        for _ in range(rng.integers(1, 4)):
            changed = TEXT_CHANGES[rng.integers(len(TEXT_CHANGES))](rng, changed)
        return kind, changed
    data = copy.deepcopy(data)
    for _ in range(1 if rng.random() < 0.7 else rng.integers(2, 6)):
        _change(rng, data)
    return kind, _emit(data).encode()


def _change(rng: np.random.Generator, data: Any) -> None:
    """Change one place of nested YAML, all levels alike."""
    parent = data
    while True:
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        child = parent[key]
        if not (isinstance(child, (dict, list)) and child and rng.random() < 0.75):
            break
        parent = child
    how = rng.integers(9)
    if how == 0:
        del parent[key]
    elif how == 1 and isinstance(parent, dict):
        parent[f'{key}_'] = parent.pop(key)
    elif how == 2 and isinstance(parent, list):
        parent.insert(rng.integers(len(parent) + 1), copy.deepcopy(child))
    elif how == 3 and isinstance(child, list) and child:
        parent[key] = child[:-1] if rng.random() < 0.5 else [*child, child[0]]
    elif how == 4 and _is_number(child):
        factor = [57.29577951308232, -1.0, 10.0, 1.01, 0.99, 1e-300, 1e300][rng.integers(7)]
        parent[key] = child * factor
    elif how == 5 and isinstance(child, list) and all(map(_is_number, child)):
        parent[key] = [value * 57.29577951308232 for value in child]  # degrees
    elif how == 6:
        parent[key] = 'long ' * rng.integers(1, 5000)
    elif how == 7:
        depth = int(rng.integers(1, 500))
        parent[key] = Raw('[' * depth + '1' + ']' * depth)
    else:
        parent[key] = VALUES[rng.integers(len(VALUES))]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _emit(value: Any) -> str:
    """Return flow YAML, keys and all; duplicates and other sins come in by `Raw`."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return '{' + ',\n'.join(f'{key}: {_emit(item)}' for key, item in value.items()) + '}'
    if isinstance(value, (list, tuple)):
        return '[' + ', '.join(map(_emit, value)) + ']'
    if isinstance(value, str):
        return '"' + value.replace('\\', '\\\\').replace('"', '\\"') + '"'
    if value is None or isinstance(value, bool):
        return 'null' if value is None else str(value).lower()
    return repr(value).replace('inf', '.inf').replace('nan', '.nan')


def _place(rng: np.random.Generator, text: bytes) -> int:
    return int(rng.integers(len(text) + 1))


def _cut(rng: np.random.Generator, text: bytes) -> bytes:
    return text[: _place(rng, text)]


def _flip(rng: np.random.Generator, text: bytes) -> bytes:
    changed = bytearray(text or b'a')
    for _ in range(rng.integers(1, 5)):
        changed[rng.integers(len(changed))] = rng.integers(256)
    return bytes(changed)


def _insert(rng: np.random.Generator, text: bytes) -> bytes:
    i = _place(rng, text)
    piece = rng.integers(256, size=rng.integers(1, 20), dtype=np.uint8).tobytes()
    if rng.random() < 0.7:
        piece = b' \t\n:-?,[]{}#&*!|>%@`"\'.e0'[rng.integers(26) :][:1] * rng.integers(1, 4)
    return text[:i] + piece + text[i:]


def _lines(rng: np.random.Generator, text: bytes) -> bytes:
    lines = text.split(b'\n')
    i, j = rng.integers(len(lines), size=2)
    how = rng.integers(3)
    if how == 0:
        del lines[i]
    elif how == 1:
        lines.insert(j, lines[i])
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return b'\n'.join(lines)


def _indent(rng: np.random.Generator, text: bytes) -> bytes:
    lines = text.split(b'\n')
    i = rng.integers(len(lines))
    lines[i] = b' ' * rng.integers(1, 4) + lines[i] if rng.random() < 0.5 else lines[i].lstrip()
    return b'\n'.join(lines)


def _value(rng: np.random.Generator, text: bytes) -> bytes:
    lines = text.split(b'\n')
    i = rng.integers(len(lines))
    head, colon, _ = lines[i].partition(b':')
    lines[i] = head + colon + b' ' + VALUES[rng.integers(len(VALUES))].encode()
    return b'\n'.join(lines)


TEXT_CHANGES = [_cut, _flip, _insert, _lines, _indent, _value]

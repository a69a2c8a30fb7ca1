"""
What an object must remember to go on bit for bit, as JSON and back.

Its class names the attributes in `MEMORY`. Arrays travel as their bytes, floats as the shortest
text that is read back as the same float. Nothing that is read is ever executed.
"""

import binascii
from collections import deque
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.belief.particles import Belief
from emppi_ros.control.plan import Plan
from emppi_ros.core.errors import ReplayError
from emppi_ros.model.ensemble import State
from emppi_ros.state.tracking import Pose, Track

_TUPLES: dict[str, type] = {kind.__name__: kind for kind in (Belief, Plan, Pose, State, Track)}
_FORMER_NAMES = {'Waiting': 'PendingUpdate'}  # of tuples in older recordings

_Kind = TypeVar('_Kind', bound=type)


def restorable(kind: _Kind) -> _Kind:
    """Let snapshots contain tuples of a NamedTuple class."""
    _TUPLES[kind.__name__] = kind
    return kind


class Remembering(Protocol):
    """Something whose class says what it remembers."""

    MEMORY: tuple[str, ...]


def dump(thing: Remembering) -> dict[str, Any]:
    """Return what a thing remembers, as JSON knows it."""
    return {name: _dump(getattr(thing, name)) for name in thing.MEMORY}


def restore(thing: Remembering, memory: dict[str, Any]) -> None:
    """Let a thing of the same task remember what another one did; ReplayError if it cannot."""
    if sorted(memory) != sorted(thing.MEMORY):
        raise ReplayError(
            f'{type(thing).__name__} of another version: it remembers {", ".join(memory)}; '
            f'expected {", ".join(thing.MEMORY)}'
        )
    for name, value in memory.items():
        _restore(thing, name, value)


def _dump(value: Any) -> Any:
    if hasattr(value, 'MEMORY'):
        return dump(value)
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    return encode(value)


def _restore(thing: Remembering, name: str, value: Any) -> None:
    current = getattr(thing, name)
    if hasattr(current, 'MEMORY'):
        restore(current, value)
    elif isinstance(current, np.random.Generator):
        current.bit_generator.state = value
    elif isinstance(current, deque):
        current.clear()
        current.extend(decode(value))
    else:
        setattr(thing, name, decode(value))


def encode(value: Any) -> Any:
    """Return a number, a text, an array, or a structure of them as JSON knows it."""
    if isinstance(value, np.ndarray):
        text = binascii.b2a_base64(value.tobytes(), newline=False).decode('ascii')
        return {'array': [value.dtype.str, value.shape, text]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Rotation):
        return {'rotation': encode(value.as_quat())}
    if isinstance(value, tuple) and hasattr(value, '_fields'):
        return {'tuple': [type(value).__name__, *map(encode, value)]}
    if isinstance(value, tuple):
        return {'tuple': ['', *map(encode, value)]}
    if isinstance(value, dict):
        return {'dict': [[key, encode(item)] for key, item in value.items()]}
    if isinstance(value, (list, deque)):
        return [encode(item) for item in value]
    return value


def decode(value: Any) -> Any:
    """Return what was encoded; ReplayError if it never was."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    try:
        ((kind, content),) = value.items()
        if kind == 'array':
            dtype, shape, text = content
            flat = np.frombuffer(binascii.a2b_base64(text, strict_mode=True), np.dtype(dtype))
            return flat.reshape(shape).copy()
        if kind == 'rotation':  # not from_quat, which normalizes what is normal, and differs
            return Rotation(decode(content), normalize=False)
        if kind == 'tuple':
            items = [decode(item) for item in content[1:]]
            name = _FORMER_NAMES.get(content[0], content[0])
            return _TUPLES[name](*items) if name else tuple(items)
        if kind == 'dict':
            return {key: decode(item) for key, item in content}
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise ReplayError(f'a value in it cannot be read: {error}') from None
    raise ReplayError(f'a value in it cannot be read: unknown kind {kind!r}')

"""
Snapshots: the complete state of an object as JSON, to continue from it bit for bit.

The class of the object lists the attributes in `MEMORY`. Arrays are stored as bytes, floats as
the shortest text with the same value. Reading a snapshot executes no code from it.
"""

import binascii
from collections import deque
from typing import Any, TypeVar

import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import ReplayError
from emppi_ros.core.pose import Pose
from emppi_ros.model.ensemble import State
from emppi_ros.priors.particles import Belief
from emppi_ros.robots.plan import Plan
from emppi_ros.state.tracking import Track

_TUPLES: dict[str, type] = {kind.__name__: kind for kind in (Belief, Plan, Pose, State, Track)}
_FORMER_NAMES = {'Waiting': 'PendingUpdate'}  # of tuples in older recordings

_Kind = TypeVar('_Kind', bound=type)


def restorable(kind: _Kind) -> _Kind:
    """Let snapshots contain tuples of a NamedTuple class."""
    _TUPLES[kind.__name__] = kind
    return kind


def dump(source: Any) -> dict[str, Any]:
    """Return the state of an object as a JSON object."""
    state: dict[str, Any] = {}
    for name in source.MEMORY:
        value = getattr(source, name)
        if hasattr(value, 'MEMORY'):
            state[name] = dump(value)
        elif isinstance(value, np.random.Generator):
            state[name] = value.bit_generator.state
        else:
            state[name] = encode(value)
    return state


def restore(target: Any, memory: dict[str, Any]) -> None:
    """Restore the state of an object of the same task; ReplayError if attributes differ."""
    if sorted(memory) != sorted(target.MEMORY):
        raise ReplayError(
            f'{type(target).__name__} of another version: it contains {", ".join(memory)}; '
            f'expected {", ".join(target.MEMORY)}'
        )
    for name, value in memory.items():
        current = getattr(target, name)
        if hasattr(current, 'MEMORY'):
            restore(current, value)
        elif isinstance(current, np.random.Generator):
            current.bit_generator.state = value
        elif isinstance(current, deque):
            current.clear()
            current.extend(decode(value))
        else:
            setattr(target, name, decode(value))


def encode(value: Any) -> Any:
    """Return the JSON form of numbers, strings, arrays, and structures of them."""
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
    """Return the value of an encoded one; ReplayError if it is invalid."""
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
        if kind == 'rotation':  # from_quat would normalize again and change bits
            return Rotation(decode(content), normalize=False)
        if kind == 'tuple':
            items = [decode(item) for item in content[1:]]
            name = _FORMER_NAMES.get(content[0], content[0])
            return _TUPLES[name](*items) if name else tuple(items)
        if kind == 'dict':
            return {key: decode(item) for key, item in content}
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise ReplayError(f'invalid value: {error}') from None
    raise ReplayError(f'invalid value: unknown kind {kind!r}')

"""What an interrupted inference leaves beside its prior, to go on from, bit for bit."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
import hashlib
import json
from pathlib import Path
from typing import Any
import zipfile

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ConfigError, IdentificationError

Arrays = dict[str, npt.NDArray[Any]]
_KEY = 'key'


def beside(out: Path, system: int = 0) -> Path:
    """Return the file that belongs to a prior's, for the first or for another of its systems."""
    return out.with_suffix(f'.{system}.state.npz' if system else '.state.npz')


def forget(out: Path, systems: int) -> None:
    """Remove the files of an inference that has ended."""
    for system in range(systems):
        beside(out, system).unlink(missing_ok=True)


@contextmanager
def ending(out: Path | None, systems: int = 1) -> Iterator[None]:
    """Forget an inference that ends in an error of its data or settings: it would again."""
    try:
        yield
    except IdentificationError:
        if out is not None:
            forget(out, systems)
        raise


def digest(model: mujoco.MjModel) -> str:
    """Return the hash of a compiled model."""
    buffer = np.empty(mujoco.mj_sizeModel(model), dtype=np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return hashlib.sha256(buffer.tobytes()).hexdigest()


def write(path: Path, key: Mapping[str, Any], state: Mapping[str, npt.ArrayLike]) -> None:
    """Write where an inference is, whole or not at all; ConfigError if that cannot be."""
    part = path.with_suffix('.part.npz')
    try:
        np.savez(part, **{_KEY: json.dumps(key, sort_keys=True)}, **state)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f'{path}: cannot be written: {error}') from None


def read(path: Path, key: Mapping[str, Any], anew: bool) -> Arrays | None:
    """
    Return where an interrupted inference was; None if there is none.

    ConfigError if it had other settings or data, unless it may begin anew.
    """
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as data:
            state = dict(data)
            known = json.loads(str(state.pop(_KEY)))
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        if anew:
            return None
        raise ConfigError(
            f'{path}: no interrupted inference can be read: {error}: remove it, or begin anew by '
            '--overwrite'
        ) from None
    now = json.loads(json.dumps(key))  # lists, as they were written
    other = [name for name in sorted({*known, *now}) if known.get(name) != now.get(name)]
    if not other:
        return state
    if anew:
        return None
    name = other[0]
    raise ConfigError(
        f'{path}: an interrupted inference has another {name}: {_short(known.get(name))}, now '
        f'{_short(key.get(name))}: go on with what it had, or begin anew by --overwrite'
    )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f'{text[:77]}...'

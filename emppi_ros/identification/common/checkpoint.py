"""Checkpoints of an interrupted inference, beside its prior file, to resume from bit for bit."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
import json
from pathlib import Path
from typing import Any
import zipfile

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.identification.methods import RunSettings
from emppi_ros.model import scene
from emppi_ros.recordings.recordings import Recording, recording_digests

Arrays = dict[str, npt.NDArray[Any]]
_KEY = 'key'


def path_beside(out: Path, system: int = 0) -> Path:
    """Return the checkpoint beside a prior file, for the first or another of its systems."""
    return out.with_suffix(f'.{system}.state.npz' if system else '.state.npz')


def remove(out: Path, systems: int) -> None:
    """Remove the checkpoints of a finished inference."""
    for system in range(systems):
        path_beside(out, system).unlink(missing_ok=True)


@contextmanager
def removed_on_error(out: Path | None, systems: int = 1) -> Iterator[None]:
    """Remove the checkpoints if the data or settings are wrong: resuming would fail again."""
    try:
        yield
    except IdentificationError:
        if out is not None:
            remove(out, systems)
        raise


class Checkpoint:
    """The checkpoint of one inference; without a prior file nothing is written."""

    def __init__(
        self,
        run: RunSettings,
        model: mujoco.MjModel,
        recordings: Sequence[Recording],
        system: int = 0,
        **settings: Any,
    ) -> None:
        """Place it beside the prior file; it depends on model, recordings, lag and `settings`."""
        self._path = None if run.out is None else path_beside(run.out, system)
        self._overwrite = run.overwrite
        self._key = {
            'model': scene.digest(model),
            'data': recording_digests(recordings),
            'lag_s': run.lag_s,
            **settings,
        }

    def write(self, state: Mapping[str, npt.ArrayLike]) -> None:
        """Write the state atomically; ConfigError if that fails."""
        if self._path is None:
            return
        part = self._path.with_suffix('.part.npz')
        try:
            arrays = {_KEY: json.dumps(self._key, sort_keys=True), **state}
            np.savez(part, **arrays)  # type: ignore[arg-type]  # none is `allow_pickle`
            part.replace(self._path)
        except OSError as error:
            raise ConfigError(f'{self._path}: cannot be written: {error}') from None

    def read(self) -> Arrays | None:
        """Return the state, or None without one; ConfigError if it has other settings or data."""
        path = self._path
        if path is None or not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as data:
                state = dict(data)
                stored = json.loads(str(state.pop(_KEY)))
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            fault = f'not a readable checkpoint: {error}: remove it'
        else:
            now = json.loads(json.dumps(self._key))  # lists, as they were written
            other = [name for name in sorted({*stored, *now}) if stored.get(name) != now.get(name)]
            if not other:
                return state
            texts = (json.dumps(part.get(other[0])) for part in (stored, now))
            before, after = (text if len(text) <= 80 else f'{text[:77]}...' for text in texts)
            fault = f'the checkpoint has another {other[0]}: {before}, now {after}: resume with '
            fault += 'the same'
        if self._overwrite:
            return None
        raise ConfigError(f'{path}: {fault}, or start again with --overwrite')

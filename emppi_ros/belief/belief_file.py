"""A belief in a file of its own: written whole or not at all, and nothing is lost by it."""

from collections.abc import Mapping, Sequence
import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np

import emppi_ros
from emppi_ros.belief import prior_schema
from emppi_ros.belief.particles import Belief
from emppi_ros.belief.prior_schema import Known, PriorFile
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter

METHOD = 'belief'


def to_file(
    task: str,
    parameters: Sequence[Parameter],
    belief: Belief,
    settings: Mapping[str, Any] | None = None,
    diagnostics: Mapping[str, Any] | None = None,
) -> PriorFile:
    """Return particles (M, P) and weights as a prior for the same task."""
    if not parameters:
        raise ConfigError(f'task {task!r} has no parameters: there is no belief to save')
    known = {
        p.name: Known(p.unit, values=tuple(column.tolist()))
        for p, column in zip(parameters, belief.theta.T, strict=True)
    }
    weights = tuple(np.exp(belief.log_weights).tolist())
    made = {'emppi_ros': emppi_ros.__version__, **(settings or {})}
    return PriorFile(METHOD, (), known, weights, made, dict(diagnostics or {}), task)


def save(path: Path, prior: PriorFile, ours: bool = False) -> Path | None:
    """
    Write a prior to a path; return where a file that was there before has gone.

    Readers see the file before or the new one, never a part, even if the power fails. What was
    there is kept beside it under the first free number (`known.1.yaml`), unless it is `ours`.
    """
    text = prior_schema.to_text(prior, str(check(path)))
    fresh = path.with_name(f'.{path.name}.{os.getpid()}.tmp')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open('w', encoding='utf-8') as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        kept = _keep(path) if path.exists() and not ours else None
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(f'{path}: cannot be written: {error}') from None
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()
    return kept


def check(path: Path) -> Path:
    """Return the path of a belief that is to be saved; ConfigError if it could not be read."""
    if path.suffix not in ('.yaml', '.yml'):
        raise ConfigError(f'{path}: a belief is saved as YAML: expected a name ending in .yaml')
    return path


def _keep(path: Path) -> Path:
    """Copy a file to the first free number; return where it is now, too."""
    text, number = path.read_bytes(), 0
    while True:
        number += 1
        kept = path.with_stem(f'{path.stem}.{number}')
        try:
            with kept.open('xb') as stream:  # 'x': somebody else may save here at this moment
                stream.write(text)
        except FileExistsError:
            continue
        return kept

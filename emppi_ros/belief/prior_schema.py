"""
The keys of a prior's YAML file (`config/priors`), and how one is written.

What was learned from recorded motion leaves by this one way, whatever the method; `binding`
reads it for a task.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
import hashlib
from pathlib import Path
import re
from typing import Any

import numpy as np
import yaml

from emppi_ros.belief.distributions import Prior
from emppi_ros.core import config
from emppi_ros.core.config import key
from emppi_ros.core.errors import ConfigError

MOST = 1 << 20  # characters: some 50 000 numbers, read in two seconds
_VALUE, _WEIGHT, _REST = 28, 6, 1 << 15  # characters of a number, of a weight, and of all else


@dataclass(frozen=True)
class Source:
    """Recorded data that a prior was learned from."""

    name: str = key(doc='of the file')
    sha256: str = key(
        check=lambda text: re.fullmatch('[0-9a-f]{64}', text) is not None,
        allowed='64 hexadecimal digits in lower case',
        doc='of the very bytes',
    )


@dataclass(frozen=True)
class Known:
    """What is known of one parameter: values of particles, or a distribution."""

    unit: str = key(doc="must be the task's: nothing is converted")
    values: tuple[float, ...] | None = key(None, doc='one per weight')
    prior: Prior | None = key(None, doc='a distribution, as in a task')

    def __post_init__(self) -> None:
        """Check that it is one of the two."""
        if (self.values is None) == (self.prior is None):
            raise ConfigError('expected either values or prior')


@dataclass(frozen=True)
class PriorFile:
    """The keys of a prior's YAML file."""

    method: str = key(doc='that made it')
    sources: tuple[Source, ...] = key(doc='recordings; an empty list if there were none')
    parameters: Mapping[str, Known] = key(
        check=lambda known: len(known) > 0,
        allowed='at least one parameter',
        doc='name in the task -> what is known of it',
    )
    weights: tuple[float, ...] | None = key(None, doc='of particles, relative to one another')
    settings: Mapping[str, Any] = key({}, doc='of the method')
    diagnostics: Mapping[str, Any] = key({}, doc='what it said of itself')
    task: str = key('', doc='that alone may use it; empty: all that have such parameters')

    def __post_init__(self) -> None:
        """Check that weights are weights, and that every parameter has a value for each."""
        weights = self.weights or ()
        for i, weight in enumerate(weights):
            if weight < 0.0:
                raise ConfigError(f'weights[{i}]: found {weight:g}, expected a number from 0')
        if self.weights is not None and not 0.0 < sum(weights) < np.inf:
            raise ConfigError(f'weights: they sum to {sum(weights):g}, expected more than 0')
        drawn = {
            n: known.values for n, known in self.parameters.items() if known.values is not None
        }
        for name, values in drawn.items():
            if len(values) != len(weights):
                raise ConfigError(
                    f'parameters: {name}: values: found {len(values)}, expected as many as there '
                    f'are weights: {len(weights)}'
                )
        if weights and not drawn:
            raise ConfigError('weights: found some, but no parameter has values for them')


def digest(path: Path) -> Source:
    """Return the name and the hash of recorded data."""
    try:
        with path.open('rb') as file:
            return Source(path.name, hashlib.file_digest(file, 'sha256').hexdigest())
    except OSError as error:
        raise ConfigError(f'{path}: cannot be read: {error}') from None


def most_particles(parameters: int) -> int:
    """Return how many particles of so many parameters a file surely has room for."""
    return (MOST - _REST) // (_VALUE * parameters + _WEIGHT)


class _Dumper(yaml.SafeDumper):
    """Writes NumPy's numbers like others, and a value twice rather than with an alias."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_multi_representer(np.generic, lambda dumper, x: dumper.represent_data(x.item()))
_Dumper.add_representer(np.ndarray, lambda dumper, x: dumper.represent_data(x.tolist()))


def to_text(file: PriorFile, where: str) -> str:
    """Return a prior as YAML, of which every bit comes back; ConfigError if it cannot be read."""
    data = asdict(file, dict_factory=lambda items: {k: v for k, v in items if v is not None})
    task = data.pop('task')
    data = {'method': data.pop('method'), **({'task': task} if task else {}), **data}
    text = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None
    )
    config.build(PriorFile, config.parse(text, where, MOST), where)
    return text


def write(path: Path, file: PriorFile, overwrite: bool = False) -> None:
    """Write a prior; nothing that could not be read is written."""
    text = to_text(file, str(path))
    try:
        with path.open('w' if overwrite else 'x', encoding='utf-8') as stream:
            stream.write(text)
    except FileExistsError:
        raise ConfigError(
            f'{path}: exists; give another name, or allow it to be overwritten'
        ) from None
    except OSError as error:
        raise ConfigError(f'{path}: cannot be written: {error}') from None

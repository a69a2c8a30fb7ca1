"""
Prior files (`config/priors`): their YAML keys, reading them for a task, and writing them.

Every identification method writes its posterior as a prior file, and so does a saved belief.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
import hashlib
from pathlib import Path
import re
from typing import Any

import numpy as np
import yaml

import emppi_ros
from emppi_ros.core import config, paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key
from emppi_ros.core.errors import ConfigError, prefix_errors, unknown
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.priors.particles import Belief

MAX_CHARACTERS = 1 << 20  # some 50 000 numbers, parsed in two seconds
# characters of one number, of one weight, and of everything else, at most
_MARGIN = 1e-6  # of the range of a parameter: a prior file has no particle on a bound
_NUMBER, _WEIGHT, _REST = 28, 6, 1 << 15


@dataclass(frozen=True)
class DataSource:
    """A file of recorded data that a prior was estimated from."""

    name: str = key(doc='name of the file')
    sha256: str = key(
        check=lambda text: re.fullmatch('[0-9a-f]{64}', text) is not None,
        allowed='64 hexadecimal digits in lower case',
        doc='hash of the file',
    )


@dataclass(frozen=True)
class ParameterPrior:
    """The prior of one parameter: particles, or a distribution."""

    unit: str = key(doc="must be the task's; there is no conversion")
    values: tuple[float, ...] | None = key(None, doc='particles: one value per weight')
    prior: Prior | None = key(None, doc='a distribution, as in a task')

    def __post_init__(self) -> None:
        """Check that there is exactly one of the two."""
        if (self.values is None) == (self.prior is None):
            raise ConfigError('expected either values or prior')


@dataclass(frozen=True)
class PriorFile:
    """The keys of a prior's YAML file."""

    method: str = key(doc='name of the method')
    sources: tuple[DataSource, ...] = key(doc='recorded data; may be empty')
    parameters: Mapping[str, ParameterPrior] = key(
        check=lambda parameters: len(parameters) > 0,
        allowed='at least one parameter',
        doc='name in the task -> prior',
    )
    weights: tuple[float, ...] | None = key(None, doc='of the particles; need not sum to 1')
    settings: Mapping[str, Any] = key({}, doc='settings of the method')
    diagnostics: Mapping[str, Any] = key({}, doc='diagnostics of the method')
    task: str = key('', doc='the only task that may use it; empty: any task with these parameters')

    def __post_init__(self) -> None:
        """Check the weights, and that each parameter with particles has a value per weight."""
        weights = self.weights or ()
        for i, weight in enumerate(weights):
            if weight < 0.0:
                raise ConfigError(
                    f'weights[{i}]: found {weight:g}, expected a non-negative number'
                )
        if self.weights is not None and not 0.0 < sum(weights) < np.inf:
            raise ConfigError(f'weights: they sum to {sum(weights):g}, expected more than 0')
        drawn = {n: p.values for n, p in self.parameters.items() if p.values is not None}
        for name, values in drawn.items():
            if len(values) != len(weights):
                raise ConfigError(
                    f'parameters: {name}: values: found {len(values)}, expected one per weight: '
                    f'{len(weights)}'
                )
        if weights and not drawn:
            raise ConfigError('weights: given, but no parameter has values')


def hash_file(path: Path) -> DataSource:
    """Return the name and the SHA-256 hash of a file."""
    try:
        with path.open('rb') as file:
            return DataSource(path.name, hashlib.file_digest(file, 'sha256').hexdigest())
    except OSError as error:
        raise ConfigError(f'{path}: cannot be read: {error}') from None


def max_particles(parameters: int) -> int:
    """Return how many particles with this number of parameters fit into a file."""
    return (MAX_CHARACTERS - _REST) // (_NUMBER * parameters + _WEIGHT)


class _Dumper(yaml.SafeDumper):
    """Writes NumPy types as plain numbers, and repeated values without aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_multi_representer(
    np.generic,  # type: ignore[type-abstract]  # never instantiated
    lambda dumper, x: dumper.represent_data(x.item()),
)
_Dumper.add_representer(np.ndarray, lambda dumper, x: dumper.represent_data(x.tolist()))


def read(
    name: str, parameters: Sequence[Parameter], priors: Sequence[Prior], task: str = ''
) -> JointPrior:
    """
    Return the prior in a file for the P parameters of a task, in their order.

    `name` is one in config/priors, or a path. Parameters that are not in the file keep their own
    `priors`. ConfigError if the file cannot be read, does not fit, or is for another task.
    """
    path = paths.find_config('priors', name)
    return bind(config.load(path, MAX_CHARACTERS), parameters, priors, str(path), task)


def bind(
    data: dict[str, Any],
    parameters: Sequence[Parameter],
    priors: Sequence[Prior],
    where: str,
    task: str,
) -> JointPrior:
    """Return the prior in YAML data as `read` does; `where` names it in errors."""
    file = config.build(PriorFile, data, where)
    named = {parameter.name: parameter for parameter in parameters}
    try:
        if task and file.task not in ('', task):
            raise ConfigError(
                f'task: found {file.task!r}, expected {task!r}: the file is for another task '
                '(without this key it is for any task with these parameters)'
            )
        for name, entry in file.parameters.items():
            if name not in named:
                raise ConfigError(f'parameters: {name}: {unknown("parameter", name, named)}')
            _check(entry, named[name])
    except ConfigError as error:
        raise config.located(error, where, data) from None
    entries = [file.parameters.get(p.name) for p in parameters]
    drawn = {i: entry.values for i, entry in enumerate(entries) if entry and entry.values}
    values, weights = np.array(list(drawn.values())).T, np.array(file.weights or ())
    weights = weights / weights.sum() if drawn else weights
    pairs = zip(entries, priors, strict=True)
    chosen = [entry.prior if entry and entry.prior else prior for entry, prior in pairs]
    kept = tuple(name for name in named if name not in file.parameters)
    return JointPrior(parameters, chosen, tuple(drawn), values, weights, where, kept)


def _check(entry: ParameterPrior, parameter: Parameter) -> None:
    """Raise if the unit, values or distribution of a parameter are invalid for the task."""
    where = f'parameters: {parameter.name}'
    if entry.unit != parameter.unit:
        raise ConfigError(
            f'{where}: unit: found {entry.unit!r}, expected {parameter.unit!r} as in the task'
        )
    for i, value in enumerate(entry.values or ()):
        if not parameter.lower < value < parameter.upper:
            raise ConfigError(
                f'{where}: values[{i}]: found {value:g}, expected a number between the bounds '
                f'{parameter.lower:g} and {parameter.upper:g} {parameter.unit}'.rstrip()
            )
    if entry.prior is not None:
        rng = np.random.default_rng(0)
        prefix_errors(f'{where}: prior', entry.prior.sample, parameter, 1, rng)


def within(values: Array, lower: float, upper: float) -> Array:
    """Return values (n,) moved inside of two finite bounds: no particle may be on one."""
    if not (np.isfinite(lower) and np.isfinite(upper)):
        return values
    margin = _MARGIN * (upper - lower)
    return np.clip(values, lower + margin, upper - margin)


def to_yaml(file: PriorFile, where: str) -> str:
    """Return a prior as YAML that parses to the same bits; ConfigError if it is invalid."""
    data = asdict(file, dict_factory=lambda items: {k: v for k, v in items if v is not None})
    task = data.pop('task')
    data = {'method': data.pop('method'), **({'task': task} if task else {}), **data}
    text = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None
    )
    config.build(PriorFile, config.parse(text, where, MAX_CHARACTERS), where)
    return text


def write(path: Path, file: PriorFile, overwrite: bool = False) -> None:
    """Write a prior to a new file, or overwrite one; ConfigError if the prior is invalid."""
    paths.write_text(path, to_yaml(file, str(path)), overwrite)


def from_belief(
    task: str,
    parameters: Sequence[Parameter],
    belief: Belief,
    settings: Mapping[str, Any] | None = None,
    diagnostics: Mapping[str, Any] | None = None,
) -> PriorFile:
    """Return a belief as a prior for the same task; ConfigError if it has no parameters."""
    if not parameters:
        raise ConfigError(f'task {task!r} has no parameters: there is no belief to save')
    particles = {
        p.name: ParameterPrior(p.unit, values=tuple(column.tolist()))
        for p, column in zip(parameters, belief.theta.T, strict=True)
    }
    weights = tuple(np.exp(belief.log_weights).tolist())
    made = {'emppi_ros': emppi_ros.__version__, **(settings or {})}
    return PriorFile('belief', (), particles, weights, made, dict(diagnostics or {}), task)


def save(path: Path, prior: PriorFile, replace: bool = False) -> Path | None:
    """
    Write a prior atomically; return the path of the backup of an existing file.

    An existing file is copied to the first free number (`prior.1.yaml`), unless `replace` is set.
    """
    text = to_yaml(prior, str(check_path(path)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        backup = _back_up(path) if path.exists() and not replace else None
    except OSError as error:
        raise ConfigError(f'{path}: cannot be written: {error}') from None
    try:
        paths.replace_text(path, text)
    except ConfigError:
        if backup is not None:
            backup.unlink(missing_ok=True)
        raise
    return backup


def check_path(path: Path) -> Path:
    """Return the path; ConfigError unless it ends in .yaml, as a saved belief must."""
    if path.suffix not in ('.yaml', '.yml'):
        raise ConfigError(f'{path}: expected a name ending in .yaml')
    return path


def _back_up(path: Path) -> Path:
    """Copy a file to the first free number; return the path of the copy."""
    text, number = path.read_bytes(), 1
    while True:
        backup = path.with_stem(f'{path.stem}.{number}')
        try:
            with backup.open('xb') as stream:  # 'x': another process may save at the same time
                stream.write(text)
            return backup
        except FileExistsError:
            number += 1

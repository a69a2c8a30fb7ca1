"""What a prior's YAML file means to a task: its parameters, in order, within their bounds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from emppi_ros.belief.distributions import Prior
from emppi_ros.belief.prior import JointPrior
from emppi_ros.belief.prior_schema import MOST, Known, PriorFile
from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError, unknown
from emppi_ros.model.parameters import Parameter


def read(
    name: str, parameters: Sequence[Parameter], priors: Sequence[Prior], task: str = ''
) -> JointPrior:
    """
    Return the prior that a file gives, for the parameters of a task and in their order.

    Parameters
    ----------
    name : str
        A name in config/priors, or a path.
    parameters : sequence of Parameter
        All P of the task.
    priors : sequence of Prior
        The task's own, which stay for the parameters that the file does not have.
    task : str
        Name of the task, which must be the file's if that names one.

    Raises
    ------
    ConfigError
        If the file cannot be read, or does not fit the task: with file, line, key, what was
        found and what would be right.

    """
    path = paths.find_config('priors', name)
    return _bind(config.load(path, MOST), parameters, priors, str(path), task)


def parse(
    text: str, parameters: Sequence[Parameter], priors: Sequence[Prior], where: str, task: str = ''
) -> JointPrior:
    """Return the prior that the text of a file gives; otherwise like `read`."""
    return _bind(config.parse(text, where, MOST), parameters, priors, where, task)


def _bind(
    data: dict[str, Any],
    parameters: Sequence[Parameter],
    priors: Sequence[Prior],
    where: str,
    task: str,
) -> JointPrior:
    file = config.build(PriorFile, data, where)
    try:
        if task and file.task not in ('', task):
            raise ConfigError(
                f'task: found {file.task!r}, expected {task!r}: it was learned in another task '
                '(without this key it is for all tasks whose parameters it fits)'
            )
        return bind(file, parameters, priors, where)
    except ConfigError as error:
        raise config.located(error, where, data) from None


def bind(
    file: PriorFile, parameters: Sequence[Parameter], priors: Sequence[Prior], where: str = ''
) -> JointPrior:
    """Return a prior for the parameters of a task, or raise ConfigError if it does not fit."""
    named = {parameter.name: parameter for parameter in parameters}
    for name, known in file.parameters.items():
        if name not in named:
            raise ConfigError(f'parameters: {name}: {unknown("parameter", name, named)}')
        _check(known, named[name])
    found = [file.parameters.get(p.name) for p in parameters]
    drawn = {i: known.values for i, known in enumerate(found) if known and known.values}
    weights = np.array(file.weights or ())
    return JointPrior(
        parameters,
        [
            known.prior if known and known.prior else own
            for known, own in zip(found, priors, strict=True)
        ],
        tuple(drawn),
        np.array(list(drawn.values())).T,
        weights / weights.sum() if drawn else weights,
        where,
        tuple(name for name in named if name not in file.parameters),
    )


def _check(known: Known, parameter: Parameter) -> None:
    """Raise if what a file knows of a parameter cannot be."""
    where = f'parameters: {parameter.name}'
    if known.unit != parameter.unit:
        raise ConfigError(
            f'{where}: unit: found {known.unit!r}, expected {parameter.unit!r} as in the task'
        )
    for i, value in enumerate(known.values or ()):
        if not parameter.lower < value < parameter.upper:
            raise ConfigError(
                f'{where}: values[{i}]: found {value:g}, expected a number between the bounds '
                f'{parameter.lower:g} and {parameter.upper:g} {parameter.unit}'.rstrip()
            )
    if known.prior is not None:
        try:
            known.prior.sample(parameter, 1, np.random.default_rng(0))
        except ConfigError as error:
            raise ConfigError(f'{where}: prior: {error}') from None

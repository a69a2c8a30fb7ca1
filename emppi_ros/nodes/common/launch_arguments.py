"""Check the arguments of the launch file, before any node starts."""

from collections.abc import Iterable, Iterator, Mapping
import contextlib
import math
from pathlib import Path
from typing import Any

import rclpy
from rclpy.exceptions import InvalidNamespaceException
from rclpy.validate_namespace import validate_namespace
import yaml

from emppi_ros.core.errors import ConfigError, EmppiError, unknown
from emppi_ros.nodes.belief.saver import with_prior
from emppi_ros.nodes.common import graph
from emppi_ros.priors import prior_file
from emppi_ros.robots.robot import BACKENDS
from emppi_ros.tasks.task import Task, parse_task, task_text

_LOG_LEVELS = ('debug', 'info', 'warn', 'error', 'fatal')
_FLAGS = {'true': True, '1': True, 'false': False, '0': False}  # as launch reads conditions
# set by `ros2 launch` itself, or read by every launched process
_OF_LAUNCH = {
    'emulate_tty', 'launch-prefix', 'launch-prefix-filter', 'sigkill_timeout', 'sigterm_timeout',
}  # fmt: skip


def check_names(given: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise ConfigError for an argument that the launch file does not have."""
    for text in given:
        name = text.partition(':=')[0]
        if name not in {*allowed, *_OF_LAUNCH}:
            raise ConfigError(unknown('launch argument', name, allowed))


def flag(name: str, text: str) -> bool:
    """Return the value of a boolean argument; ConfigError if it is none."""
    if text.lower() not in _FLAGS:
        raise ConfigError(f'{name}: found {text!r}, expected true or false')
    return _FLAGS[text.lower()]


def is_hardware(values: Mapping[str, str]) -> bool:
    """Return whether the robot is real: what `hardware` says, or else that none is simulated."""
    simulate = flag('simulate', values['simulate'])
    return flag('hardware', values['hardware'] or str(not simulate))


def check(values: Mapping[str, str]) -> Task:
    """
    Return the task; ConfigError names the argument with which nodes cannot start.

    An empty value leaves the choice to the parameter file, or else to the node's default.
    """
    file, name = _read(values['params_file']), values['namespace']
    try:
        validate_namespace(name if name.startswith('/') else f'/{name}')
    except InvalidNamespaceException as error:
        raise ConfigError(f'namespace: {error}') from None
    if values['seed'] and not values['seed'].isdecimal():
        raise ConfigError(f'seed: found {values["seed"]!r}, expected a non-negative integer')
    factor, valid = values['real_time_factor'], False
    with contextlib.suppress(ValueError):
        valid = 0.0 < float(factor) < math.inf
    if not valid:
        raise ConfigError(f'real_time_factor: found {factor!r}, expected a positive number')
    level = values['log_level'].rpartition(':=')[2].lower()  # of LOGGER:=LEVEL, too
    for argument, kind, value, allowed in (
        ('log_level', 'log level', level, _LOG_LEVELS),
        ('tracking', 'source of poses', values['tracking'], graph.TRACKING),
        ('backend', 'backend', values['backend'], ('', *BACKENDS)),
    ):
        if value not in allowed:
            raise ConfigError(f'{argument}: {unknown(kind, value, filter(None, allowed))}')
    if is_hardware(values) and flag('use_sim_time', values['use_sim_time']):
        raise ConfigError(
            'use_sim_time: a real robot does not follow /clock; '
            'hardware:=false if another simulator takes its place'
        )
    if values['save_belief']:
        _name('save_belief', prior_file.check_path, Path(values['save_belief']))
    if flag('articulation', values['articulation']):
        save_to = values['save_belief'] or str(dict(_of_node(file, 'belief')).get('save_to', ''))
        _check_articulation(values['prior'], save_to)
    chosen = dict(_of_node(file, 'planner'))
    name = values['task'] or str(chosen.get('task', 'panda_push'))
    robot = values['robot'] or str(chosen.get('robot', ''))
    _name('task', task_text, name)
    argument = 'robot' if robot else 'task'
    task: Task = _name(argument, parse_task, _name(argument, task_text, name, robot), name)
    _name('prior', with_prior, task, values['prior'])
    return task


def _check_articulation(prior: str, save_to: str) -> None:
    """Check that the node can write the prior, and that the belief reads it."""
    example = 'a path with {task}, such as prior:=known/{task}.yaml, need not exist yet'
    if not prior:
        raise ConfigError(f'articulation: there is no prior file to write: {example}')
    path = _name('prior', prior_file.check_path, Path(prior)).expanduser()
    if '{task}' not in prior and not path.is_file():
        raise ConfigError(f'prior: no such file: {prior}; {example}')
    if prior == save_to:
        raise ConfigError(
            f'articulation: prior and save_belief are both {prior!r}, and the belief does not '
            'read again what it saves: expected two files'
        )


def _name(argument: str, function: Any, *args: Any) -> Any:
    """Call a function; name the argument in its errors."""
    try:
        return function(*args)
    except EmppiError as error:
        raise ConfigError(f'{argument}: {error}') from None


def _read(name: str) -> Any:
    """Return the content of a parameter file; ConfigError if nodes cannot read it."""
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f'params_file: no such file: {name}')
    context = rclpy.Context()
    try:  # as the nodes do
        context.init(['--ros-args', '--params-file', name])
    except Exception as error:
        raise ConfigError(f'params_file: {name}: {error}') from None
    context.try_shutdown()
    return yaml.safe_load(path.read_text(encoding='utf-8'))


def _of_node(data: Any, node: str) -> Iterator[tuple[str, Any]]:
    """Yield the parameters that a parameter file sets for a node, in whatever namespace."""
    for key, value in data.items() if isinstance(data, Mapping) else ():
        if key.rpartition('/')[2] in (node, '*', '**') and 'ros__parameters' in value:
            yield from value['ros__parameters'].items()
        else:
            yield from _of_node(value, node)

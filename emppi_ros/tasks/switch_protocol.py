"""
Requests and replies for switching the task at runtime.

A request is the YAML of a task, the name of an installed task, or `{task: NAME, prior: FILE}`.
Requests and replies are text; a reply identifies its request by a digest of the request's text.
"""

from collections.abc import Mapping
import dataclasses
from dataclasses import dataclass
import hashlib
import json
from typing import Any
import uuid

from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError, EmppiError, SwapError, unknown
from emppi_ros.robots.robot import Robot, load_robot
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task, parse_task, task_text
from emppi_ros.tasks.validation import validate

READY, FOLLOWING, REFUSED = 'ready', 'following', 'refused'  # states of one node
DONE, FAILED = 'done', 'failed'  # result of the whole switch, from the planner
RESULTS = (DONE, FAILED, REFUSED)
_TAG = '\n# request '


@dataclass(frozen=True)
class SwitchReply:
    """A node's reply to a request."""

    node: str
    about: str  # digest of the request
    said: str  # one of the states above
    reason: str = ''  # of a refusal or failure
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_text(self) -> str:
        """Return the reply as one line of JSON."""
        return json.dumps(dataclasses.asdict(self))


def read_reply(text: str) -> SwitchReply | None:
    """Return the reply in a text, or None if the text is not a reply."""
    try:
        data = json.loads(text)
        return SwitchReply(**data) if isinstance(data['figures'], dict) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def digest(text: str) -> str:
    """Return 16 hexadecimal digits that identify a text."""
    return hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]


def tagged(text: str) -> str:
    """Return a request made unique by a comment, so that its reply can be identified."""
    return f'{text.rstrip()}{_TAG}{uuid.uuid4().hex}\n'


def request(task: str, prior: str) -> str:
    """Return the request for a task, a name or YAML, whose belief starts from a prior file."""
    if not prior:
        return task
    if _is_name(task):
        return tuning.to_text({'task': task.strip(), 'prior': prior})
    return tuning.to_text({**config.parse(task, 'task'), 'prior': prior})


def requested(text: str, robot: str = '') -> str:
    """
    Return the task YAML that a request asks for; ConfigError if it names an unknown task.

    `robot` replaces the robot of a task that is requested by name.
    """
    yaml, tag, rest = text.rpartition(_TAG)
    text = yaml + '\n' if tag and '\n' not in rest.rstrip() else text
    if _is_name(text):
        return _installed(text.strip(), robot)
    try:
        data = config.parse(text, 'task')
    except ConfigError:  # to be reported where the task is parsed
        return text
    if set(data) != {'task', 'prior'}:
        return text
    task = config.parse(_installed(str(data['task']), robot), 'task')
    return tuning.to_text({**task, 'prior': str(data['prior'])})


def _is_name(text: str) -> bool:
    return not {':', '\n'} & set(text.strip())


def _installed(name: str, robot: str) -> str:
    """Return the YAML of an installed task."""
    if name not in (names := paths.available('tasks')):
        raise ConfigError(unknown('task', name, names))
    return task_text(name, robot)


def checked(text: str, where: str, running: Robot) -> Task:
    """Return the task in a YAML text; SwapError if the running robot cannot switch to it."""
    task = validate(parse_task(text, where))
    compare(task.robot, running)
    if not task.file.real_time:
        raise SwapError(f'real_time: {task.name} cannot be planned in real time on two cores')
    return task


def check_robot(data: Mapping[str, Any], where: str, running: Robot) -> None:
    """Raise unless the task in parsed YAML is for the running robot; check nothing else."""
    name = data.get('robot')
    if not isinstance(name, str):
        raise ConfigError(f'{where}: robot: expected the name of a robot')
    compare(load_robot(name), running)


def compare(robot: Robot, running: Robot) -> None:
    """Raise SwapError unless two robots have the same configuration."""
    if robot == running:
        return
    other = [key for key, value in vars(robot).items() if value != getattr(running, key)]
    what = f'{robot.name!r} differs from the running one in {", ".join(other)}'
    if robot.name != running.name:
        what = f'the task is for {robot.name!r}, this robot is {running.name!r}'
    raise SwapError(f'robot: {what}: to change the robot, restart the nodes')


def explain(error: EmppiError) -> str:
    """Return an error as one line."""
    return ' '.join(str(error).split())

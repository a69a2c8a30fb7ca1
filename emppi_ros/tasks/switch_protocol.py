"""
Going over to another task while the robot runs: what is asked for, and what is answered.

A request is the YAML of a task, or the name of one that comes with the package. Requests and
answers travel as text, and an answer says which text it is about by that text's digest.
"""

import dataclasses
from dataclasses import dataclass
import hashlib
import json
from typing import Any
import uuid

from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError, EmppiError, SwapError, unknown
from emppi_ros.robots.robot import Robot, load_robot
from emppi_ros.tasks.task import Task, parse_task, task_text
from emppi_ros.tasks.validation import check

READY, FOLLOWING, REFUSED = 'ready', 'following', 'refused'  # what a node says
DONE, FAILED = 'done', 'failed'  # and the planner of the whole swap
_TAG = '\n# request '


@dataclass(frozen=True)
class Answer:
    """What a node says about a text."""

    node: str
    about: str  # digest of the text
    said: str  # one of the words above
    reason: str = ''  # in words, unless all is well
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_text(self) -> str:
        """Return it as one line of JSON, to travel."""
        return json.dumps(dataclasses.asdict(self))


def read_answer(text: str) -> Answer | None:
    """Return the answer that a text holds, None if it holds none."""
    try:
        data = json.loads(text)
        return Answer(**data) if isinstance(data['figures'], dict) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def digest(text: str) -> str:
    """Return what tells a text from others."""
    return hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]


def tagged(text: str) -> str:
    """Return a request like no other, so that its answer is to be told from others."""
    return f'{text.rstrip()}{_TAG}{uuid.uuid4().hex}\n'


def requested(text: str, robot: str = '') -> str:
    """
    Return the YAML that a request asks for; ConfigError if it names a task that there is not.

    `robot` replaces that of a task that is asked for by name.
    """
    yaml, tag, rest = text.rpartition(_TAG)
    text = yaml + '\n' if tag and '\n' not in rest.rstrip() else text
    name = text.strip()
    if ':' in name or '\n' in name:
        return text
    if name not in paths.available('tasks'):
        raise ConfigError(unknown('task', name, paths.available('tasks')))
    return task_text(name, robot)


def checked(text: str, where: str, running: Robot) -> Task:
    """Return the task in a YAML text, if the running robot can go over to it as it is."""
    task = check(parse_task(text, where))
    compare(task.robot, running)
    if not task.file.real_time:
        raise SwapError(f'real_time: {task.name} cannot be planned in real time on two cores')
    return task


def check_robot(text: str, where: str, running: Robot) -> None:
    """Raise unless the task in a YAML text is for the running robot; looks at nothing else."""
    data = config.parse(text, where)
    name = data.get('robot')
    if not isinstance(name, str):
        raise ConfigError(f'{where}: robot: expected the name of a robot')
    compare(load_robot(name), running)


def compare(robot: Robot, running: Robot) -> None:
    """Raise SwapError unless two robots are the same in all that is written of them."""
    if robot == running:
        return
    start = 'another robot needs another start of the nodes'
    if robot.name != running.name:
        raise SwapError(
            f'robot: the task is for {robot.name!r}, this robot is {running.name!r}: {start}'
        )
    names = [f.name for f in dataclasses.fields(Robot)]
    other = [n for n in names if getattr(robot, n) != getattr(running, n)]
    raise SwapError(
        f'robot: {robot.name!r} differs from the one that runs in {", ".join(other)}: {start}'
    )


def explain(error: EmppiError) -> str:
    """Return an error as one line."""
    return ' '.join(str(error).split())

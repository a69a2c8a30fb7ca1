"""
Files that the belief starts from and is saved to.

In file names `{task}` stands for the name of the task. The same name for both continues each task
from its saved belief.
"""

import os
from pathlib import Path

from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.priors import prior_file
from emppi_ros.tasks.task import Task

SAVE = 'emppi/belief/save'
_TASK = '{task}'


def with_prior(task: Task, name: str) -> tuple[Task, str]:
    """
    Return the task with the prior of a file, and its text; ConfigError if the task names another.

    An empty name means the task's own prior, or the file that the task names. So does a missing
    file whose name contains `{task}`: nothing was saved for this task yet.
    """
    if name and task.file.prior and name != task.file.prior:
        raise ConfigError(
            f'prior: the task names {task.file.prior!r}, but the parameter `prior` of the belief '
            f'node is {name!r}: remove one of them'
        )
    name = name or task.file.prior
    path = os.path.expanduser(name).replace(_TASK, task.name)
    if not path or (_TASK in name and not Path(path).exists()):
        return task, ''
    return task.with_prior(path), paths.find_config('priors', path).read_text(encoding='utf-8')


class BeliefSaver:
    """Save the belief of a session to a file, keeping earlier files of others."""

    def __init__(self, name: str) -> None:
        """Raise ConfigError unless the name of the file is valid, or empty."""
        if name:
            prior_file.check_path(Path(name))
        self._name = name
        self._written: set[Path] = set()  # by this node, which may overwrite them

    def save(self, task: Task, session: BeliefSession, seed: int) -> str:
        """Save the belief; return a message with the path. Raises ConfigError."""
        if not self._name:
            raise ConfigError(
                'no file to save to: set the parameter save_to of the belief node, or pass '
                'save_belief:=FILE.yaml to the launch file'
            )
        path = Path(os.path.expanduser(self._name).replace(_TASK, task.name)).absolute()
        figures = {'updates': session.counts['updates'], 'ess': session.ess}
        settings = {'seed': seed, 'prior': task.prior.describe()}
        prior = prior_file.from_belief(
            task.name, task.parameters, session.filter.belief, settings, figures
        )
        backup = prior_file.save(path, prior, path in self._written)
        self._written.add(path)
        return f'{path}' + (f'; previous file: {backup.name}' if backup else '')

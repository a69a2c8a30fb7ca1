"""
The service `emppi/belief/save`, and what is saved without it: at a swap of tasks, at the end.

In names of files `{task}` stands for the name of the task, so that each has a file of its own;
the same name as parameter `prior` then is where each task goes on.
"""

from collections.abc import Callable
import os
from pathlib import Path

from rclpy.node import Node
from std_srvs.srv import Trigger

from emppi_ros.belief import prior_file
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.session.belief_session import BeliefSession
from emppi_ros.tasks.task import Task

SAVE = 'emppi/belief/save'
_TASK = '{task}'


def with_prior(task: Task, name: str) -> tuple[Task, str]:
    """
    Return a task with the prior of a file, and that file's text; '' stands for the task's own.

    A file per task (`{task}` in its name) may be missing: nothing was learned of this one yet.
    """
    given = os.path.expanduser(name).replace(_TASK, task.name)
    if not given or (_TASK in name and not Path(given).exists()):
        return task, ''
    return task.with_prior(given), paths.find_config('priors', given).read_text(encoding='utf-8')


class BeliefSaver:
    """Saves the belief of a session; the newest of a task takes its file's name."""

    def __init__(self, node: Node, name: str, save: Callable[[], str]) -> None:
        """Serve; `save` returns in words what it did, or raises an EmppiError."""
        if name:
            prior_file.check_path(Path(name))
        self._node, self._name, self._save = node, name, save
        self._ours: set[Path] = set()  # written by this node, and replaced without a trace
        node.create_service(Trigger, SAVE, self._answer)

    def save(self, task: Task, session: BeliefSession, seed: int) -> str:
        """Save what is believed; return in words where, or raise ConfigError."""
        if not self._name:
            raise ConfigError(
                'nowhere to save to: set the parameter save_to of the belief node, or give '
                'save_belief:=FILE.yaml to the launch file'
            )
        path = Path(os.path.expanduser(self._name).replace(_TASK, task.name)).absolute()
        figures = {'updates': session.counts['updates'], 'ess': session.ess}
        settings = {'seed': seed, 'prior': task.prior.describe()}
        known = prior_file.from_belief(
            task.name, task.parameters, session.filter.belief, settings, figures
        )
        kept = prior_file.save(path, known, path in self._ours)
        self._ours.add(path)
        return f'{path}' + (f'; what was there before: {kept.name}' if kept else '')

    def keep(self, task: Task, session: BeliefSession, seed: int) -> None:
        """Save what is believed if that was asked for; a failure is logged, and nothing else."""
        if not (self._name and task.parameters):
            return
        try:
            self._node.get_logger().info(f'belief saved: {self.save(task, session, seed)}')
        except EmppiError as error:
            self._node.get_logger().error(f'belief not saved: {error}')

    def _answer(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            response.message, response.success = self._save(), True
        except EmppiError as error:
            response.message, response.success = str(error), False
        return response

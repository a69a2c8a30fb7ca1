"""What a session was made of: enough to make it again, or to see that it cannot be the same."""

from collections.abc import Mapping
import hashlib
import platform
from typing import Any

import mujoco
import numpy as np
import scipy

import emppi_ros
from emppi_ros.core.errors import EmppiError, ReplayError
from emppi_ros.tasks.task import Task, parse_task

_KEYS = ('seed', 'task', 'prior', 'model')


def versions() -> dict[str, str]:
    """Return whatever may change the last bit of a result."""
    return {
        'emppi_ros': emppi_ros.__version__,
        'MuJoCo': mujoco.__version__,
        'NumPy': np.__version__,
        'SciPy': scipy.__version__,
        'processor': platform.machine(),
    }


def describe(task: Task, text: str, seed: int, prior: str = '') -> dict[str, Any]:
    """Return what makes a session: a task by its YAML, a seed, and a prior's YAML, if any."""
    return {'seed': seed, 'task': text, 'prior': prior, 'model': _digest(task), **versions()}


def make_task(about: Mapping[str, Any], where: str) -> Task:
    """Return the task of a session, as it was; ReplayError says why it cannot be had."""
    check(about, where)
    try:
        task = parse_task(about['task'], 'task')
        return task.with_prior_text(about['prior'], 'prior') if about['prior'] else task
    except EmppiError as error:
        raise ReplayError(
            f'{where}: the task in it can no longer be used by emppi_ros '
            f'{emppi_ros.__version__} (recorded by {about.get("emppi_ros", "?")}): {error}'
        ) from None


def check(about: Mapping[str, Any], where: str) -> None:
    """Raise ReplayError unless all is there."""
    if missing := [key for key in _KEYS if key not in about]:
        raise ReplayError(f'{where}: a journal without {", ".join(missing)}')


def differences(about: Mapping[str, Any], task: Task) -> list[str]:
    """Return in words what is not as it was when the session was recorded."""
    here = versions()
    found = [
        f'recorded with {name} {about.get(name, "?")}, replayed with {here[name]}'
        for name in here
        if about.get(name) != here[name]
    ]
    if about['model'] != _digest(task):
        found.append('the scene has changed since: other masses, shapes or settings')
    return found


def _digest(task: Task) -> str:
    """Return a hash of a task's compiled scene."""
    buffer = np.empty(mujoco.mj_sizeModel(task.model), np.uint8)
    mujoco.mj_saveModel(task.model, None, buffer)
    return hashlib.sha256(buffer.data).hexdigest()

"""
Ensemble model predictive path integral control (EMPPI) with an online belief, for ROS 2.

The Python API needs no ROS. Names load their modules on first use:

>>> import emppi_ros as emppi
>>> loop = emppi.ClosedLoop(emppi.load_task('panda_push'), seed=0)
>>> trace = loop.run()
"""

import importlib
from typing import TYPE_CHECKING, Any

from emppi_ros.core import opengl

if TYPE_CHECKING:
    from emppi_ros.app.closed_loop import ClosedLoop
    from emppi_ros.belief.particle_filter import ParticleFilter
    from emppi_ros.core.errors import EmppiError
    from emppi_ros.core.pose import Pose
    from emppi_ros.model.ensemble import State
    from emppi_ros.pipeline.identification import identify
    from emppi_ros.pipeline.mechanism import articulate, video_to_task
    from emppi_ros.pipeline.video_tracks import track
    from emppi_ros.planning.plan_update import PlanProblem, plan
    from emppi_ros.planning.planner import Planner
    from emppi_ros.priors.distributions import Prior
    from emppi_ros.priors.particles import Belief
    from emppi_ros.state.estimator import Estimator
    from emppi_ros.tasks.planner_config import PlannerConfig
    from emppi_ros.tasks.schema import BeliefConfig, ParameterConfig, SimulationConfig
    from emppi_ros.tasks.task import Task, load_task

opengl.drop_invalid()  # before anything imports MuJoCo

__version__ = '0.1.0'
__all__ = [
    'Belief',
    'BeliefConfig',
    'ClosedLoop',
    'EmppiError',
    'Estimator',
    'ParameterConfig',
    'ParticleFilter',
    'PlanProblem',
    'Planner',
    'PlannerConfig',
    'Pose',
    'Prior',
    'SimulationConfig',
    'State',
    'Task',
    'articulate',
    'identify',
    'load_task',
    'plan',
    'track',
    'video_to_task',
]
_MODULES = {
    'Belief': 'priors.particles',
    'BeliefConfig': 'tasks.schema',
    'ClosedLoop': 'app.closed_loop',
    'EmppiError': 'core.errors',
    'Estimator': 'state.estimator',
    'ParameterConfig': 'tasks.schema',
    'ParticleFilter': 'belief.particle_filter',
    'PlanProblem': 'planning.plan_update',
    'Planner': 'planning.planner',
    'PlannerConfig': 'tasks.planner_config',
    'Pose': 'core.pose',
    'Prior': 'priors.distributions',
    'SimulationConfig': 'tasks.schema',
    'State': 'model.ensemble',
    'Task': 'tasks.task',
    'articulate': 'pipeline.mechanism',
    'identify': 'pipeline.identification',
    'load_task': 'tasks.task',
    'plan': 'planning.plan_update',
    'track': 'pipeline.video_tracks',
    'video_to_task': 'pipeline.mechanism',
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    value = getattr(importlib.import_module(f'{__name__}.{_MODULES[name]}'), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})

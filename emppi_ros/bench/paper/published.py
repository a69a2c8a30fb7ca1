"""What the paper's Table I says, and a task's settings by it."""

from collections.abc import Mapping
import math
from typing import Any, NamedTuple

from emppi_ros.tasks.schema import TaskFile


class Settings(NamedTuple):
    """What the planner and the likelihood of a task were told."""

    models: int  # N
    rollouts: int  # K
    horizon: int  # T
    noise_variance: float  # Sigma
    temperature: float  # lambda
    likelihood_variance: float
    over: float = 1.0  # our costs are the table's over so much, and so is our lambda


SOURCE = 'Abraham et al. 2020, Table I'
PAPER: Mapping[str, Settings] = {
    'halfcheetah_backflip': Settings(20, 4, 40, 0.5, 0.1, 0.01),
    'shadow_dice': Settings(20, 2, 20, 0.8, 0.001, 1.0, 400.0),
    'adroit_door': Settings(40, 1, 30, 0.2, 0.8, 0.01, 100.0),
    'panda_drawer': Settings(10, 2, 20, 1.0, 0.8, 0.01, 200.0),
    'panda_cabinet': Settings(10, 2, 20, 1.0, 0.8, 0.01, 200.0),
    'panda_push': Settings(10, 1, 8, 0.08, 0.02, 0.2),
    'panda_reconfigure': Settings(10, 1, 8, 0.08, 0.02, 0.2),
}
COMPARED = {  # keys of a likelihood, and of what each is the standard deviation
    'joint_position_sd': 'joint positions',
    'joint_velocity_sd': 'joint velocities',
    'object_position_sd_m': 'object positions',
    'object_rotation_sd_rad': 'object rotations',
}


def changes(file: TaskFile) -> dict[str, Any]:
    """
    Return what makes a task's file the paper's: Table I, and Algorithm 1 where we depart from it.

    Costs, models, priors, steps, noise and success stay as they are.
    """
    table, likelihood = PAPER[file.name], file.belief.likelihood
    sd = math.sqrt(table.likelihood_variance)
    compared = {name: sd for name in COMPARED if getattr(likelihood, name) is not None}
    return {
        'planner': {
            'models': table.models,
            'rollouts': table.rollouts,
            'horizon': table.horizon,
            'noise_variance': [table.noise_variance],
            'temperature': table.temperature / table.over,
            'interpolation': 'hold',
            'filter_window': 0,
        },
        'belief': {
            'particles': table.models,
            'object_gain': 1.0,
            'likelihood': {**compared, 'dof': None},
            'resampling': {
                'scheme': 'gaussian',
                'ess_fraction': 0.5 * table.rollouts,  # 0.5 N K of N particles
                'tempering': None,
                'walk_sd': 0.0,
            },
            'blocks': [],
        },
    }

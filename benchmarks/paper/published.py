"""The paper's Table I, and the settings of a task that follow it."""

from collections.abc import Mapping
import math
from typing import Any, NamedTuple

from emppi_ros.tasks.schema import TaskFile


class PaperSettings(NamedTuple):
    """Hyper-parameters of a task in the paper."""

    models: int  # N
    rollouts: int  # K
    horizon: int  # T
    noise_variance: float  # Sigma
    temperature: float  # lambda
    likelihood_variance: float
    over: float = 1.0  # our costs, and so our lambda, are the table's divided by this


SOURCE = 'Abraham et al. 2020, Table I'
PAPER: Mapping[str, PaperSettings] = {
    'halfcheetah_backflip': PaperSettings(20, 4, 40, 0.5, 0.1, 0.01),
    'shadow_dice': PaperSettings(20, 2, 20, 0.8, 0.001, 1.0, 400.0),
    'adroit_door': PaperSettings(40, 1, 30, 0.2, 0.8, 0.01, 100.0),
    'panda_drawer': PaperSettings(10, 2, 20, 1.0, 0.8, 0.01, 200.0),
    'panda_cabinet': PaperSettings(10, 2, 20, 1.0, 0.8, 0.01, 200.0),
    'panda_push': PaperSettings(10, 1, 8, 0.08, 0.02, 0.2),
    'panda_reconfigure': PaperSettings(10, 1, 8, 0.08, 0.02, 0.2),
}
COMPARED = {  # key of a likelihood: the quantity whose standard deviation it is
    'joint_position_sd': 'joint positions',
    'joint_velocity_sd': 'joint velocities',
    'object_position_sd_m': 'object positions',
    'object_rotation_sd_rad': 'object rotations',
}


def changes(file: TaskFile) -> dict[str, Any]:
    """
    Return the changes that give a task the paper's settings: Table I, and Algorithm 1 as printed.

    Costs, models, priors, steps, noise and success are not changed.
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
            'joint_gain': 1.0,
            'likelihood': {**compared, 'dof': None, 'scale': 'fixed'},
            'changes': None,
            'resampling': {
                'scheme': 'gaussian',
                'ess_fraction': 0.5 * table.rollouts,  # 0.5 N K of N particles
                'tempering': None,
                'walk_sd': 0.0,
            },
            'blocks': [],
        },
    }

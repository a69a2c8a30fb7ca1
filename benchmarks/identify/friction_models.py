"""Friction models of a pendulum whose friction is Stribeck's, each identified by `states`."""

import functools

import numpy as np

from benchmarks.identify import furuta, pendulums
from benchmarks.identify.cells import Family, Values
from emppi_ros.identification.states.estimation import estimate
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.recordings.motion import Motion


@functools.cache
def record(seed: int) -> list[Motion]:
    """Return what an encoder reads of two releases from almost upright."""
    plant, rng = pendulums.pendulum_plant('stribeck'), np.random.default_rng(seed)
    steps = round(furuta.SECONDS / plant.model.opt.timestep)
    return [
        pendulums.observe(*pendulums.simulate(plant, pendulums.STRIBECK_TRUTH, start, steps))
        for start in rng.uniform(2.7, 3.1, (2, 1))
    ]


def measure(case: str, method: str, seed: int) -> Values:
    """Return costs and errors of a release, and of a rollout of another one."""
    plant, (motion, other) = pendulums.pendulum_plant(method), record(seed)
    fit = estimate(plant, motion, SolverConfig())
    truth = pendulums.STRIBECK_TRUTH[: len(fit.theta)]
    percent = 100.0 * np.abs(fit.theta / truth - 1.0)
    return {
        'cost': fit.solution.mean_cost,
        'rollout': furuta.rollout_error(plant, fit.theta, other),
        'inertia': float(percent[0]),
        'friction': float(percent[1:4].max()),
        'iterations': float(fit.solution.iterations),
    }


FAMILY = Family(
    'friction models of a pendulum with Stribeck friction',
    ('release',),
    {
        'viscous': 'inertia and viscous friction',
        'dry': 'and dry friction',
        'stribeck': 'and Stribeck friction, with its velocity',
    },
    {
        'cost': 'squared residuals over steps',
        'rollout': f'rms error of a rollout of another release over {furuta.ROLLOUT_S:g} s [rad]',
        'inertia': 'error of the moment of inertia [%]',
        'friction': 'largest error of the frictions of the model [%]',
        'iterations': 'iterations',
    },
    measure,
    (('stribeck', 'rollout'), ('stribeck', 'inertia')),
    ('viscous', 'dry'),
    [*furuta.CODE, 'benchmarks/identify/furuta.py', 'benchmarks/identify/friction_models.py'],
)

"""Recordings of a Furuta pendulum: each is identified by `states`, and predicts the others."""

import functools

import numpy as np

from benchmarks.identify import pendulums
from benchmarks.identify.cells import Family, Values
from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states.estimation import StatesEstimate, estimate
from emppi_ros.identification.states.forecast import forecast
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.recordings.motion import Motion, split_at

RECORDINGS = 'release', 'swing-up', 'pulse'
SECONDS, ROLLOUT_S = 8.0, 5.0  # of a recording, and of it predicted
PULSE_S = 1.0  # length of the pulse, and time before it
PARTS = 5  # steps of a system that is finer than the model, for each of the model's
TRUE, OURS = 'true', 'states'
WEIGHTS = tuple(f'1e{power}' for power in range(1, 9))
_FINER = ', 1 ms'  # in the name of a case
_INTERVAL_SD = 1.96  # of 95 %
_GROUPS = {
    'inertia': slice(5),
    'friction': slice(5, 9),
    'tilt': slice(9, 12),
    'gain': slice(12, 13),
}
CODE = [
    'emppi_ros/identification/states/*.py', 'benchmarks/assets/furuta.xml',
    'benchmarks/assets/pendulum.*', 'benchmarks/identify/pendulums.py',
]  # fmt: skip


@functools.cache
def record(case: str, seed: int) -> Motion:
    """Return what encoders read of a recording from rest, whose start or pulse is drawn."""
    kind = case.removesuffix(_FINER)
    rng, plant = np.random.default_rng([RECORDINGS.index(kind), seed]), pendulums.furuta_plant()
    size = rng.uniform(2.0, 4.0)  # V
    angle, control = {
        'release': (rng.uniform(2.7, 3.0), None),
        'swing-up': (rng.uniform(0.1, 0.5), pendulums.swing_up),
        'pulse': (0.0, lambda data: np.array([size * (PULSE_S <= data.time < 2.0 * PULSE_S)])),
    }[kind]
    start, steps = np.array([0.0, angle]), round(SECONDS / plant.model.opt.timestep)
    parts = 1 if case == kind else PARTS
    return pendulums.observe(
        *pendulums.simulate(plant, pendulums.FURUTA_TRUTH, start, steps, control, parts)
    )


def rollout_error(plant: Plant, theta: Array, motion: Motion) -> float:
    """
    Return the rms error [rad] of a simulation of the first seconds of a motion from rest.

    It is that of angles modulo a turn: after a turn more or less, motions have no more in common.
    """
    first, _ = split_at(motion, round(ROLLOUT_S / plant.model.opt.timestep))
    start, later = split_at(first, 2)
    start.qpos[1] = start.qpos[0]
    (predicted,) = forecast(plant, theta[None], start, later)
    errors = (predicted - later.qpos + np.pi) % (2.0 * np.pi) - np.pi
    return float(np.sqrt(np.mean(errors**2)))


def errors_of(fit: StatesEstimate) -> dict[str, float]:
    """Return the largest error of each kind of parameter that was found, and of the states."""
    truth, identified = pendulums.FURUTA_TRUTH, np.array(fit.knowledge) == 'found'
    errors, unit = np.abs(fit.theta - truth), 0.01 * truth  # percent
    unit[_GROUPS['tilt']] = 1e-3  # rad
    largest = {
        name: float(np.max(errors[of][identified[of]] / unit[of][identified[of]]))
        for name, of in _GROUPS.items()
        if identified[of].any()
    }
    outside = (errors > _INTERVAL_SD * fit.uncertainty.sd)[identified]
    deviation = fit.solution.qpos - fit.motion.qpos
    return {
        'gain': float(errors[-1] / unit[-1]),  # also if it was not found
        **largest,
        'outside': 100.0 * float(np.mean(outside)),
        'deviation': 1e3 * float(np.sqrt(np.mean(deviation**2))),
        'iterations': float(fit.solution.iterations),
    }


def measure(case: str, method: str, seed: int) -> Values:
    """Return errors of parameters, and of rollouts of all recordings with them."""
    plant, motion, kind = pendulums.furuta_plant(), record(case, seed), case.removesuffix(_FINER)
    theta = pendulums.FURUTA_TRUTH.copy()
    values = dict.fromkeys((*_GROUPS, 'outside'), 0.0)
    if method != TRUE:
        weight = SolverConfig().state_weight if method == OURS else float(method)
        fit = estimate(plant, motion, SolverConfig(state_weight=weight))
        values = errors_of(fit)
        theta[:-1] = fit.theta[:-1]
        if kind != 'release':  # which does not excite the gain; the paper takes it as known, too
            theta[-1] = fit.theta[-1]
    recordings = {other: record(case.replace(kind, other), seed) for other in RECORDINGS}
    return values | {
        name: rollout_error(plant, theta, other) for name, other in recordings.items()
    }


_MEASURES = {
    **{
        kind: f'rms error of a rollout of `{kind}` over {ROLLOUT_S:g} s [rad]'
        for kind in RECORDINGS
    },
    'inertia': 'largest error of moments of inertia that were found [%]',
    'friction': 'largest error of frictions that were found [%]',
    'tilt': 'largest error of angles of the tilt that were found [mrad]',
    'gain': 'error of the motor gain, whose search starts 31 % off [%]',
    'outside': 'parameters that were found, but are not in the 95 % interval [%]',
}
FAMILY = Family(
    'recordings of a Furuta pendulum, identified and predicted from one another',
    tuple(kind + suffix for suffix in ('', _FINER) for kind in RECORDINGS),
    {TRUE: 'the true parameters, in the model', OURS: '`emppi identify --method states`'},
    _MEASURES,
    measure,
    tuple((OURS, kind) for kind in RECORDINGS),
    (TRUE,),
    [*CODE, 'benchmarks/identify/furuta.py'],
)
WEIGHT_FAMILY = Family(
    'the state weight of `states`, for the swing-up of a Furuta pendulum',
    ('swing-up', f'swing-up{_FINER}'),
    dict.fromkeys(WEIGHTS, ''),
    {
        **_MEASURES,
        'deviation': 'rms difference of states and measurements [mrad]',
        'iterations': 'iterations',
    },
    measure,
    (('1e5', 'swing-up'),),
    WEIGHTS,
    FAMILY.code,
)

"""Levenberg-Marquardt on the manifold of states, with a box for parameters (Algorithm 1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states.normal_equations import assemble, solve_step
from emppi_ros.identification.states.residuals import Residuals, evaluate, linearize
from emppi_ros.recordings.motion import Motion, displace

ProgressCallback = Callable[['Iterate'], None]
_MIN_DAMPING, _MAX_DAMPING = 1e-3, 1e12
_ROUNDING = 1e-12  # squared residual of rounding, and of errors of derivatives


@dataclass(frozen=True)
class SolverConfig:
    """Settings of the solver; only the state error weight needs tuning."""

    state_weight: float = 1e5  # of squared impulses against squared observations
    iterations: int = 30
    cost_tolerance: float = 1e-5  # relative decrease at which it stops
    step_tolerance: float = 1e-4  # change, in scales, at which it stops


class Iterate(NamedTuple):
    """The states and parameters after some iterations."""

    theta: Array  # (P,)
    qpos: Array  # (N, nq)
    residuals: Residuals
    iterations: int
    damping: float
    converged: bool

    @property
    def mean_cost(self) -> float:
        """The cost over the number of time steps, as in Table 3."""
        return self.residuals.cost / len(self.qpos)


def solve(
    plant: Plant,
    motion: Motion,
    config: SolverConfig,
    qpos: Array | None = None,
    theta: Array | None = None,
    progress: ProgressCallback = lambda _: None,
) -> Iterate:
    """
    Return the states and parameters of least squares for an observed motion.

    Damping is proportional to the mean square residual, so that it vanishes with the residuals
    (Fan and Yuan 2005). It is at least a thousandth of that: along directions that the data do
    not determine to about thirty scales, parameters stay where the search started.

    The search starts from the observations and the parameters of the plant, or from `qpos` (N, nq)
    and `theta` (P,). IdentificationError if a residual is not finite, or states are undetermined.
    """
    start = motion.qpos if qpos is None else qpos
    guess = plant.initial if theta is None else theta
    if not motion.weights.any():
        raise IdentificationError('nothing was observed: record positions of the joints')
    residuals = evaluate(plant, motion, config.state_weight, guess, start)
    if not np.isfinite(residuals.cost):
        raise IdentificationError('the motion needs forces that are not finite: check its units')
    current = Iterate(guess, start, residuals, 0, 1.0, False)
    while current.iterations < config.iterations and not current.converged:
        current = _iterate(plant, motion, config, current)
        progress(current)
    return current


def _iterate(plant: Plant, motion: Motion, config: SolverConfig, current: Iterate) -> Iterate:
    """Return the next iterate: one linearisation, and the first damping that lowers the cost."""
    jacobian = linearize(plant, motion, config.state_weight, current.theta, current.qpos)
    normal = assemble(jacobian, current.residuals, plant.scales)
    box = [(bound - current.theta) / plant.scales for bound in plant.bounds]
    count = np.count_nonzero(motion.observed)  # as many as impulses, except for two steps
    level = max(current.residuals.cost / count, _ROUNDING)
    damping, largest = current.damping, 0.0
    while damping < _MAX_DAMPING:
        states, step, expected = solve_step(normal, damping * level, *box)
        largest = max(largest, expected)  # a small gain after a failed step does not count
        theta = np.clip(current.theta + step * plant.scales, *plant.bounds)
        qpos = displace(plant.model, current.qpos, states.reshape(motion.weights.shape))
        trial = evaluate(plant, motion, config.state_weight, theta, qpos)
        gain = current.residuals.cost - trial.cost
        if np.isfinite(trial.cost) and gain >= 0.0:
            change = float(np.max(np.abs(step), initial=0.0))
            small = max(gain, largest) <= config.cost_tolerance * current.residuals.cost
            still = len(step) > 0 and change <= config.step_tolerance
            converged = small or (still and damping == current.damping)
            next_damping = max(damping / 10.0, _MIN_DAMPING)
            return Iterate(theta, qpos, trial, current.iterations + 1, next_damping, converged)
        if expected <= config.cost_tolerance * current.residuals.cost:
            break  # only rounding is left
        damping *= 10.0
    return current._replace(iterations=current.iterations + 1, converged=True)

"""Levenberg-Marquardt on the manifold of states, with a box for parameters (Algorithm 1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.config import between, positive
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.motion import Motion, displace
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.states.elimination import assemble, step
from emppi_ros.identify.states.residuals import Residuals, evaluate, linearize

Array = npt.NDArray[np.float64]
Progress = Callable[['Iterate'], None]
_LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e12
_EXACT = 1e-12  # of a squared residual: below it are rounding and derivatives' errors


@dataclass(frozen=True)
class Settings:
    """The solver's settings; the state error weight is the one that matters."""

    state_weight: float = positive(1e5, doc='of squared impulses against squared observations')
    iterations: int = between(1, 1000, 30)
    cost_tolerance: float = positive(1e-5, doc='relative decrease at which it stops')
    step_tolerance: float = positive(1e-4, doc="change, in unknowns' scales, at which it stops")


class Iterate(NamedTuple):
    """What was reached after some iterations."""

    theta: Array  # (P,)
    qpos: Array  # (N, nq)
    residuals: Residuals
    iterations: int
    change: float  # of parameters, the largest, in their scales
    damping: float
    converged: bool

    @property
    def mean_cost(self) -> float:
        """The cost over the number of time steps, as in Table 3."""
        return self.residuals.cost / len(self.qpos)


def solve(
    plant: Plant,
    motion: Motion,
    settings: Settings,
    qpos: Array | None = None,
    theta: Array | None = None,
    progress: Progress = lambda _: None,
) -> Iterate:
    """
    Return the states and parameters of least squares.

    Damping is in proportion to the mean square residual, so that it vanishes with the residuals
    (Fan and Yuan 2005). It never goes below a thousandth of that: a direction which the data do
    not determine to some thirty of the parameters' scales stays where the search started.

    Parameters
    ----------
    plant : Plant
        What moved, with P unknowns.
    motion : Motion
        What was observed.
    settings : Settings
        When to stop, and the state error weight.
    qpos : (N, nq) array, optional
        Where the states start; the observations if not given.
    theta : (P,) array, optional
        Where the parameters start; the unknowns' initial values if not given.
    progress : callable
        Called with each iterate.

    Raises
    ------
    IdentificationError
        If a residual is not finite, or the observations leave states undetermined.

    """
    start = motion.qpos if qpos is None else qpos
    guess = plant.initial if theta is None else theta
    if not motion.weights.any():
        raise IdentificationError('nothing was observed: record positions of the joints')
    residuals = evaluate(plant, motion, settings.state_weight, guess, start)
    if not np.isfinite(residuals.cost):
        raise IdentificationError('the motion needs forces that are not finite: check its units')
    current = Iterate(guess, start, residuals, 0, np.inf, 1.0, False)
    while current.iterations < settings.iterations and not current.converged:
        current = _iterate(plant, motion, settings, current)
        progress(current)
    return current


def _iterate(plant: Plant, motion: Motion, settings: Settings, current: Iterate) -> Iterate:
    """Return the next iterate: one linearisation, and the first damping that lowers the cost."""
    jacobian = linearize(plant, motion, settings.state_weight, current.theta, current.qpos)
    normal = assemble(jacobian, current.residuals, plant.scales)
    box = [(bound - current.theta) / plant.scales for bound in plant.bounds]
    count = np.count_nonzero(motion.weights)  # states are as many as impulses, but for two
    level = max(current.residuals.cost / count, _EXACT)
    damping, hoped = current.damping, 0.0
    while damping < _MOST_DAMPING:
        states, pull, expected = step(normal, damping * level, *box)
        hoped = max(hoped, expected)  # of the first: a small gain after it failed is no end
        theta = np.clip(current.theta + pull * plant.scales, *plant.bounds)
        qpos = displace(plant.model, current.qpos, states.reshape(motion.weights.shape))
        found = evaluate(plant, motion, settings.state_weight, theta, qpos)
        gain = current.residuals.cost - found.cost
        if np.isfinite(found.cost) and gain >= 0.0:
            change = float(np.max(np.abs(pull), initial=0.0))
            small = max(gain, hoped) <= settings.cost_tolerance * current.residuals.cost
            still = len(pull) > 0 and change <= settings.step_tolerance
            converged = small or (still and damping == current.damping)
            done = current.iterations + 1
            return Iterate(
                theta, qpos, found, done, change, max(damping / 10.0, _LEAST_DAMPING), converged
            )
        if expected <= settings.cost_tolerance * current.residuals.cost:
            break  # nothing is left but rounding
        damping *= 10.0
    return current._replace(iterations=current.iterations + 1, change=0.0, converged=True)

"""Lag of the commands: whether they act later, or earlier, than recorded."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.motion import Motion
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.states import solver
from emppi_ros.identify.states.estimation import StatesEstimate, initial_states
from emppi_ros.identify.states.solver import SolverConfig

_MIN_EXPLAINED = 0.5  # of the residual cost
_MIN_LAG = 0.05  # steps
_MIN_COST = 1e-30  # a mean cost of rounding


class CommandLag(NamedTuple):
    """The delay of the commands."""

    steps: float
    step_s: float
    explained: float  # share of the residual cost that the lag explains

    @property
    def seconds(self) -> float:
        """The lag in s."""
        return self.steps * self.step_s

    @property
    def notes(self) -> list[str]:
        """A note for the user if the lag explains most of the residual cost."""
        if self.explained < _MIN_EXPLAINED or abs(self.steps) < _MIN_LAG:
            return []
        when = 'later' if self.steps > 0.0 else 'earlier'
        return [
            f'commands seem to act {1e3 * abs(self.seconds):.2g} ms {when} than recorded, which '
            f'explains {min(self.explained, 1.0):.0%} of the residuals: if that is plausible, '
            f'give --lag {self.seconds:.2g}'
        ]


def estimate_lag(
    plant: Plant, motion: Motion, config: SolverConfig, result: StatesEstimate
) -> CommandLag | None:
    """
    Return by how much commands and torques act later than recorded; None if it cannot be told.

    The lag is the minimum of a parabola through the costs with commands a step later, as
    recorded, and a step earlier.
    """
    if not (np.any(np.ptp(motion.ctrl, axis=0)) or np.any(np.ptp(motion.applied, axis=0))):
        return None
    start = initial_states(plant, motion)
    try:
        earlier, later = (
            solver.solve(plant, _delay(motion, steps), config, start, result.theta).mean_cost
            for steps in (-1, 1)
        )
    except IdentificationError:
        return None  # the estimate is valid without it
    now = result.solution.mean_cost
    curvature = earlier - 2.0 * now + later
    if not curvature > 0.0:
        return None
    steps = 0.5 * (earlier - later) / curvature
    explained = 0.5 * curvature * steps**2 / max(now, _MIN_COST)
    return CommandLag(steps, float(plant.model.opt.timestep), explained)


def _delay(motion: Motion, steps: int) -> Motion:
    """Return a motion whose commands and forces act some steps later."""
    rows = np.concatenate(
        [np.clip(np.arange(r.start, r.stop) - steps, r.start, r.stop - 1) for r in motion.parts]
    )
    return replace(motion, ctrl=motion.ctrl[rows], applied=motion.applied[rows])

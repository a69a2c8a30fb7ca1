"""Whether commands act later, or earlier, than a recording says."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.motion import Motion
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.states import solver
from emppi_ros.identify.states.estimate import Estimate, begin
from emppi_ros.identify.states.solver import Settings

_MOST = 0.5  # of what is left
_LEAST = 0.05  # of a step
_NOTHING = 1e-30  # a mean cost of rounding


class Lag(NamedTuple):
    """By how much commands are late."""

    steps: float
    step_s: float
    explained: float  # share of what is left that it explains

    @property
    def seconds(self) -> float:
        """How much that is."""
        return self.steps * self.step_s

    @property
    def notes(self) -> list[str]:
        """What it is if it explains most of what is left, in words."""
        if self.explained < _MOST or abs(self.steps) < _LEAST:
            return []
        when = 'later' if self.steps > 0.0 else 'earlier'
        return [
            f'commands act {1e3 * abs(self.seconds):.2g} ms {when} than was recorded, by what is '
            f'left ({min(self.explained, 1.0):.0%} of it): give --lag {self.seconds:.2g}, if that '
            'may be'
        ]


def find(plant: Plant, motion: Motion, settings: Settings, result: Estimate) -> Lag | None:
    """
    Return by how much commands and torques act later than was recorded; None if that is not told.

    What is left of a motion is as good as a parabola of the lag: it is fitted to what is left if
    they act a step later, as recorded, and a step earlier.
    """
    if not (np.any(np.ptp(motion.ctrl, axis=0)) or np.any(np.ptp(motion.applied, axis=0))):
        return None
    start = begin(plant, motion)
    try:
        earlier, later = (
            solver.solve(plant, _late(motion, steps), settings, start, result.theta).mean_cost
            for steps in (-1, 1)
        )
    except IdentificationError:
        return None  # what was found stands without it
    now = result.found.mean_cost
    bend = earlier - 2.0 * now + later
    if not bend > 0.0:
        return None
    steps = 0.5 * (earlier - later) / bend
    return Lag(steps, float(plant.model.opt.timestep), 0.5 * bend * steps**2 / max(now, _NOTHING))


def _late(motion: Motion, steps: int) -> Motion:
    """Return a motion whose commands and forces act some steps later."""
    rows = np.concatenate(
        [np.clip(np.arange(r.start, r.stop) - steps, r.start, r.stop - 1) for r in motion.parts]
    )
    return replace(motion, ctrl=motion.ctrl[rows], applied=motion.applied[rows])

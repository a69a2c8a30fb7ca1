"""The method `states` as a whole: from an observed motion to what is known of parameters."""

from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.common.motion import Motion
from emppi_ros.identify.common.noise import SMOOTHING_CUTOFF_HZ, smooth
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.prior_output import knowledge_level
from emppi_ros.identify.states import solver, uncertainty
from emppi_ros.identify.states.solver import Iterate, Progress, Settings
from emppi_ros.identify.states.uncertainty import Uncertainty

Array = npt.NDArray[np.float64]


class Estimate(NamedTuple):
    """Parameters, how well they are known, and how the search went."""

    found: Iterate
    uncertainty: Uncertainty
    knowledge: tuple[str, ...]  # of each of P: found, vague, or unexcited

    @property
    def theta(self) -> Array:
        """The parameters (P,)."""
        return self.found.theta


def estimate(
    plant: Plant, motion: Motion, settings: Settings, progress: Progress = lambda _: None
) -> Estimate:
    """
    Return parameters by least squares, the states starting from filtered observations.

    They do so twice. With parameters that are still far off, states may be pushed across a
    reversal, where dry friction jumps, and stay there: the second search has good ones.
    """
    start = begin(plant, motion)
    first = solver.solve(plant, motion, settings, start, progress=progress)

    def onward(iterate: Iterate) -> None:
        progress(iterate._replace(iterations=first.iterations + iterate.iterations))

    found = solver.solve(plant, motion, settings, start, first.theta, onward)
    if found.residuals.cost > first.residuals.cost:
        found = first._replace(iterations=found.iterations)
    found = found._replace(iterations=first.iterations + found.iterations)
    known = uncertainty.estimate(plant, motion, settings.state_weight, found)
    return Estimate(found, known, tuple(knowledge_level(x) for x in known.sd / plant.scales))


def begin(plant: Plant, motion: Motion) -> Array:
    """Return where the states start (N, nq): observations without noise that would be jerks."""
    model = plant.model
    rate = 1.0 / model.opt.timestep
    qpos = np.concatenate(
        [smooth(motion.qpos[part], rate, SMOOTHING_CUTOFF_HZ) for part in motion.parts]
    )
    for row in qpos if model.nq != model.nv else ():
        mujoco.mj_normalizeQuat(model, row)
    return qpos

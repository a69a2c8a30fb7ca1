"""Estimation of states and parameters from one observed motion."""

from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.common.posterior_samples import knowledge_levels
from emppi_ros.identification.states import solver
from emppi_ros.identification.states.solver import Iterate, ProgressCallback, SolverConfig
from emppi_ros.identification.states.uncertainty import Uncertainty, estimate_uncertainty
from emppi_ros.recordings.motion import Motion
from emppi_ros.recordings.noise import SMOOTHING_CUTOFF_HZ, smooth


class StatesEstimate(NamedTuple):
    """The least-squares solution, and the uncertainty of its parameters."""

    solution: Iterate
    uncertainty: Uncertainty
    knowledge: tuple[str, ...]  # (P,) found, vague, or unexcited

    @property
    def theta(self) -> Array:
        """The parameters (P,)."""
        return self.solution.theta


def estimate(
    plant: Plant, motion: Motion, config: SolverConfig,
    progress: ProgressCallback = lambda _: None,
) -> StatesEstimate:  # fmt: skip
    """
    Return parameters and states by least squares, starting from filtered observations.

    The search runs twice. With parameters that are still far off, states may be pushed across a
    reversal, where dry friction jumps, and stay there; the second search starts from the
    parameters of the first, and from the observations again.
    """
    start = initial_states(plant, motion)
    first = solver.solve(plant, motion, config, start, progress=progress)

    def offset_progress(iterate: Iterate) -> None:
        progress(iterate._replace(iterations=first.iterations + iterate.iterations))

    best = solver.solve(plant, motion, config, start, first.theta, offset_progress)
    if best.residuals.cost > first.residuals.cost:
        best = first._replace(iterations=best.iterations)
    best = best._replace(iterations=first.iterations + best.iterations)
    uncertainty = estimate_uncertainty(plant, motion, config.state_weight, best)
    return StatesEstimate(best, uncertainty, knowledge_levels(uncertainty.sd / plant.scales))


def initial_states(plant: Plant, motion: Motion) -> Array:
    """Return smoothed observations (N, nq), from which the search for states starts."""
    model = plant.model
    rate = 1.0 / model.opt.timestep
    qpos = np.concatenate(
        [smooth(motion.qpos[part], rate, SMOOTHING_CUTOFF_HZ) for part in motion.parts]
    )
    for row in qpos if model.nq != model.nv else ():
        mujoco.mj_normalizeQuat(model, row)
    return qpos

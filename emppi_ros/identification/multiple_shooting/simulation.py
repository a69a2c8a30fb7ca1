"""
The kernel of multiple shooting: all windows of all models, and their derivatives, in one batch.

Derivatives are forward differences. Beside the model of a sample of parameters, one is simulated
for each perturbed parameter, and one for each component of start states, perturbed in all windows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools, Ints
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.recordings.motion import Motion, delay_rows

STEP = 1e-6  # of the scale of a parameter or state; rounding errors grow as 1e-16 / step


class Inputs(NamedTuple):
    """Inputs at the T time steps of one or more recordings."""

    ctrl: Array  # (T, nu), each applied until the next
    begins: Sequence[int] = (0,)  # first step of each recording
    applied: Array | None = None  # (T, nv) external generalised forces, N or N m; None: none

    @classmethod
    def of_motion(cls, motion: Motion) -> 'Inputs':
        """Return the inputs of a motion."""
        return cls(motion.ctrl, motion.begins, motion.applied if motion.applied.any() else None)


def make_ensemble(plant: Plant, models: int, rollouts: int, threads: int = 0) -> Ensemble:
    """Return the models of a plant whose parameters are those of the registry."""
    if len(plant.parameters) != len(plant.unknowns):
        raise IdentificationError('this method needs a task or a model file')
    return Ensemble(plant.model, plant.parameters, models, rollouts, threads)


def roll_out(
    ensemble: Ensemble, inputs: Inputs, steps: Ints, starts: Array, forces: Array | None = None
) -> tuple[Array, Bools]:
    """
    Return the states (M, W, h, 2 nv) after each step, and which models (M,) diverge.

    Windows begin with states `starts` (M, W, 2 nv), and have the inputs of `steps` (W, h). More
    generalised `forces` (M, W, h, nv) may act.
    """
    shape = ensemble.models, *steps.shape
    if ensemble.delays is None:
        ctrl = np.broadcast_to(inputs.ctrl[steps], (*shape, inputs.ctrl.shape[1]))
    else:
        delays = ensemble.delays / ensemble.model.opt.timestep
        ctrl = delay_rows(inputs.ctrl, inputs.begins, delays)[:, steps]
    if inputs.applied is not None:
        applied = np.broadcast_to(inputs.applied[steps], (*shape, inputs.applied.shape[1]))
        forces = applied if forces is None else applied + forces
    begin = State(*np.split(starts, 2, axis=-1))
    fields, diverged = ensemble.rollout(begin, ctrl, ('qpos', 'qvel'), forces)
    states = np.concatenate([fields['qpos'], fields['qvel']], axis=-1)
    return states, diverged.any(axis=1) | ~np.isfinite(states).all(axis=(1, 2, 3))


def simulate(
    plant: Plant, thetas: Array, motion: Motion, steps: Ints, starts: Array, threads: int = 0,
    forces: Array | None = None,
) -> tuple[Array, Bools]:  # fmt: skip
    """Return what `roll_out` does, for parameters (M, P) and the inputs of a motion."""
    ensemble = make_ensemble(plant, len(thetas), len(steps), threads)
    ensemble.write(thetas)
    return roll_out(ensemble, Inputs.of_motion(motion), steps, starts, forces)


def perturb_starts(
    starts: Array, others: int, scale: Array | float = 1.0, first: int = 0
) -> Array:
    """
    Return the starts (N, 1 + others + S, W, S) of all models of N samples.

    They are those given (N, W, S), but in each of the last S models one component is larger by
    STEP times its scale, in all windows from the `first` on.
    """
    size = starts.shape[-1]
    rows = np.repeat(starts[:, None], 1 + others + size, axis=1)
    rows[:, 1 + others :, first:] += STEP * np.diag(np.broadcast_to(scale, size))[:, None]
    return rows

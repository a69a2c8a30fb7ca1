"""Simulation of all windows in one batch call, with derivatives by parameters and starts."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.multiple_shooting.windows import Windows
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.parameters import Parameter
from emppi_ros.recordings.motion import Motion, delay_rows

_STEP = 1e-6  # of the scale of a parameter; of rad, rad/s, m or m/s


class Trajectories(NamedTuple):
    """Positions after each step, and their derivatives."""

    positions: Array  # (W, h, nv)
    by_parameter: Array  # (W, h, nv, P), in the scales of the parameters
    by_start: Array  # (W, h, nv, 2 nv)


class WindowSimulation:
    """
    Simulates windows with derivatives by forward differences.

    One model is simulated for each perturbed parameter, and one for each perturbed component of
    the starts: it perturbs the starts of all windows at once, since each depends on its own only.
    """

    def __init__(self, plant: Plant, motion: Motion, windows: Windows, threads: int = 0) -> None:
        """Set up 1 + P + 2 nv models with W rollouts each."""
        self._plant, self._motion, self.windows = plant, motion, windows
        self._states = 2 * plant.model.nv
        models = 1 + len(plant.unknowns) + self._states
        self._ensemble = make_ensemble(plant, models, windows.count, threads)

    def simulate(self, theta: Array, starts: Array) -> Trajectories | None:
        """Return trajectories of parameters (P,) from starts (W, 2 nv); None if one diverges."""
        plant, width = self._plant, starts.shape[1]
        unknowns = len(plant.unknowns)
        rows = np.tile(theta, (self._ensemble.models, 1))
        changes = np.empty(unknowns)
        for i in range(unknowns):
            rows[1 + i], change = plant.perturbed(theta, i)
            changes[i] = change / plant.scales[i]
        self._ensemble.write(rows)
        begins = np.tile(starts, (self._ensemble.models, 1, 1))
        component = np.arange(width)
        begins[1 + unknowns + component, :, component] += _STEP
        found = roll_out(self._ensemble, self._motion, self.windows, begins)
        if found is None:
            return None
        base = found[0]
        slopes = np.moveaxis(found[1:] - base, 0, -1)
        return Trajectories(base, slopes[..., :unknowns] / changes, slopes[..., unknowns:] / _STEP)


def make_ensemble(plant: Plant, models: int, rollouts: int, threads: int = 0) -> Ensemble:
    """Return the models of a plant whose parameters are those of the registry."""
    return Ensemble(plant.model, _parameters(plant), models, rollouts, threads)


def _parameters(plant: Plant) -> tuple[Parameter, ...]:
    if len(plant.parameters) != len(plant.unknowns):
        raise IdentificationError('this method needs a task or a model file')
    return plant.parameters


def roll_out(
    ensemble: Ensemble, motion: Motion, windows: Windows, starts: Array, more: Array | None = None
) -> Array | None:
    """
    Return the positions (M, W, h, nv) after each step, from starts (M, W, 2 nv).

    Commands and external forces are those of the motion, and forces `more` (M, W, h, nv). None if
    a simulation diverges.
    """
    found = _simulate(ensemble, motion, windows, starts, ('qpos',), more)
    return None if found is None else found['qpos'].copy()


def end_states(
    ensemble: Ensemble, motion: Motion, windows: Windows, starts: Array
) -> Array | None:
    """Return the states (M, W, 2 nv) after the last step, in the same way."""
    found = _simulate(ensemble, motion, windows, starts, ('qpos', 'qvel'), None)
    if found is None:
        return None
    return np.concatenate([found['qpos'][:, :, -1], found['qvel'][:, :, -1]], axis=-1)


def _simulate(
    ensemble: Ensemble,
    motion: Motion,
    windows: Windows,
    starts: Array,
    fields: tuple[str, ...],
    more: Array | None,
) -> Mapping[str, Array] | None:
    """Return fields (M, W, h, n) after each step; None if a simulation diverges."""
    models = ensemble.models
    ctrl = np.broadcast_to(motion.ctrl, (models, *motion.ctrl.shape))
    if ensemble.delays is not None:
        step_s = ensemble.model.opt.timestep
        ctrl = delay_rows(motion.ctrl, motion.begins, ensemble.delays / step_s)
    applied = more
    if motion.applied.any():
        known = motion.applied[windows.steps]
        applied = np.broadcast_to(known, (models, *known.shape))
        applied = applied if more is None else applied + more
    begin = State(*np.split(starts, 2, axis=-1))
    records = ensemble.rollout(begin, ctrl[:, windows.steps], fields, applied)
    if records.diverged.any() or not np.isfinite(records.fields['qpos']).all():
        return None
    return records.fields

"""Forecasts of held-out parts from estimated states, and whether they contradict a prior."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.figures import HeldOutForecast, coordinates
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states.estimation import StatesEstimate
from emppi_ros.identification.states.residuals import commands, forces_known, linearize
from emppi_ros.identification.states.solver import assemble, factorize_states
from emppi_ros.identification.states.stribeck import stribeck_friction
from emppi_ros.recordings.motion import Motion, difference, displace, join

_HORIZON_S = 0.5  # errors of any model grow with time, and beyond this with the motion's own
_CONTRADICTED = 3.0  # standard deviations, RMS over the horizon
_ENDS = 2  # configurations from which a forecast starts: they also determine the velocity


class EndState(NamedTuple):
    """The last two configurations of a part, whose error is normal for given parameters."""

    slope: Array  # (2 nv, P) derivatives by the parameters
    root: Array  # (2 nv, 2 nv) of the covariance for given parameters

    def draw(self, changes: Array, rng: np.random.Generator) -> Array:
        """Return tangents (n, 2, nv) of the configurations for changes of parameters (n, P)."""
        normal = rng.standard_normal((len(changes), len(self.root)))
        return (changes @ self.slope.T + normal @ self.root.T).reshape(len(changes), _ENDS, -1)


def end_states(fit: StatesEstimate) -> list[EndState]:
    """Return the uncertainty of the end of each part of a motion, from the noise of its fit."""
    plant, motion, solution, uncertainty = fit.plant, fit.motion, fit.solution, fit.uncertainty
    weight, nv = fit.config.state_weight, plant.model.nv
    jacobian = linearize(plant, motion, weight, solution.theta, solution.qpos)
    normal = assemble(jacobian, solution.residuals, plant.scales)
    solve = factorize_states(normal, 0.0)
    slopes = -solve(normal.mixed) / plant.scales
    observation = np.nan_to_num(uncertainty.observation_sd) * np.sqrt(uncertainty.correlation)
    ends = []
    for part, observed_sd, impulse_sd in zip(
        motion.parts, observation, np.sqrt(weight) * uncertainty.impulse_sd, strict=True
    ):
        rows = np.arange((part.stop - _ENDS) * nv, part.stop * nv)
        unit = np.zeros((motion.steps * nv, len(rows)))
        unit[rows, np.arange(len(rows))] = 1.0
        shifts = solve(unit).reshape(motion.steps, nv, -1)
        observed = observed_sd[:, None] * (jacobian.observed @ shifts)
        impulses = sum(
            block @ shifts[late : motion.steps - 2 + late]
            for late, block in enumerate(jacobian.impulses)
        )
        spread = np.concatenate([observed, impulse_sd[:, None] * impulses])
        spread = spread.reshape(-1, len(rows))
        # NumPy declares the result of another mode
        root = np.linalg.qr(spread, mode='r').T  # type: ignore[attr-defined]
        ends.append(EndState(slopes[rows], root))
    return ends


def forecast(
    plant: Plant, thetas: Array, earlier: Motion, later: Motion, ends: Array | None = None
) -> Array:
    """
    Return forecasts (n, T, nq) of a motion from its last two known configurations.

    For each of `thetas` (n, P) MuJoCo simulates the T steps of `later`, with its inputs. `ends`
    (n, 2, nv) are tangents by which the known configurations are displaced.
    """
    whole = replace(join([earlier, later]), begins=(0,))
    acting = slice(earlier.steps - 1, whole.steps - 1)  # inputs of the steps before
    motions = np.empty((len(thetas), *later.qpos.shape))
    if ends is None:
        ends = np.zeros((len(thetas), _ENDS, plant.model.nv))
    for rows, theta, tangents in zip(motions, thetas, ends, strict=True):
        model, start = plant.at(theta), displace(plant.model, earlier.qpos[-_ENDS:], tangents)
        data, stribeck = mujoco.MjData(model), stribeck_friction(plant, model, theta)
        last = difference(model, start[:1], start[1:])[0]
        data.qpos[:], data.qvel[:] = start[1], last / model.opt.timestep
        ctrl = commands(plant, whole, theta)[acting]
        inputs = zip(rows, ctrl, whole.applied[acting], strict=True)
        for row, data.ctrl[:], data.qfrc_applied[:] in inputs:
            if stribeck is not None:
                stribeck.write(model, data.qvel)
            mujoco.mj_step(model, data)
            row[:] = data.qpos
    return motions


def forecast_parts(
    fit: StatesEstimate,
    thetas: Array,
    parts: Sequence[tuple[Motion, Motion]],
    ends: Sequence[EndState],
    seed: int,
) -> list[HeldOutForecast]:
    """Return forecasts of the held-out parts by parameters (n, P), from estimated states."""
    rng, forecasts = np.random.default_rng(seed), list[HeldOutForecast]()
    for (earlier, later), end, rows in zip(parts, ends, fit.motion.parts, strict=True):
        if not later.steps:
            continue
        reached = replace(earlier, qpos=fit.solution.qpos[rows])
        tangents = end.draw(thetas - fit.theta, rng)
        qpos = forecast(fit.plant, thetas, reached, later, tangents)
        forecasts.append(HeldOutForecast.of_motion(fit.plant.model, later.qpos, qpos))
    return forecasts


def contradictions(
    fit: StatesEstimate,
    parts: Sequence[tuple[Motion, Motion]],
    forecasts: Sequence[HeldOutForecast],
) -> dict[str, float]:
    """
    Return by how many standard deviations forecasts miss measurements, where more than three.

    It is the RMS over the half second after the known part, or until a joint is at an end stop;
    the largest of all recordings, by quantity. The standard deviation is that of forecasts and
    measurement noise.
    """
    model, off = fit.plant.model, dict[str, float]()
    horizon = max(round(_HORIZON_S / model.opt.timestep), 1)
    noises = zip(parts, fit.uncertainty.observation_sd, strict=True)
    held = [(later, noise) for (_, later), noise in noises if later.steps]
    for (later, noise), held_out in zip(held, forecasts, strict=True):
        if later.steps <= _ENDS:
            continue
        free = np.all(forces_known(model, later), axis=1)
        count = min(horizon, len(free) if free.all() else int(np.argmin(free)))
        for column, (index, name, _) in enumerate(coordinates(model)):
            joint = int(np.searchsorted(model.jnt_qposadr, index, side='right')) - 1
            dof = model.jnt_dofadr[joint] + index - model.jnt_qposadr[joint]
            observed = np.flatnonzero(later.observed[:count, dof])
            if not len(observed) or not fit.uncertainty.affected[dof]:
                continue
            values = held_out.forecast[:, observed, column]
            errors = (held_out.measured[observed, column] - values.mean(axis=0)) / np.hypot(
                values.std(axis=0), noise[dof]
            )
            off[name] = max(off.get(name, 0.0), float(np.sqrt(np.mean(errors**2))))
    return {name: size for name, size in off.items() if size > _CONTRADICTED}

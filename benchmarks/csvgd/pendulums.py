"""
Double pendulums with the eleven parameters of Heiden et al. (2022), supplement, Table 1.

One is simulated, one is real: half a second of a recording is learned from, and those of other
recordings are forecast. Angles of the real one are those of filmed markers; velocities were not
measured.
"""

from collections.abc import Sequence
from dataclasses import replace
import functools
import math
from pathlib import Path

import mujoco
import numpy as np

from benchmarks import ASSETS
from benchmarks.csvgd.sample_metrics import knn_kl, squared_mmd
from benchmarks.csvgd.simulation import roll_out
from benchmarks.real.datasets import DATASETS, PENDULUM_RATE_HZ
from emppi_ros.core.arrays import Array
from emppi_ros.identification.multiple_shooting import windows
from emppi_ros.identification.multiple_shooting.training_data import ShootingProblem
from emppi_ros.model.parameters import Parameter

PENDULUM_TRUTH = np.array(
    [0.3, 0.01, 0.08, 0.02, 0.004, 0.18, 0.2, 0.006, 0.1, -0.03, 0.002]
)  # of the simulated one, in the order of the parameters
PENDULUM_STEPS = 200  # of a trajectory: 2 s simulated, 0.5 s real
STARTS = 10  # held-out trajectories in simulation
_START_SD = 0.1  # rad, of starting positions about that of training
_STRIDE = 5  # compare every n-th step
_REAL_INERTIA = 1e-5  # kg m^2: the least; that of the paper excludes links so light and short
_ANGLE_SD = 0.005  # rad: half a pixel at a radius of a hundred


def rollout(
    model: mujoco.MjModel, parameters: tuple[Parameter, ...], theta: Array, start: Array,
    controls: Array,
) -> Array:  # fmt: skip
    """Return the states (M, T, nq + nv) after each step, with parameters (M, P), from one or M."""
    fields = roll_out(model, parameters, theta, start, controls, ('qpos', 'qvel'))
    return np.concatenate(list(fields.values()), axis=-1)


def noisy_problem(
    model: mujoco.MjModel, parameters: tuple[Parameter, ...], truth: Array, start: Array,
    controls: Array, share: float, seed: int,
) -> ShootingProblem:  # fmt: skip
    """Return measurements of a system, with noise relative to the spread of each state."""
    clean = rollout(model, parameters, truth[None], start, controls)
    noise = share * clean[0].std(axis=0)
    measured = clean + noise * np.random.default_rng(seed).standard_normal(clean.shape)
    return ShootingProblem(model, parameters, start, controls, measured[0], noise)


def pendulum(seed: int = 0) -> tuple[ShootingProblem, Array]:
    """Return the noisy simulated double pendulum of Table 1, and its truth (11,)."""
    start, controls = np.array([2.2, 0.8, 0.0, 0.0]), np.zeros((PENDULUM_STEPS, 0))
    problem = noisy_problem(_model(), _parameters(), PENDULUM_TRUTH, start, controls, 0.02, seed)
    return problem, PENDULUM_TRUTH


def _model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(ASSETS / 'double_pendulum.xml'))


def _parameters() -> tuple[Parameter, ...]:
    length = Parameter('length', 'body_pos', 'link2', 0, 0.08, 0.3, 'm')
    upper, lower = _of_link('link1', 'shoulder'), _of_link('link2', 'elbow')
    return (*upper, length, *lower)


def _of_link(link: str, joint: str) -> list[Parameter]:
    return [
        Parameter(f'mass of {link}', 'body_mass', link, 0, 0.05, 0.5, 'kg'),
        Parameter(f'inertia of {link}', 'body_inertia', link, 0, 0.002, 1.0, 'kg m^2'),
        Parameter(f'centre of {link}, x', 'body_ipos', link, 0, -0.2, 0.2, 'm'),
        Parameter(f'centre of {link}, y', 'body_ipos', link, 1, -0.2, 0.2, 'm'),
        Parameter(f'friction of {joint}', 'dof_damping', joint, 0, 0.0, 0.5, 'N m s/rad'),
    ]


def compare_simulated(problem: ShootingProblem, theta: Array, seed: int) -> dict[str, float]:
    """
    Return how predictions of particles (N, P) differ from measurements of the truth.

    Both are sets of N noisy trajectories, in standard deviations of the noise, from starts near
    that of the training data. Divergences are means over starts; `error` is the rms error of the
    states in units of their spread. Predictions get measurement noise, too, so that a perfect
    posterior has divergences of about zero. Empty if most particles diverge.
    """
    rng = np.random.default_rng([seed, 1])
    rows: list[tuple[float, ...]] = []
    for _ in range(STARTS):
        start = problem.start.copy()
        start[:2] += _START_SD * rng.standard_normal(2)
        exact, clean = (
            rollout(problem.model, problem.parameters, values, start, problem.controls)
            for values in (PENDULUM_TRUTH[None], theta)
        )
        clean = clean[np.isfinite(clean).all(axis=(1, 2))]
        if len(clean) < len(theta) / 2:
            return {}
        error = float(np.sqrt(np.mean(((clean - exact) / problem.scale) ** 2)))
        thin = slice(_STRIDE - 1, None, _STRIDE)
        flat = [(part[:, thin] / problem.noise).reshape(len(part), -1) for part in (exact, clean)]
        # equal sizes: the same bias in both directions
        real, simulated = (x + rng.standard_normal(flat[1].shape) for x in flat)
        rows.append((
            knn_kl(real, simulated), knn_kl(simulated, real), squared_mmd(simulated, real), error,
        ))  # fmt: skip
    names = 'kl_real_sim', 'kl_sim_real', 'mmd', 'error'
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


@functools.cache
def read_real(folder: Path) -> tuple[Array, ...]:
    """Return the angles (1 + PENDULUM_STEPS, 2) [rad] of half a second of each recording."""
    dataset = DATASETS['free-pendulum']
    columns = [f'position/{joint} [rad]' for joint in ('shoulder', 'elbow')]
    rows = slice(0, PENDULUM_STEPS + 1)
    return tuple(
        np.column_stack([recording.columns[name] for name in columns])[rows]
        for recording in dataset.read(folder / dataset.folder)
    )


def real_problem(angles: Array) -> ShootingProblem:
    """Return the problem of measured angles (1 + PENDULUM_STEPS, 2); the start is estimated."""
    model = _model()
    model.opt.timestep = 1.0 / PENDULUM_RATE_HZ
    parameters = tuple(
        replace(p, lower=_REAL_INERTIA) if p.field == 'body_inertia' else p for p in _parameters()
    )
    states = np.concatenate([angles, np.gradient(angles, model.opt.timestep, axis=0)], axis=1)
    noise = np.array([_ANGLE_SD, _ANGLE_SD, math.inf, math.inf])
    controls = np.zeros((len(angles) - 1, 0))
    return ShootingProblem(
        model, parameters, states[:1], controls, states[1:], noise, first_steps=(0,)
    )


def compare_real(
    problem: ShootingProblem, held_out: Sequence[Array], theta: Array, seed: int
) -> dict[str, float]:
    """
    Return how predictions by particles (N, P) differ from held-out recordings.

    A particle predicts each recording from a polynomial through its first samples. Divergences
    are those between the sets of predicted and recorded trajectories, medians over particles, in
    units of the noise, which predictions get, too. `error` is the median absolute error of both
    angles [rad], `error_quarter` that in the first quarter. Empty if most particles diverge.
    """
    rng = np.random.default_rng([seed, 3])
    simulated = np.stack([_forecast(problem, angles, theta) for angles in held_out], axis=1)
    simulated = simulated[np.isfinite(simulated).all(axis=(1, 2, 3))]
    if len(simulated) < len(theta) / 2:
        return {}
    real = np.stack([angles[1:] for angles in held_out])  # (R, T, 2)
    apart = np.abs(simulated - real)
    target = (real[:, _STRIDE - 1 :: _STRIDE] / _ANGLE_SD).reshape(len(real), -1)
    flat = simulated[:, :, _STRIDE - 1 :: _STRIDE] / _ANGLE_SD
    flat = flat.reshape(*flat.shape[:2], -1) + rng.standard_normal(
        (*flat.shape[:2], target.shape[1])
    )
    rows = [(knn_kl(target, of), knn_kl(of, target), squared_mmd(of, target)) for of in flat]
    names = 'kl_real_sim', 'kl_sim_real', 'mmd'
    return {
        **dict(zip(names, np.median(rows, axis=0).tolist(), strict=True)),
        'error': float(np.median(apart)),
        'error_quarter': float(np.median(apart[:, :, : PENDULUM_STEPS // 4])),
    }


def _forecast(problem: ShootingProblem, angles: Array, theta: Array) -> Array:
    """Return the angles (N, T, 2) that particles predict for a recording (1 + T, 2)."""
    window = windows.Windows(
        angles[None], np.ones((1, *angles.shape), bool), np.arange(len(angles) - 1)[None],
        np.zeros(1, int),
    )  # fmt: skip
    start = windows.guess_starts(window, problem.model.opt.timestep)[0]
    states = rollout(problem.model, problem.parameters, theta, start, problem.controls)
    return states[..., :2]

"""
A real double pendulum with the eleven parameters of Heiden et al. (2022), supplement, Table 1.

One second of one run is learned from, ten other seconds are forecast. Angles are those of filmed
markers; velocities were not measured.
"""

from collections.abc import Sequence
from dataclasses import replace
import math
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from benchmarks.identify import csvgd_systems
from benchmarks.identify.posterior_metrics import knn_kl, mmd
from benchmarks.real.datasets import DATASETS, PENDULUM_RATE_HZ
from emppi_ros.core.errors import BenchError
from emppi_ros.core.paths import ASSETS
from emppi_ros.identify.bayessim.starts import find_starts
from emppi_ros.identify.csvgd.problem import ShootingProblem
from emppi_ros.recordings.noise import difference_noise

Array = npt.NDArray[np.float64]
STEPS = 400  # of a trajectory: 1 s
_HELD_OUT = 10  # trajectories
_STRIDE = 5  # compare every n-th step
_INERTIA = 1e-5  # kg m^2: the lower limit in place of that of the paper


def read(folder: Path, published_limits: bool = False) -> tuple[ShootingProblem, list[Array]]:
    """
    Return the problem of the first second, and the positions (1 + STEPS, 2) of held-out seconds.

    These are the first ones of the other runs, and the next ones of the run that is learned from,
    up to ten. The inertias may be less than the 0.002 kg m^2 of the paper, which exclude links as
    light and short as the real ones, unless `published_limits`. BenchError if the recordings are
    not there.
    """
    dataset = DATASETS['free-pendulum']
    place = folder / dataset.folder
    if not place.is_dir():
        raise BenchError(f'--data: no folder {place} ({dataset.source})')
    runs = [
        np.column_stack(
            [one.columns[f'position/{joint} [rad]'] for joint in ('shoulder', 'elbow')]
        )
        for one in dataset.read(place)
    ]
    first, *others = runs
    needed = STEPS + 1
    pieces = [one[:needed] for one in others]
    pieces += [first[begin : begin + needed] for begin in range(needed, len(first), needed)]
    held_out = [one for one in pieces if len(one) == needed][:_HELD_OUT]
    return _problem(first[:needed], published_limits), held_out


def _problem(angles: Array, published_limits: bool) -> ShootingProblem:
    """Return the problem of angles (1 + STEPS, 2)."""
    model = mujoco.MjModel.from_xml_path(str(ASSETS / 'double_pendulum.xml'))
    model.opt.timestep = 1.0 / PENDULUM_RATE_HZ
    parameters = csvgd_systems.pendulum()[0].parameters
    if not published_limits:
        parameters = tuple(
            replace(one, lower=_INERTIA) if one.field == 'body_inertia' else one
            for one in parameters
        )
    states = np.concatenate([angles, np.gradient(angles, model.opt.timestep, axis=0)], axis=1)
    noise = np.concatenate([difference_noise(angles), [math.inf, math.inf]])
    controls = np.zeros((len(angles) - 1, 0))
    return ShootingProblem(
        model, parameters, states[:1], controls, states[None, 1:], noise, first_steps=(0,)
    )


def compare(
    problem: ShootingProblem, held_out: Sequence[Array], theta: Array, seed: int = 0
) -> dict[str, Array]:
    """
    Return how predictions by particles (N, P) differ from held-out trajectories, by particle.

    A particle makes one prediction for each trajectory, from a draw of what its first positions
    tell of its start, with measurement noise. Divergences are those between the two sets, in
    standard deviations of the noise: negative if each prediction is near its own trajectory,
    positive if the sets differ. `error` is the median absolute error of both angles [rad],
    `error_quarter` that in the first quarter. Particles that diverge are NaN.
    """
    rng = np.random.default_rng([seed, 3])
    sd = problem.noise[:2]
    simulated = predict(problem, held_out, theta, seed)
    real = np.stack([one[1:] for one in held_out])  # (R, T, 2)
    apart = np.abs(simulated - real)
    quarter = np.median(apart[:, :, : STEPS // 4], axis=(1, 2, 3))
    noisy = simulated + sd * rng.standard_normal(simulated.shape)

    def flat(values: Array) -> Array:
        return (values[:, _STRIDE - 1 :: _STRIDE] / sd).reshape(len(values), -1)

    target = flat(real)
    found: dict[str, list[float]] = {name: [] for name in ('kl_real_sim', 'kl_sim_real', 'mmd')}
    for one in noisy:
        there = np.isfinite(one).all()
        own = flat(one)
        found['kl_real_sim'].append(knn_kl(target, own) if there else math.nan)
        found['kl_sim_real'].append(knn_kl(own, target) if there else math.nan)
        found['mmd'].append(mmd(own, target) if there else math.nan)
    divergences = {name: np.array(values) for name, values in found.items()}
    return {**divergences, 'error': np.median(apart, axis=(1, 2, 3)), 'error_quarter': quarter}


def predict(
    problem: ShootingProblem, held_out: Sequence[Array], theta: Array, seed: int = 0
) -> Array:
    """Return the positions (N, R, STEPS, 2) that particles (N, P) predict for trajectories."""
    rng = np.random.default_rng([seed, 2])
    parts = []
    for one in held_out:
        start = find_starts(replace(_problem(one, False), noise=problem.noise))[0]
        normal = rng.standard_normal((len(theta), len(start.mean)))
        begin = start.mean + normal @ start.root.T
        states = csvgd_systems.rollout(
            problem.model, problem.parameters, theta, begin, problem.controls
        )
        parts.append(states[..., :2])
    return np.stack(parts, axis=1)

"""Systems with known parameters: a double pendulum, two weights."""

from pathlib import Path

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.multiple_shooting.training_data import ShootingProblem
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.parameters import Parameter

_HERE = Path(__file__).parent


def rollout(
    model: mujoco.MjModel, parameters: tuple[Parameter, ...], theta: Array, start: Array,
    controls: Array,
) -> Array:  # fmt: skip
    """Return the states (M, T, nq + nv) after each step, with parameters (M, P), from one or M."""
    ensemble = Ensemble(model, parameters, len(theta), threads=1)
    ensemble.write(theta)
    everywhere = np.broadcast_to(controls, (len(theta), 1, *controls.shape))
    begin = State(*np.split(start, 2, axis=-1))
    fields = ensemble.rollout(begin, everywhere, ('qpos', 'qvel')).fields
    return np.concatenate([fields['qpos'], fields['qvel']], axis=-1)[:, 0]


def _noisy_problem(
    model: mujoco.MjModel, parameters: tuple[Parameter, ...], truth: Array, start: Array,
    controls: Array, share: float, seed: int,
) -> ShootingProblem:  # fmt: skip
    """Return measurements of a system, with noise relative to the spread of each state."""
    clean = rollout(model, parameters, truth[None], start, controls)
    noise = share * clean[0].std(axis=0)
    measured = clean + noise * np.random.default_rng(seed).standard_normal(clean.shape)
    return ShootingProblem(model, parameters, start, controls, measured[0], noise)


PENDULUM_TRUTH = np.array(
    [0.3, 0.01, 0.08, 0.02, 0.004, 0.18, 0.2, 0.006, 0.1, -0.03, 0.002]
)  # the truth, in the order of the parameters


def _link_parameters(link: str, joint: str) -> list[Parameter]:
    return [
        Parameter(f'mass of {link}', 'body_mass', link, 0, 0.05, 0.5, 'kg'),
        Parameter(f'inertia of {link}', 'body_inertia', link, 0, 0.002, 1.0, 'kg m^2'),
        Parameter(f'centre of {link}, x', 'body_ipos', link, 0, -0.2, 0.2, 'm'),
        Parameter(f'centre of {link}, y', 'body_ipos', link, 1, -0.2, 0.2, 'm'),
        Parameter(f'friction of {joint}', 'dof_damping', joint, 0, 0.0, 0.5, 'N m s/rad'),
    ]


def pendulum(seed: int = 0) -> tuple[ShootingProblem, Array]:
    """Return the noisy double pendulum of the supplement, Table 1, and its truth (11,)."""
    model = mujoco.MjModel.from_xml_path(str(_HERE / 'double_pendulum.xml'))
    length = Parameter('length', 'body_pos', 'link2', 0, 0.08, 0.3, 'm')
    upper, lower = _link_parameters('link1', 'shoulder'), _link_parameters('link2', 'elbow')
    parameters = (*upper, length, *lower)
    start = np.array([2.2, 0.8, 0.0, 0.0])
    controls = np.zeros((200, 0))
    problem = _noisy_problem(model, parameters, PENDULUM_TRUTH, start, controls, 0.02, seed)
    return problem, PENDULUM_TRUTH


WEIGHTS_TRUTH = np.array([[0.10, 0.04, -0.10, -0.04], [-0.10, -0.04, 0.10, 0.04]])  # m: one truth


def weights(seed: int = 0) -> tuple[ShootingProblem, Array]:
    """Return two weights in a box (supplement, Table 3 b), and its equivalent truths (2, 4)."""
    model = mujoco.MjModel.from_xml_path(str(_HERE / 'two_weights.xml'))
    parameters = tuple(
        Parameter(f'{axis} of {weight}', 'body_pos', weight, element, -size, size, 'm')
        for weight in ('weight 1', 'weight 2')
        for element, (axis, size) in enumerate((('x', 0.14), ('y', 0.08)))
    )
    start = np.zeros(8)
    # joints 6 and 7 go to offsets of 0.1 and -0.1 rad, in sequence
    offsets = 0.1 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [0, 0]])
    controls = np.repeat(offsets, 50, axis=0)
    problem = _noisy_problem(model, parameters, WEIGHTS_TRUTH[0], start, controls, 0.01, seed)
    return problem, WEIGHTS_TRUTH

"""Systems with known parameters: the double pendulum of the benchmark, and two weights."""

from pathlib import Path

import mujoco
import numpy as np

from benchmarks.csvgd.pendulums import PENDULUM_TRUTH, noisy_problem, pendulum, rollout
from emppi_ros.core.arrays import Array
from emppi_ros.identification.multiple_shooting.training_data import ShootingProblem
from emppi_ros.model.parameters import Parameter

__all__ = ['PENDULUM_TRUTH', 'noisy_problem', 'pendulum', 'rollout', 'weights']
_HERE = Path(__file__).parent


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
    problem = noisy_problem(model, parameters, WEIGHTS_TRUTH[0], start, controls, 0.01, seed)
    return problem, WEIGHTS_TRUTH

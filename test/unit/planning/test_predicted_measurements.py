"""Predictions of the planner are compared as the belief compares them with measurements."""

import mujoco
import numpy as np
import pytest

from emppi_ros.belief import likelihood
from emppi_ros.model.ensemble import State
from emppi_ros.planning.predicted_measurements import PredictedMeasurements, rotation_vectors
from emppi_ros.tasks.task import load_task


def _fields(task, state):
    """Return the recorded fields of one state: arrays (1, 1, 1, ...)."""
    data = mujoco.MjData(task.model)
    data.qpos[:], data.qvel[:] = state
    mujoco.mj_kinematics(task.model, data)
    names = 'qpos', 'qvel', 'xpos', 'xquat'
    return {name: getattr(data, name).copy()[None, None, None] for name in names}


def _draw(task, rng, near=None):
    """Return a random state, or one near to another."""
    qpos = task.start().qpos if near is None else near.qpos.copy()
    step = rng.normal(0.0, 0.3, task.model.nv)
    mujoco.mj_integratePos(task.model, qpos, step, 1.0)
    return State(qpos, rng.normal(size=task.model.nv))


@pytest.mark.parametrize('name', ['panda_push', 'fr3_follow'])
def test_differences_of_two_models_are_the_deviations_of_the_likelihood(name, rng):
    task = load_task(name)
    measurements = PredictedMeasurements(task)
    for _ in range(5):
        measured = _draw(task, rng)
        predicted = _draw(task, rng, measured)
        both = [_fields(task, state) for state in (measured, predicted)]
        fields = {name: np.concatenate([one[name] for one in both]) for name in both[0]}
        values = measurements.evaluate(fields)[:, 0, 0]
        stacked = State(*(x[None] for x in predicted))
        expected = likelihood.deviations(task.belief.likelihood, task.model, stacked, measured)
        expected = np.concatenate([one.values[0] for one in expected])
        # rounding of numbers of up to 100 standard deviations
        np.testing.assert_allclose(values[1] - values[0], expected, rtol=0, atol=1e-9)


def test_rotation_vectors_are_the_same_for_both_signs_of_a_quaternion():
    half = 0.5 * np.array([0.0, 0.3, 3.0])
    quaternions = np.stack([np.cos(half), np.zeros(3), np.zeros(3), np.sin(half)], axis=1)
    for signs in ([1, 1, 1], [1, -1, 1], [-1, 1, -1]):
        vectors = rotation_vectors(quaternions * np.array(signs)[:, None])
        expected = np.outer([0.0, 0.3, 3.0], [0.0, 0.0, 1.0])
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-12)  # rounding

"""Laws of expected information: the exact one of a linear channel, and what adds nothing."""

import mujoco
import numpy as np
import pytest

from emppi_ros.belief import measurement_model
from emppi_ros.model.ensemble import State
from emppi_ros.planning import information
from emppi_ros.planning.information import PredictedMeasurements, rotation_vectors
from emppi_ros.tasks.task import load_task

P, K, T, N = 3, 5, 4, 2
ROUNDING = 1e-9  # determinants of 6 x 6 to 8 x 8, with entries of up to 100


def _sigma_points(covariance):
    """Return 2 P points (2 P, P) whose covariance with equal weights is exactly this one."""
    root = np.linalg.cholesky(covariance) * np.sqrt(len(covariance))
    return np.concatenate([root.T, -root.T])


def _linear(rng):
    """Return a covariance (P, P) of parameters and sensitivities (K, T, N, P) to them."""
    half = rng.normal(size=(P, P))
    scale = rng.uniform(0.1, 3.0, (K, 1, 1, 1))
    return half @ half.T + 0.1 * np.eye(P), scale * rng.normal(size=(K, T, N, P))


def _exact(covariance, sensitivity):
    """Return the mutual information (K, T) of theta and y = J theta + e up to each step."""
    result = np.empty((K, T))
    for k in range(K):
        for t in range(T):
            jacobian = sensitivity[k, : t + 1].reshape(-1, P)
            measured = np.eye(len(jacobian)) + jacobian @ covariance @ jacobian.T
            result[k, t] = 0.5 * np.linalg.slogdet(measured)[1]
    return result


def _predict(theta, sensitivity):
    return np.einsum('ktnp,mp->mktn', sensitivity, theta)


@pytest.mark.parametrize('seed', range(5))
def test_the_gain_is_the_exact_mutual_information_of_a_linear_model_with_normal_noise(seed):
    covariance, sensitivity = _linear(np.random.default_rng(seed))
    predictions = _predict(_sigma_points(covariance), sensitivity)
    gain = information.gain(predictions, np.zeros(2 * P))
    np.testing.assert_allclose(gain, _exact(covariance, sensitivity), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize('seed', range(5))
def test_ten_models_find_the_most_informative_of_plans_that_differ_by_a_factor_of_two(seed):
    rng = np.random.default_rng(seed)
    covariance, sensitivity = _linear(rng)
    plans = np.array([0.25, 0.5, 1.0, 2.0, 4.0])[:, None, None, None] * sensitivity[0]
    theta = rng.multivariate_normal(np.zeros(P), covariance, size=10)
    gain = information.gain(_predict(theta, plans), np.zeros(10))
    assert np.all(np.diff(gain, axis=0) > 0.0)
    assert np.all(np.diff(_exact(covariance, plans), axis=0) > 0.0)


def test_models_that_agree_learn_nothing(rng):
    predictions = np.broadcast_to(rng.normal(size=(1, K, T, N)), (6, K, T, N))
    assert np.abs(information.gain(predictions, np.zeros(6))).max() < ROUNDING


def test_what_all_models_predict_alike_does_not_matter(rng):
    predictions, common = rng.normal(size=(6, K, T, N)), 10.0 * rng.normal(size=(K, T, N))
    log_belief = np.log(rng.dirichlet(np.ones(6)))
    one, other = (information.gain(y, log_belief) for y in (predictions, predictions + common))
    np.testing.assert_allclose(one, other, rtol=0, atol=ROUNDING)


def test_the_gain_depends_on_no_choice_of_coordinates_of_the_measurements(rng):
    predictions = rng.normal(size=(6, K, T, N))
    rotation = np.array([[0.6, -0.8], [0.8, 0.6]])  # noise of unit variance stays so
    one, other = (information.gain(y, np.zeros(6)) for y in (predictions, predictions @ rotation))
    np.testing.assert_allclose(one, other, rtol=0, atol=ROUNDING)


def test_information_never_decreases_and_a_repeated_measurement_adds_less(rng):
    first = rng.normal(size=(6, K, 1, N))
    gain = information.gain(np.repeat(first, 3, axis=2), np.zeros(6))
    steps = np.diff(gain, axis=1, prepend=0.0)
    assert np.all(steps > 0.0)
    assert np.all(np.diff(steps, axis=1) < 0.0)


def test_steps_sum_up_to_the_information_given_the_first_measurement(rng):
    predictions, log_belief = rng.normal(size=(6, K, T, N)), np.log(rng.dirichlet(np.ones(6)))
    gain = information.gain(predictions, log_belief)
    steps = information.per_step(predictions, log_belief)
    np.testing.assert_allclose(steps.sum(axis=1), gain[:, -1] - gain[:, 0], rtol=0, atol=ROUNDING)


def test_a_model_counts_by_its_weight_alone(rng):
    predictions = rng.normal(size=(3, K, T, N))
    whole = information.gain(predictions, np.log([0.5, 0.3, 0.2]))
    parts = information.gain(predictions[[0, 0, 1, 2]], np.log([0.2, 0.3, 0.3, 0.2]))
    np.testing.assert_allclose(whole, parts, rtol=0, atol=ROUNDING)
    none = predictions.copy()
    none[2] = np.nan  # a diverged model without weight
    with np.errstate(divide='ignore'):
        without = information.gain(none, np.log([0.6, 0.4, 0.0]))
    two = information.gain(predictions[:2], np.log([0.6, 0.4]))
    np.testing.assert_allclose(without, two, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_a_model_that_diverges_adds_nothing_from_then_on_and_spoils_no_other_plan(rng, value):
    predictions = rng.normal(size=(3, K, T, N))
    healthy = information.per_step(predictions, np.zeros(3))
    predictions[1, 2, 2] = value
    steps = information.per_step(predictions, np.zeros(3))
    assert np.array_equal(steps[2, 1:], np.zeros(T - 2))
    assert steps[2, 0] == healthy[2, 0]
    others = [0, 1, 3, 4]
    assert np.array_equal(steps[others], healthy[others])


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
        expected = measurement_model.deviations(
            task.belief.likelihood, task.model, stacked, measured
        )
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

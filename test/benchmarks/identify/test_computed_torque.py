"""Bodies of an arm from recordings, and control with them."""

import numpy as np
import pytest

from benchmarks.identify import computed_torque
from benchmarks.identify.computed_torque import NONE, OURS, SCENE, TRUE
from emppi_ros.identification.rigid_body import arm

QUIET, LOUD = list(computed_torque.NOISE)[0], list(computed_torque.NOISE)[-1]


@pytest.fixture(scope='module')
def panda():
    return arm.load(computed_torque.FILE)


@pytest.fixture(scope='module')
def slow(panda):
    """Return half a second of a slow motion of all joints, at each control cycle."""
    step = computed_torque.PHYSICS_S * computed_torque.CYCLE
    time = np.arange(0.0, 0.5, step)[:, None]
    rate, size = np.linspace(2.0, 4.0, panda.nv), 0.2
    wave = [np.sin(rate * time), rate * np.cos(rate * time), -(rate**2) * np.sin(rate * time)]
    states = size * np.array(wave)
    states[0] += [0.0, 0.0, 0.0, -1.5, 0.0, 1.5, 0.0]
    return states


def test_the_true_bodies_need_nearly_no_feedback(panda, slow):
    true = arm.model_parameters(panda)
    errors = computed_torque.follow(panda, true, slow)
    without = computed_torque.follow(panda, 0.0 * true, slow)
    # a torque that is held for 4 ms is wrong by a share of that order of the change of torques
    assert errors['feedback'] < 0.01 * without['feedback']
    assert errors['position'] < 1e-3
    assert without['position'] > 1e-2
    halved = computed_torque.follow(panda, 0.5 * true, slow)
    assert errors['position'] < halved['position'] / 10.0


def test_bodies_of_other_signs_lose_the_arm(panda, slow):
    assert computed_torque.follow(panda, -arm.model_parameters(panda), slow) == {}


def test_drawn_arms_are_possible_and_unlike_the_scene(panda, rng):
    drawn = arm.model_parameters(computed_torque.draw_arm(rng))
    assert computed_torque.count_impossible(drawn) == 0
    assert computed_torque.count_impossible(-drawn) == panda.nv
    ratio = drawn[:: arm.BODY_PARAMETERS] / arm.model_parameters(panda)[:: arm.BODY_PARAMETERS]
    assert np.std(np.log(ratio)) > 0.1


def test_a_projection_keeps_possible_bodies_and_moves_impossible_ones(panda, rng):
    true = arm.model_parameters(panda)
    states = rng.uniform(-1.0, 1.0, (3, 60, panda.nv)) * np.array([1.0, 2.0, 10.0])[:, None, None]
    x = arm.regressor(panda, *states)
    x[:, computed_torque._ROTORS] = 0.0
    near = computed_torque.project(true, 1e6 * x.T @ x)
    # the prior counts 1e-4, the data a million: what is left is the end of Newton's method
    np.testing.assert_allclose(x @ near, x @ true, atol=1e-3)
    wrong = true.copy()
    wrong[0] = -1.0
    assert computed_torque.count_impossible(wrong) == 1
    assert computed_torque.count_impossible(computed_torque.project(wrong, x.T @ x)) == 0


def test_the_identified_arm_predicts_torques_better_than_its_scene():
    given = computed_torque.experiment(LOUD, 7)
    rows = arm.regressor(given.true, *given.wanted[:, ::50])
    truth = rows @ computed_torque.estimate(given, TRUE)

    def error(method):
        return np.sqrt(np.mean((rows @ computed_torque.estimate(given, method) - truth) ** 2))

    assert error(OURS) < error('OLS') < error(SCENE) < error(NONE)
    assert computed_torque.count_impossible(computed_torque.estimate(given, OURS)) == 0


def test_the_noise_of_a_case_is_in_the_recording():
    given = computed_torque.experiment(QUIET, 7)
    (recording,) = given.recorded.recordings
    # noise is estimated from 5000 samples, and filtered by a window of tens of them
    assert np.all(recording.training.noise.torque < 0.1)
    assert np.all(recording.training.noise.states[0] < 1e-5)

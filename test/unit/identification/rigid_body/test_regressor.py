"""The regressor times a model's own parameters is MuJoCo's inverse dynamics."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import ASSETS
from emppi_ros.identification.rigid_body import body_posterior, physical_consistency, regressor
from emppi_ros.identification.rigid_body.body_posterior import InertialPrior
from emppi_ros.model import scene


@pytest.fixture(scope='module')
def panda():
    """Return the arm without effects outside the regressor, such as rotors and dry friction."""
    model = scene.load_scene(ASSETS / 'panda.xml')
    model.dof_armature[:] = 0.0
    model.dof_frictionloss[:] = 0.0
    model.body_gravcomp[:] = 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    return model


def _states(model, rng, count):
    return rng.uniform(-1.0, 1.0, (3, count, model.nv)) * [[[1.5]], [[2.0]], [[10.0]]]


def _inverse(model, states):
    """Return torques (n nv,) by MuJoCo's inverse dynamics, which include damping."""
    data, torques = mujoco.MjData(model), []
    for position, velocity, acceleration in zip(*states, strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = position, velocity, acceleration
        mujoco.mj_inverse(model, data)
        torques.append(data.qfrc_inverse.copy())
    return np.concatenate(torques)


@pytest.mark.parametrize('name', ['two_link', 'slider', 'panda'])
def test_torques_match_mujocos_inverse_dynamics(name, request, rng):
    model = request.getfixturevalue(name)
    states = _states(model, rng, 20)
    found = regressor.regressor(model, *states) @ regressor.model_parameters(model)
    expected = _inverse(model, states)
    # two computations of sums over a chain of seven bodies: rounding, of the largest torque
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_the_regressor_does_not_depend_on_the_models_masses(panda, rng):
    states = _states(panda, rng, 3)
    before = regressor.regressor(panda, *states)
    changed = scene.load_scene(ASSETS / 'panda.xml')
    changed.body_mass[1:] *= 3.0
    np.testing.assert_allclose(regressor.regressor(changed, *states), before, atol=1e-10)


def test_a_panda_has_the_published_number_of_base_parameters(panda, rng):
    rows = regressor.regressor(panda, *_states(panda, rng, 60))
    by_friction = np.abs(rows[:, 10::12]).max(axis=0) > 0.0
    assert by_friction.sum() == panda.nv
    tolerance = 1e-8 * np.linalg.norm(rows)
    # 43 inertial base parameters of a Panda (Gaz et al. 2019), and 7 frictions
    without_rotors = np.delete(rows, np.s_[11::12], axis=1)
    assert np.linalg.matrix_rank(without_rotors, tol=tolerance) == 43 + 7
    # the first link turns about one axis; the second one's inertia about its own axis is not felt
    # by the first joint: rotors of these two act like their links
    assert np.linalg.matrix_rank(rows, tol=tolerance) == 43 + 7 + 5


def _recording(model, rng, count):
    """Return states (3, count, nv) along sums of sines, about a bent arm."""
    t = np.linspace(0.0, 20.0, count)[:, None]
    states = np.zeros((3, count, model.nv))
    states[0] = [0.0, -0.3, 0.0, -1.8, 0.0, 1.8, 0.7]
    for k in range(1, 6):
        w = 0.2 * np.pi * k
        a, b = rng.normal(0.0, 0.25 / k, (2, model.nv))
        s, c = np.sin(w * t), np.cos(w * t)
        states += [a * s + b * c, w * (a * c - b * s), -w * w * (a * s + b * c)]
    return states


def test_consistency_of_bodies_improves_torque_predictions(panda):
    noise = 0.3  # large enough to matter
    weak = InertialPrior(weight=1e-6)
    true, errors = regressor.model_parameters(panda), []
    for seed in range(2):
        rng = np.random.default_rng([4, seed])
        states, others = _recording(panda, rng, 100), _recording(panda, rng, 50)
        sd = noise * states.std(axis=1, keepdims=True) * [[[0.1]], [[1.0]], [[1.0]]]
        torque = regressor.regressor(panda, *states) @ true
        torque += 0.05 * torque.std() * rng.standard_normal(len(torque))
        rows = regressor.regressor(panda, *(states + sd * rng.standard_normal(states.shape)))
        least = np.linalg.lstsq(rows, torque, rcond=1e-8)[0]
        possible = body_posterior.fit_bodies(rows.T @ rows, rows.T @ torque, weak)
        clean = regressor.regressor(panda, *others)
        errors.append([np.mean((clean @ (b - true)) ** 2) for b in (least, possible)])
        for body in possible.reshape(-1, 12):
            moments = np.linalg.eigvalsh(physical_consistency.pseudo_inertia(body))
            assert body[0] > 0.0 and body[10] >= 0.0 and moments[0] > -1e-9  # rounding
    before, after = np.mean(errors, axis=0)
    # a bound: the measured ratio is a third or less
    assert after < 0.7 * before


def test_unsupported_models_and_wrong_sizes_are_errors(block, slider):
    with pytest.raises(IdentificationError, match='fixed base'):
        regressor.regressor(block, *np.zeros((3, 1, block.nv)))
    with pytest.raises(IdentificationError, match=r'qpos \(1, 2\).* expected \(n, 1\) each'):
        regressor.regressor(slider, *np.zeros((3, 1, 2)))

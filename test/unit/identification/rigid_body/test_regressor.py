"""The regressor times a model's own parameters is MuJoCo's inverse dynamics."""

from free_bodies import fit_bodies
import mujoco
import numpy as np
import pytest

from emppi_ros.core.paths import ASSETS
from emppi_ros.identification.rigid_body import arm
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
    found = arm.regressor(model, *states) @ arm.model_parameters(model)
    expected = _inverse(model, states)
    # two computations of sums over a chain of seven bodies: rounding, of the largest torque
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_the_regressor_does_not_depend_on_the_models_masses(panda, rng):
    states = _states(panda, rng, 3)
    before = arm.regressor(panda, *states)
    changed = scene.load_scene(ASSETS / 'panda.xml')
    changed.body_mass[1:] *= 3.0
    np.testing.assert_allclose(arm.regressor(changed, *states), before, atol=1e-10)


def test_a_panda_has_the_published_number_of_base_parameters(panda, rng):
    rows = arm.regressor(panda, *_states(panda, rng, 60))
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


@pytest.mark.slow
def test_consistency_of_bodies_improves_torque_predictions(panda):
    noise = 0.3  # large enough to matter
    weak = InertialPrior(weight=1e-6)
    true, errors = arm.model_parameters(panda), []
    for seed in range(2):
        rng = np.random.default_rng([4, seed])
        states, others = _recording(panda, rng, 100), _recording(panda, rng, 50)
        sd = noise * states.std(axis=1, keepdims=True) * [[[0.1]], [[1.0]], [[1.0]]]
        torque = arm.regressor(panda, *states) @ true
        torque += 0.05 * torque.std() * rng.standard_normal(len(torque))
        rows = arm.regressor(panda, *(states + sd * rng.standard_normal(states.shape)))
        least = np.linalg.lstsq(rows, torque, rcond=1e-8)[0]
        possible = fit_bodies(rows.T @ rows, rows.T @ torque, weak)
        clean = arm.regressor(panda, *others)
        errors.append([np.mean((clean @ (b - true)) ** 2) for b in (least, possible)])
        for body in possible.reshape(-1, 12):
            moments = np.linalg.eigvalsh(arm.pseudo_inertia(body))
            assert body[0] > 0.0 and body[10] >= 0.0 and moments[0] > -1e-9  # rounding
    before, after = np.mean(errors, axis=0)
    # a bound: the measured ratio is a third or less
    assert after < 0.7 * before


def _possible(rng):
    """Return a random body, of ten point masses, friction and armature."""
    mass, place = rng.uniform(0.1, 1.0, 10), rng.normal(0.2, 0.5, (10, 3))
    square = (mass[:, None] * place).T @ place
    inertia = np.trace(square) * np.eye(3) - square
    return np.array([mass.sum(), *(mass @ place), *inertia[np.triu_indices(3)], *rng.random(2)])


def _moments(actual):
    """Return the moments of inertia (3,) at the centre of mass, ascending, by parallel axes."""
    xx, xy, xz, yy, yz, zz = actual[4:10]
    centre = actual[1:4] / actual[0]
    shift = actual[0] * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return np.linalg.eigvalsh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - shift)


def test_pseudo_inertias_convert_back_to_parameters(rng):
    for actual in (_possible(rng), rng.standard_normal(12)):
        full = arm.pseudo_inertia(actual)
        again = arm.from_pseudo_inertia(full)
        np.testing.assert_allclose(again, actual[:10], rtol=1e-12, atol=1e-14)  # rounding


def test_the_pseudo_inertia_is_positive_definite_iff_the_triangle_inequality_holds(rng):
    signs = set()
    for _ in range(300):
        actual = _possible(rng)
        actual[4:10] += rng.normal(0.0, 1.0, 6)
        low, middle, high = _moments(actual)
        positive = np.linalg.eigvalsh(arm.pseudo_inertia(actual))[0] > 0.0
        assert positive == (high < low + middle and low > 0.0)
        signs.add(positive)
    assert signs == {True, False}

"""
MuJoCo's soft dry friction, and the complementarity of the paper that it stands for.

The reference solves the complementarity problem of one joint exactly in each step: it sticks if
the friction can stop it within the step (Stewart and Trinkle 1996).
"""

import json

import mujoco
import numpy as np
import pytest

from emppi_ros.cli import main

MASS, FRICTION, STEP_S = 2.0, 4.0, 1e-3
CART = f"""
<mujoco><option timestep="{{step_s}}" integrator="implicitfast" gravity="0 0 0"/><worldbody>
  <body name="cart"><joint name="x" type="slide" axis="1 0 0" frictionloss="{FRICTION}"/>
    <inertial pos="0 0 0" mass="{MASS}" diaginertia="1 1 1"/></body></worldbody>
  <actuator><motor name="x" joint="x"/></actuator></mujoco>"""
MODEL = """
scene: cart.xml
parameters:
  mass: {field: body_mass, of: cart, unit: kg, initial: 1.0, lower: 0.1, upper: 9.0}
  dry: {field: dof_frictionloss, of: x, unit: N, initial: 2.0, lower: 0.0, upper: 9.0}
"""


def exact(forces, step_s=STEP_S, v=0.0):
    """Return positions and velocities (n,) under forces (n,), and whether friction holds."""
    rows, q = [], 0.0
    for force in forces:
        rows.append((q, v, abs(v + step_s * force / MASS) <= step_s * FRICTION / MASS))
        free = v + step_s * force / MASS
        v = np.sign(free) * max(abs(free) - step_s * FRICTION / MASS, 0.0)
        q += step_s * v
    return np.array(rows).T


def simulate(forces, step_s=STEP_S, v=0.0):
    """Return positions and velocities (n,) of MuJoCo under forces (n,), and its model."""
    model = mujoco.MjModel.from_xml_string(CART.format(step_s=step_s))
    data, rows = mujoco.MjData(model), []
    data.qvel[:] = v
    for data.ctrl[:] in forces[:, None]:
        rows.append((data.qpos[0], data.qvel[0]))
        mujoco.mj_step(model, data)
    return np.array(rows).T, model


@pytest.mark.parametrize('step_s', [1e-3, 5e-3])
def test_a_sliding_joint_stops_at_the_time_and_place_of_the_exact_solution(step_s):
    forces, stop = np.zeros(round(1.0 / step_s)), MASS * 1.0 / FRICTION
    (q, v), model = simulate(forces, step_s, v=1.0)
    reference = exact(forces, step_s, v=1.0)
    time = step_s * np.arange(len(forces))
    sliding, tail_s = time < 0.9 * stop, 0.5 * model.dof_solref[0, 0]  # critically damped
    np.testing.assert_allclose(v[sliding], reference[1, sliding], atol=1e-12)  # rounding
    assert reference[1, time > stop].max() < 1e-12
    # friction fades below the largest creep; from there on the velocity falls by e in `tail_s`
    late = time > stop + 5.0 * tail_s
    assert v[late].max() < creep(model, FRICTION) * np.e**-2
    assert abs(q[-1] - reference[0, -1]) < creep(model, FRICTION) * tail_s * 5.0 + step_s**2


def creep(model, force):
    """Return the velocity [m/s] of a joint that friction holds against a force, in closed form."""
    (first, last), time_s = model.dof_solimp[0, :2], model.dof_solref[0, 0]
    return force / MASS * (1.0 - first) / first * 0.5 * last * time_s


@pytest.mark.parametrize('share', [0.25, 0.5, 0.99])
@pytest.mark.parametrize('step_s', [1e-3, 5e-3])
def test_a_held_joint_creeps_by_a_known_velocity_and_the_exact_one_rests(share, step_s):
    forces = np.full(round(1.0 / step_s), share * FRICTION)
    (_, v), model = simulate(forces, step_s)
    assert not exact(forces, step_s)[1].any()
    np.testing.assert_allclose(v[-1], creep(model, share * FRICTION), rtol=1e-6)  # e^-50
    # a millimetre per second for each m/s^2 that is held
    assert v[-1] < 1.1e-3 * share * FRICTION / MASS


@pytest.fixture
def words(tmp_path):
    """Return a function that records a cart, and returns the words of `emppi identify`."""
    (tmp_path / 'cart.xml').write_text(CART.format(step_s=5e-3))
    (tmp_path / 'cart.yaml').write_text(MODEL)

    def record(size, seconds, method):
        time = STEP_S * np.arange(round(seconds / STEP_S))
        held = 5e-3 * np.floor(time / 5e-3 + 1e-9)
        forces = size * (6.0 * np.sin(3.0 * held) + 3.0 * np.sin(7.7 * held))
        q, _, rests = exact(forces)
        noisy = q + 1e-4 * np.random.default_rng(31).standard_normal(len(q))
        table = np.column_stack([time, noisy, forces])[::5]
        header = 'time_s,position/x [m],command/x [N]'
        path = tmp_path / 'run.csv'
        np.savetxt(path, table, delimiter=',', comments='', header=header)
        model = ['--model', str(tmp_path / 'cart.yaml'), '--method', method, '--json']
        return np.mean(rests), ['identify', '--data', str(path), *model]

    return record


def test_motion_with_long_rests_is_refused_with_a_method_that_takes_it(words, capsys):
    rests, command = words(1.0, 2.5, 'states')
    assert rests > 0.1
    assert main(command) != 0
    assert 'where dry friction holds it' in (said := capsys.readouterr().err)
    assert '--method shooting' in said


@pytest.mark.slow
def test_that_method_identifies_the_exact_friction(words, capsys):
    assert main(words(1.0, 6.0, 'shooting')[1]) == 0
    rows = json.loads(capsys.readouterr().out)['parameters']
    values = [rows['mass']['value'], rows['dry']['value']]
    # the model is softer than the exact friction, and its steps five times as long
    np.testing.assert_allclose(values, [MASS, FRICTION], rtol=0.02)

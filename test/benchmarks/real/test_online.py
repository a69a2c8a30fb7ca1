"""The replayed belief: laws of its measures, and a simulated pendulum that it gets to know."""

import dataclasses

import mujoco
import numpy as np
import pytest

from benchmarks import ASSETS
from benchmarks.real import online
from benchmarks.real.online import BeliefReplay, BeliefSnapshot, JointStates
from emppi_ros.identification.common.plant import Plant

TRUTH = np.array([0.7, 0.02, 0.05, 0.03])  # mass, inertia, damping, friction
SD = np.array([5e-4, 0.02])


@pytest.fixture(scope='module')
def plant() -> Plant:
    """Return the driven pendulum."""
    return Plant.from_file(ASSETS / 'real_pendulum.yaml')


@pytest.fixture(scope='module')
def states(plant: Plant) -> JointStates:
    """Return six seconds of a pendulum with known parameters, measured with known noise."""
    model, rng = plant.at(TRUTH), np.random.default_rng(0)
    model.opt.timestep = 0.002
    data, rows = mujoco.MjData(model), []
    for step in range(3000):
        data.ctrl[0] = 2.0 * np.sin(3.1 * data.time) + 1.5 * np.sin(7.3 * data.time)
        if step % 5 == 0:
            rows.append([data.time, data.qpos[0], data.qvel[0], data.ctrl[0]])
        mujoco.mj_step(model, data)
    time, *columns = np.array(rows).T
    position, velocity, command = (column[:, None] for column in columns)
    # a command holds until the next row
    return JointStates(
        time,
        position + SD[0] * rng.standard_normal(position.shape),
        velocity + SD[1] * rng.standard_normal(velocity.shape),
        command,
    )


def test_an_interval_settles_when_it_stays_near_the_final_value() -> None:
    stamps = np.arange(10.0)
    low, high = np.full(10, 0.95), np.full(10, 1.05)
    assert online.settling(stamps, low, high, 1.0) == 0.0
    wide = high.copy()
    wide[:4] = 1.2
    assert online.settling(stamps, low, wide, 1.0) == 4.0
    wide[6] = 1.2  # again: only what lasts counts
    assert online.settling(stamps, low, wide, 1.0) == 7.0
    wide[9] = 1.2
    assert online.settling(stamps, low, wide, 1.0) is None
    # the last one alone is near itself, which means nothing
    assert online.settling(stamps[-2:], np.array([0.5, 1.0]), np.array([1.0, 1.0]), 1.0) is None


def test_a_velocity_that_was_not_recorded_comes_from_the_past_only() -> None:
    time = 0.0025 * np.arange(60)
    parabola = 3.0 * time**2 - 2.0 * time + 1.0
    slope = online._differentiate(time, parabola)
    np.testing.assert_allclose(slope[8:], 6.0 * time[8:] - 2.0, atol=1e-9)
    changed = parabola.copy()
    changed[40:] += 1.0
    np.testing.assert_array_equal(online._differentiate(time, changed)[:40], slope[:40])


def test_the_noise_of_joint_states_is_found(states: JointStates) -> None:
    # of 600 samples: a standard error of 3 %, and more as fifth differences are correlated
    np.testing.assert_allclose(online.noise(states), SD, rtol=0.15)


@pytest.mark.slow
def test_right_parameters_with_right_noise_have_right_bands(
    plant: Plant, states: JointStates
) -> None:
    task = online.make_task(plant, states, SD)
    theta = np.tile(TRUTH, (online.PARTICLES, 1))
    stamps = states.time[100:-20:7]
    snapshots = [BeliefSnapshot(float(stamp), theta, np.ones((2, 1))) for stamp in stamps]
    found = online.prediction_scores(task, BeliefReplay(snapshots, (), SD), states)
    assert len(found) == len(online.HORIZONS_S)
    for name, score in found.items():
        # of 69 with a probability of 0.9: four standard errors of 3.6 %
        assert score.value > 75.0, name
    narrow = [dataclasses.replace(one, scale=np.full((2, 1), 0.2)) for one in snapshots[::3]]
    for score in online.prediction_scores(task, BeliefReplay(narrow, (), SD), states).values():
        assert score.value < 60.0  # where 0.26 is expected


@pytest.mark.slow
def test_a_replayed_belief_gets_to_know_a_pendulum(
    plant: Plant, states: JointStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online, 'PARTICLES', 64)
    task = online.make_task(plant, states, SD, constant=True)
    assert task.belief.changes is None
    found = online.replay(task, states, SD)
    first, last = found.snapshots[0].theta, found.snapshots[-1].theta
    mass = last[:, 0]
    # the first moment of a pendulum is its mass at half a metre
    assert abs(mass.mean() - TRUTH[0]) < 0.07 and mass.std() < 0.2 * first[:, 0].std()
    scores = online.settling_scores(found, 0.0, lambda theta: {'mass': theta[0]})
    when = scores['mass: settles after'].value
    assert when is not None and 0.0 < when < 5.0


def test_a_mechanism_without_motors_gets_one_that_does_nothing() -> None:
    plant = Plant.from_file(ASSETS / 'real_double_pendulum.yaml')
    model = online._driven(plant)
    assert model.nu == 1 and plant.model.nu == 0
    both = [plant.at(plant.initial), model]
    ends = []
    for one in both:
        data = mujoco.MjData(one)
        data.qpos[:] = 1.0, -0.5
        for _ in range(100):
            mujoco.mj_step(one, data)
        ends.append(data.qpos.copy())
    np.testing.assert_allclose(*ends, atol=1e-12)

"""The lag of commands that were recorded too early or too late is estimated."""

import numpy as np
import pytest

from emppi_ros.bench.identify import states_simulation
from emppi_ros.identify.common.motion import Motion, join
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.states import command_lag
from emppi_ros.identify.states.estimation import estimate
from emppi_ros.identify.states.solver import SolverConfig
from emppi_ros.tasks.task import load_task

NOISE = 3e-4


@pytest.fixture(scope='module')
def plant():
    return Plant.from_task(load_task('cartpole_swingup'))


@pytest.fixture(scope='module')
def motions(plant):
    """Return two motions of a cart-pole over 300 steps."""
    found, rng = [], np.random.default_rng(0)
    for rate in (3.1, 4.3):
        qpos, ctrl = states_simulation.simulate(
            plant, np.array([0.31, 0.022]), [0.0, np.pi], 300,
            lambda data, rate=rate: [6.0 * np.sin(rate * data.time) - 8.0 * data.qpos[0]],
        )  # fmt: skip
        qpos = qpos + NOISE * rng.standard_normal(qpos.shape)
        found.append(Motion(qpos, np.ones_like(qpos), ctrl, np.zeros_like(qpos)))
    return found


@pytest.mark.parametrize('steps', [-3, -1, 1, 2])
def test_a_lag_of_whole_steps_is_estimated(plant, motions, steps):
    late = command_lag._delay(motions[0], steps)
    found = command_lag.estimate_lag(
        plant, late, SolverConfig(), estimate(plant, late, SolverConfig())
    )
    # the parabola is exact near its minimum, and approximate elsewhere
    assert found.steps == pytest.approx(-steps, abs=0.1)
    assert found.seconds == pytest.approx(-0.01 * steps, abs=1e-3)
    assert found.explained > 0.9
    when = 'earlier' if steps > 0 else 'later'
    assert when in found.notes[0] and f'--lag {found.seconds:.2g}' in found.notes[0]


def test_commands_without_lag_are_not_reported(plant, motions):
    whole = join(motions)
    found = command_lag.estimate_lag(
        plant, whole, SolverConfig(), estimate(plant, whole, SolverConfig())
    )
    assert abs(found.steps) < 0.05 and found.notes == []


def test_commands_are_delayed_within_each_recording(motions):
    late = command_lag._delay(join(motions), 2)
    for rows, motion in zip(late.parts, motions, strict=True):
        np.testing.assert_array_equal(late.ctrl[rows][2:], motion.ctrl[:-2])
        np.testing.assert_array_equal(late.ctrl[rows][:2], motion.ctrl[[0, 0]])


def test_without_commands_there_is_no_lag(plant, motions):
    free = Motion(motions[0].qpos, motions[0].weights, np.zeros((300, 1)), np.zeros((300, 2)))
    assert command_lag.estimate_lag(plant, free, SolverConfig(), None) is None

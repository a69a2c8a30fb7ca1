"""Diagnostics: deviations from measurements, and the lag of commands."""

from types import SimpleNamespace

import mujoco
import numpy as np
import pytest

from benchmarks.identify import pendulums
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states import diagnostics
from emppi_ros.identification.states.estimation import estimate
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.recordings.motion import Motion, join
from emppi_ros.recordings.noise import SMOOTHING_CUTOFF_HZ, smoothing_noise
from emppi_ros.recordings.recordings import Recording
from emppi_ros.recordings.signals import Signal
from emppi_ros.tasks.task import load_task

HINGE = """<mujoco><worldbody><body><joint name="hinge"/><geom size="0.1"/></body></worldbody>
</mujoco>"""


def note(times, samples, steps):
    """Return the note on states that deviate by so many times the noise."""
    plant = Plant(mujoco.MjModel.from_xml_string(HINGE), (), lambda model, theta: None)
    time = 3.0 / samples * np.arange(samples)
    values = np.sin(time) + 1e-4 * np.random.default_rng(0).standard_normal(samples)
    signal = Signal('position', 'hinge', 'rad', time, values, 'position/hinge')
    known = SimpleNamespace(
        observation_sd=np.array([[times * smoothing_noise(signal, SMOOTHING_CUTOFF_HZ)]])
    )
    rows = np.zeros((steps, 1))
    motion = Motion(rows, rows, rows, rows)
    return diagnostics.note_deviations(
        SimpleNamespace(plant=plant, motion=motion, uncertainty=known),
        ['run.csv'],
        [Recording({('position', 'hinge'): signal}, ())],
    )


@pytest.mark.parametrize(('samples', 'steps'), [(3000, 300), (300, 3000)])
def test_significance_is_that_of_the_fewer_samples(samples, steps):
    # four standard errors are 4 / sqrt(600) = 16 % for 300 samples, and 5 % for 3000
    assert note(1.1, samples, steps) == []
    assert 'hinge by' in note(1.2, samples, steps)[0]


def test_many_samples_and_steps_show_small_deviations():
    assert 'hinge by' in note(1.1, 3000, 3000)[0]


NOISE = 3e-4


@pytest.fixture(scope='module')
def plant():
    return Plant.from_task(load_task('cartpole_swingup'))


@pytest.fixture(scope='module')
def motions(plant):
    """Return two motions of a cart-pole over 300 steps."""
    found, rng = [], np.random.default_rng(0)
    for rate in (3.1, 4.3):
        qpos, ctrl = pendulums.simulate(
            plant, np.array([0.31, 0.022]), [0.0, np.pi], 300,
            lambda data, rate=rate: [6.0 * np.sin(rate * data.time) - 8.0 * data.qpos[0]],
        )  # fmt: skip
        qpos = qpos + NOISE * rng.standard_normal(qpos.shape)
        found.append(Motion(qpos, np.ones_like(qpos), ctrl, np.zeros_like(qpos)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize('steps', [-3, -1, 1, 2])
def test_a_lag_of_whole_steps_is_estimated(plant, motions, steps):
    late = diagnostics._delay(motions[0], steps)
    found = diagnostics.estimate_lag(estimate(plant, late, SolverConfig()))
    # the parabola is exact near its minimum, and approximate elsewhere
    assert found.steps == pytest.approx(-steps, abs=0.1)
    assert found.seconds == pytest.approx(-0.01 * steps, abs=1e-3)
    assert found.explained > 0.9
    when = 'earlier' if steps > 0 else 'later'
    assert when in found.notes[0] and f'--lag {found.seconds:.2g}' in found.notes[0]


def test_commands_without_lag_are_not_reported(plant, motions):
    found = diagnostics.estimate_lag(estimate(plant, join(motions), SolverConfig()))
    assert abs(found.steps) < 0.05 and found.notes == []


def test_commands_are_delayed_within_each_recording(motions):
    late = diagnostics._delay(join(motions), 2)
    for rows, motion in zip(late.parts, motions, strict=True):
        np.testing.assert_array_equal(late.ctrl[rows][2:], motion.ctrl[:-2])
        np.testing.assert_array_equal(late.ctrl[rows][:2], motion.ctrl[[0, 0]])


def test_without_commands_there_is_no_lag(plant, motions):
    free = Motion(motions[0].qpos, motions[0].weights, np.zeros((300, 1)), np.zeros((300, 2)))
    assert diagnostics.estimate_lag(SimpleNamespace(plant=plant, motion=free)) is None

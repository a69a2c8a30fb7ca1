"""Deviations of states from measurements are noted when they are significant."""

from types import SimpleNamespace

import mujoco
import numpy as np
import pytest

from emppi_ros.identify.common.motion import Motion
from emppi_ros.identify.common.noise import SMOOTHING_CUTOFF_HZ, smoothing_noise
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import Recording
from emppi_ros.identify.common.signals import Signal
from emppi_ros.identify.states import checks

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
    return checks.note_deviations(
        plant,
        ['run.csv'],
        [Recording({('position', 'hinge'): signal}, ())],
        Motion(rows, rows, rows, rows),
        SimpleNamespace(uncertainty=known),
    )


@pytest.mark.parametrize(('samples', 'steps'), [(3000, 300), (300, 3000)])
def test_significance_is_that_of_the_fewer_samples(samples, steps):
    # four standard errors are 4 / sqrt(600) = 16 % for 300 samples, and 5 % for 3000
    assert note(1.1, samples, steps) == []
    assert 'hinge by' in note(1.2, samples, steps)[0]


def test_many_samples_and_steps_show_small_deviations():
    assert 'hinge by' in note(1.1, 3000, 3000)[0]

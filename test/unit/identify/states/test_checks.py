"""How far states may stay from what was measured, until it is more than chance."""

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


def told(times, samples, steps):
    """Return what is said of states that stay that many times the noise away."""
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
def test_chance_is_that_of_the_fewest(samples, steps):
    # four standard deviations of what 300 tell are 4 / sqrt(600) = 16 %, of what 3000 tell 5 %
    assert told(1.1, samples, steps) == []
    assert 'hinge by' in told(1.2, samples, steps)[0]


def test_many_samples_and_steps_tell_little():
    assert 'hinge by' in told(1.1, 3000, 3000)[0]

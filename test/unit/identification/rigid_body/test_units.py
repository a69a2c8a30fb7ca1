"""Torques in wrong units, and torques of other links than those of the scene."""

import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body import arm
from emppi_ros.identification.rigid_body.inference import check_units
from emppi_ros.identification.rigid_body.motion_samples import MotionSamples


@pytest.fixture
def states(panda, rng):
    scale = np.array([1.0, 1.0, 5.0])[:, None, None]  # rad, rad/s, rad/s^2
    return scale * rng.uniform(-1.0, 1.0, (3, 200, panda.nv))


@pytest.mark.parametrize('factor', [8.0, -1.0])
def test_another_last_link_is_no_wrong_unit_if_links_are_unknown(panda, states, factor):
    torque = arm.motion_torques(panda, states)
    torque[:, -1] *= factor
    samples = MotionSamples(states, torque)
    check_units(panda, samples, links_known=False)
    with pytest.raises(IdentificationError, match=r'panda_joint7.*check (units|their sign)'):
        check_units(panda, samples, links_known=True)


@pytest.mark.parametrize('known', [True, False])
def test_wrong_units_of_most_joints_are_refused_whatever_is_known(panda, states, known):
    samples = MotionSamples(states, 1e3 * arm.motion_torques(panda, states))
    with pytest.raises(IdentificationError, match='panda_joint1.*1e.03 times.*check units'):
        check_units(panda, samples, known)

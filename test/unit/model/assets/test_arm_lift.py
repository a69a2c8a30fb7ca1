"""The arm that lifts: its own weight is held, and what its joints feel is the load's alone."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.paths import ASSETS
from emppi_ros.model.parameters import with_parameters
from emppi_ros.tasks.task import load_task


@pytest.mark.parametrize('mass', [0.01, 1.3, 3.0])
def test_joints_hold_the_load_and_nothing_else(mass):
    task = load_task(str(ASSETS / 'arm_lift.yaml'))
    theta = task.prior.mean()
    theta[[p.name for p in task.parameters].index('load_mass')] = mass
    model = with_parameters(task.model, task.parameters, theta)
    data = mujoco.MjData(model)
    data.qpos[:] = [0.4, -0.3, 0.8]
    mujoco.mj_forward(model, data)
    missing = data.qfrc_bias - data.qfrc_gravcomp
    hand, weight = data.site('hand').xpos, 9.81 * mass
    for joint, felt in enumerate(missing):
        # virtual work: the torque of a weight about an axis; rounding
        torque = np.cross(hand - data.xanchor[joint], [0.0, 0.0, -weight]) @ data.xaxis[joint]
        assert felt == pytest.approx(-torque, abs=1e-9)


def test_each_torque_holds_the_heaviest_load_stretched_out():
    task = load_task(str(ASSETS / 'arm_lift.yaml'))
    heaviest = task.prior.range[1][[p.name for p in task.parameters].index('load_mass')]
    shoulder, elbow = task.robot.limits.effort[1:]
    assert 9.81 * heaviest * 0.82 < shoulder and 9.81 * heaviest * 0.42 < elbow

"""Recordings of simulated mechanisms, with known parameters and noise."""

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from emppi_ros.identification.common.plant import Plant
from emppi_ros.recordings.motion import Motion

STEP_S = 0.005
PENDULUM_TRUTH = np.array([-0.3, 0.3, 0.005])


@pytest.fixture
def swing(plants: dict[str, Plant]) -> Callable[..., Motion]:
    """Return a function that records the falling double pendulum, with noise."""

    def record(seed: int = 0, noise: float = 1e-3, steps: int = 400, push: float = 0.0) -> Motion:
        model = plants['pendulum'].at(PENDULUM_TRUTH)
        data = mujoco.MjData(model)
        rng = np.random.default_rng(seed)
        data.qpos[:] = rng.uniform(1.0, 2.0, 2)
        qpos = np.empty((steps, 2))
        for k in range(steps):
            qpos[k] = data.qpos
            data.qfrc_applied[0] = push * np.sin(k * STEP_S * 2.0)
            mujoco.mj_step(model, data)
        measured = qpos + noise * rng.standard_normal(qpos.shape)
        return Motion(measured, np.ones((steps, 2)), np.zeros((steps, 0)), np.zeros((steps, 2)))

    return record

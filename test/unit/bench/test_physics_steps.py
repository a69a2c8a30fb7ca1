"""The counter agrees with the times of the simulations."""

import mujoco
from mujoco import rollout
from mujoco.batch import Batch
import numpy as np

from emppi_ros.bench import physics_steps

BALL = '<mujoco><worldbody><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>'


def test_steps_are_those_by_which_the_clocks_advance() -> None:
    model = mujoco.MjModel.from_xml_string(BALL)
    batch, data = Batch(model, 3), mujoco.MjData(model)
    state = np.zeros((4, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    state[:, 4] = 1.0  # of the quaternion
    batch.rollout(5)
    with physics_steps.counted() as counter:
        batch.rollout(5)
        batch.rollout(7, ids=np.array([0, 2]))
        advanced = np.sum(batch.bind('time')) / model.opt.timestep - 3 * 5
        states, _ = rollout.rollout(model, data, state, nstep=6)
        advanced += np.sum(states[:, -1, 0]) / model.opt.timestep
    batch.rollout(5)
    assert counter.count == round(advanced) == 3 * 5 + 2 * 7 + 4 * 6

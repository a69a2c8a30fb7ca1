"""The counter agrees with the clocks of the simulations."""

import mujoco
from mujoco import rollout
import numpy as np

from benchmarks import physics_steps
from emppi_ros.model.ensemble import Ensemble, State

SLIDER = """
<mujoco><worldbody><body>
  <joint name="slide" type="slide"/><geom size=".1"/>
</body></worldbody><actuator><motor joint="slide"/></actuator></mujoco>
"""


def test_steps_are_those_by_which_the_clocks_advance() -> None:
    model = mujoco.MjModel.from_xml_string(SLIDER)
    ensemble, start = Ensemble(model, (), 3, 2), State(np.zeros(1), np.zeros(1))
    advanced = 0.0
    with physics_steps.counted() as counter:
        for controls in (np.zeros((3, 2, 5, 1)), np.zeros((3, 2, 7, 1))):
            ensemble.rollout(start, controls, ())
            advanced += np.sum(ensemble.batch.bind('time'))
        ensemble.predict(start, np.zeros((4, 1)), model.opt.timestep)
        advanced += np.sum(ensemble.batch.bind('time')[::2])  # one rollout of each model
        state = np.zeros((4, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
        states, _ = rollout.rollout(model, mujoco.MjData(model), state, nstep=6)
        advanced += np.sum(states[:, -1, 0])
    ensemble.rollout(start, np.zeros((3, 2, 5, 1)), ())
    assert counter.count == round(advanced / model.opt.timestep) == 6 * 12 + 3 * 4 + 4 * 6

"""The unknown forces of end stops do not bias the estimate."""

import mujoco
import numpy as np
import pytest

from benchmarks.identify import pendulums
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states.estimation import estimate
from emppi_ros.identification.states.residuals import forces_known
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.recordings.motion import Motion
from emppi_ros.tasks.task import load_task

TRUE = np.array([0.31, 0.022])
NOISE = 1e-4


@pytest.fixture(scope='module')
def bounced():
    """Return a cart-pole that bounces between end stops, which are stiffer than in the model."""
    plant = Plant.from_task(load_task('cartpole_swingup'))
    plant.model.opt.timestep = 0.002
    known = plant.model.jnt_solref[:, 0].copy()
    plant.model.jnt_solref[:, 0] = 0.01
    qpos, ctrl = pendulums.simulate(
        plant, TRUE, [0.0, np.pi], 1500, lambda data: [12.0 * np.sin(2.5 * data.time)]
    )
    plant.model.jnt_solref[:, 0] = known
    low, high = plant.model.jnt_range[0]
    assert (qpos[:, 0] < low).any() or (qpos[:, 0] > high).any()
    noise = np.random.default_rng(0).standard_normal(qpos.shape)
    seen = qpos + NOISE * noise
    return plant, Motion(seen, np.ones_like(seen), ctrl, np.zeros_like(seen))


def test_the_estimate_does_not_depend_on_the_stop(bounced):
    plant, motion = bounced
    found = estimate(plant, motion, SolverConfig())
    # linearised: five standard deviations
    assert np.all(np.abs(found.theta - TRUE) < 5.0 * found.uncertainty.sd)
    assert np.all(found.uncertainty.sd < 1e-3 * TRUE)  # with the forces of the stop: 0.2 of it
    assert found.solution.converged


def test_forces_are_ignored_at_the_stop_only(bounced):
    plant, motion = bounced
    known = forces_known(plant.model, motion)
    low, high = plant.model.jnt_range[0]
    inside = np.abs(motion.qpos[:, 0]) < 0.99 * high
    whole = inside[:-2] & inside[1:-1] & inside[2:]
    assert low == -high and known[whole].all()
    beyond = np.abs(motion.qpos[1:-1, 0]) > high
    assert beyond.any() and not known[beyond].any()  # nor for the pole, which the cart carries


def test_another_kinematic_tree_is_not_affected():
    model = mujoco.MjModel.from_xml_string("""
        <mujoco><worldbody>
          <body><joint type="slide" range="-1 1" limited="true"/><geom size="0.1"/></body>
          <body pos="0 2 0"><joint type="slide"/><geom size="0.1"/></body>
        </worldbody></mujoco>""")
    qpos = np.array([[0.0, 5.0]] * 3 + [[1.0, 5.0]] * 3)
    motion = Motion(qpos, np.ones((6, 2)), np.zeros((6, 0)), np.zeros((6, 2)))
    assert forces_known(model, motion).tolist() == [[True, True], *[[False, True]] * 3]

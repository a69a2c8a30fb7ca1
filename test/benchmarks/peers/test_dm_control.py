"""dm_control's tasks in Judo: `make peers` installs both, and runs these tests."""

import mujoco
import numpy as np
import pytest

from benchmarks.peers import judo
from benchmarks.peers.runs import peer_text
from emppi_ros.tasks.task import parse_task

pytest.importorskip('judo', reason='`make peers` installs Judo')
pytest.importorskip('dm_control', reason='`make peers` installs dm_control')


class _Physics:
    """What dm_control's reward reads; its own class wants another MuJoCo."""

    def __init__(self, state: np.ndarray, control: np.ndarray) -> None:
        self.state, self._control = state, control

    def cart_position(self) -> float:
        return float(self.state[0])

    def pole_angle_cosine(self) -> np.ndarray:
        return np.cos(self.state[1:2])

    def angular_vel(self) -> np.ndarray:
        return self.state[3:]

    def control(self) -> np.ndarray:
        return self._control


def test_the_reward_is_that_of_the_suite(rng: np.random.Generator) -> None:
    cartpole = pytest.importorskip('dm_control.suite.cartpole', reason='needs all of dm_control')
    reference = cartpole.Balance(swing_up=True, sparse=False)
    states, controls = rng.normal(size=(50, 4)), rng.uniform(-1.0, 1.0, (50, 1))
    rewards = judo.swingup_reward(states, controls)
    for state, control, found in zip(states, controls, rewards, strict=True):
        expected = reference.get_reward(_Physics(state, control))
        assert found == pytest.approx(expected, rel=1e-14)  # the same products


def test_the_best_reward_is_one_and_a_hanging_pole_gets_none() -> None:
    states = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, np.pi, 0.0, 0.0]])
    rewards = judo.swingup_reward(states, np.zeros((2, 1)))
    assert rewards == pytest.approx([1.0, 0.0], abs=1e-15)


def test_the_cost_is_smallest_where_the_reward_is_largest(rng: np.random.Generator) -> None:
    task = parse_task(peer_text('dm_cartpole'))
    data, (stage,) = mujoco.MjData(task.model), task.stages
    states = np.vstack([np.zeros(4), rng.normal(size=(50, 4))])
    costs = []
    for state in states:
        data.qpos[:], data.qvel[:] = np.split(state, 2)
        mujoco.mj_forward(task.model, data)
        values = stage.cost.values({field: getattr(data, field) for field in stage.cost.record})
        costs.append(sum(term.weight * values[term.name] for term in stage.cost.terms))
    rewards = judo.swingup_reward(states, np.zeros((51, 1)))
    assert np.argmin(costs) == np.argmax(rewards) == 0

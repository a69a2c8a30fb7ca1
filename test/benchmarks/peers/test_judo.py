"""Judo's tasks and planners: `make peers` installs Judo, and runs these tests."""

import importlib.util

import mujoco
import numpy as np
import pytest

from benchmarks.peers import judo
from benchmarks.peers.planners import PEERS, PlannerSettings
from benchmarks.peers.runs import PEER_TASKS, peer_text
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.tasks.task import Task, parse_task

pytest.importorskip('judo', reason='`make peers` installs Judo')

SETTINGS = PlannerSettings(rollouts=6, threads=2, seed=3)
JUDO = [name for name in PEERS if name.startswith('judo')]
HAS_SUITE = importlib.util.find_spec('dm_control') is not None
TASKS = pytest.mark.parametrize(
    'name', [name for name in PEER_TASKS if HAS_SUITE or not name.startswith('dm_')]
)
OF_JUDO = pytest.mark.parametrize('name', ['cartpole', 'cylinder_push'])


def _task(name: str) -> Task:
    return parse_task(peer_text(name), name)


def _random(task: Task, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return states (count, nq + nv) and controls (count, nu)."""
    states = rng.normal(size=(count, task.model.nq + task.model.nv))
    return states, rng.normal(size=(count, task.model.nu))


@OF_JUDO
def test_our_cost_is_minus_their_reward(name: str, rng: np.random.Generator) -> None:
    task, (reference, data) = _task(name), (judo.JudoTask(name), None)
    states, controls = _random(task, rng, 50)
    rewards, data = reference.rewards(states, controls), mujoco.MjData(task.model)
    (stage,) = task.stages
    for state, control, reward in zip(states, controls, rewards, strict=True):
        data.qpos[:], data.qvel[:] = np.split(state, [task.model.nq])
        data.ctrl[:] = control
        mujoco.mj_forward(task.model, data)
        values = stage.cost.values({field: getattr(data, field) for field in stage.cost.record})
        cost = sum(term.weight * values[term.name] for term in stage.cost.terms)
        # sums of a dozen products, and a cosine by way of a rotation matrix
        assert cost == pytest.approx(-reward, rel=1e-11)


def test_a_cylinder_is_where_judo_wants_it_in_our_condition(rng: np.random.Generator) -> None:
    task, theirs = _task('cylinder_push'), judo.JudoTask('cylinder_push').task
    data, found = mujoco.MjData(task.model), []
    for _ in range(50):
        data.qpos[:] = rng.uniform(-0.4, 0.4, task.model.nq)
        found.append(theirs.success(theirs.model, data))
        assert (task.error(task.model, data) < task.file.success.below) == found[-1]
    assert {True, False} == set(found)


@pytest.mark.parametrize('planner', JUDO)
@TASKS
def test_both_simulate_the_same_physics(name: str, planner: str) -> None:
    task = _task(name)
    peer = PEERS[planner].make(task, name, SETTINGS)
    peer.plan(0.0, judo.JudoTask(name, seed=1).start)
    start, controls = peer.rollouts
    ensemble = Ensemble(task.model, (), 1, SETTINGS.rollouts, threads=1)
    records = ensemble.rollout(start, controls, ('qpos', 'qvel'))
    ours = np.concatenate([records.fields['qpos'][0], records.fields['qvel'][0]], axis=-1)
    # the same functions of MuJoCo; contacts multiply a rounding
    np.testing.assert_allclose(peer._controller.states, ours, rtol=1e-9, atol=1e-9)
    planned = task.planner.horizon * task.planner.substeps + 1
    assert controls.shape == (1, SETTINGS.rollouts, planned, task.model.nu)


@TASKS
def test_start_states_depend_on_the_seed_only(name: str) -> None:
    first, again, other = (judo.JudoTask(name, seed).start for seed in (4, 4, 5))
    assert np.array_equal(first.qpos, again.qpos) and not np.array_equal(first.qpos, other.qpos)


def test_changed_settings_reach_the_optimizer() -> None:
    task = _task('cartpole')
    sigmas = {
        name: PEERS[name].make(task, 'cartpole', SETTINGS)._controller.optimizer_cfg.sigma
        for name in ('judo-mppi', 'judo-mppi-wide')
    }
    assert sigmas == {'judo-mppi': 0.1, 'judo-mppi-wide': 1.0}


def test_a_control_is_that_of_the_plan_within_its_limits() -> None:
    task = _task('cartpole')
    peer = PEERS['judo-ps'].make(task, 'cartpole', SETTINGS)
    peer.plan(2.0, State(np.array([0.5, 3.0]), np.zeros(2)))
    assert peer.control(2.0) == pytest.approx(peer._controller.nominal_knots[0], rel=1e-14)
    assert np.abs(peer.rollouts.controls).max() <= task.model.actuator_ctrlrange.max()


@pytest.mark.slow
@TASKS
def test_a_run_with_the_bridge_succeeds_without_a_fault(name: str) -> None:
    trace = ClosedLoop(_task(name), seed=0).run()
    assert trace.faults == []
    assert trace.success

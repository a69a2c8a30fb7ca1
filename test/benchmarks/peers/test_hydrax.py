"""Hydrax as a planner of Judo's tasks: `make peers` installs it, and runs these tests."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.peers import hydrax, judo
from benchmarks.peers.planners import PEERS, PlannerSettings, SteppingPlanner
from benchmarks.peers.runs import peer_text
from emppi_ros.model.ensemble import Ensemble
from emppi_ros.tasks.task import parse_task

pytest.importorskip('judo', reason='`make peers` installs Judo')
pytest.importorskip('jax', reason='`make peers` installs JAX')
pytest.importorskip('hydrax', reason='`make peers` installs Hydrax')

SETTINGS = PlannerSettings(rollouts=8, threads=1, seed=3)


@pytest.mark.parametrize('name', hydrax.SETTINGS)
def test_its_cost_is_minus_their_reward(name: str, rng: np.random.Generator) -> None:
    reference = judo.JudoTask(name)
    model = reference.task.model
    states, controls = rng.normal(size=(50, model.nq + model.nv)), rng.normal(size=(50, model.nu))
    rewards = reference.rewards(states, controls)
    for state, control, reward in zip(states, controls, rewards, strict=True):
        qpos, qvel = np.split(state, [model.nq])
        data = SimpleNamespace(qpos=qpos, qvel=qvel)
        cost = hydrax.SETTINGS[name][0](np, data, control)
        assert cost == pytest.approx(-reward, rel=1e-12)  # sums of a few products


@pytest.mark.slow  # compiling takes half a minute
@pytest.mark.parametrize('planner', ['hydrax', 'hydrax-random'])
def test_it_simulates_nearly_the_same_physics(planner: str) -> None:
    task, start = parse_task(peer_text('cartpole')), judo.JudoTask('cartpole', 1).start
    peer = PEERS[planner].make(task, 'cartpole', SETTINGS)
    peer.plan(0.0, start)
    models = peer._models
    begin, controls = peer.rollouts
    assert controls.shape == (1, SETTINGS.rollouts, 25, 1)
    ensemble = Ensemble(task.model, task.parameters, models, SETTINGS.rollouts // models, 1)
    if models > 1:
        ensemble.write(task.prior.sample(models, np.random.default_rng(SETTINGS.seed)))
    shape = (models, SETTINGS.rollouts // models, *controls.shape[2:])
    records = ensemble.rollout(begin, controls.reshape(shape), ('qpos',))
    data = peer._data.replace(qpos=begin.qpos, qvel=begin.qvel)
    ends = np.asarray(peer._compiled.step(peer._fields, data, peer._rolled.controls))
    # single precision over a second of a falling pole
    np.testing.assert_allclose(
        ends.reshape(-1, 2), records.fields['qpos'][:, :, -1].reshape(-1, 2), atol=1e-3
    )
    assert isinstance(peer, SteppingPlanner)

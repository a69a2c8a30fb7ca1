"""`pytorch-mppi` as a planner of Judo's tasks: `make peers` installs it, and runs these tests."""

import numpy as np
import pytest

from benchmarks.peers import judo
from benchmarks.peers.planners import PEERS, PlannerSettings
from benchmarks.peers.runs import peer_text
from emppi_ros.model.ensemble import Ensemble
from emppi_ros.tasks.task import parse_task

pytest.importorskip('judo', reason='`make peers` installs Judo')
pytest.importorskip('pytorch_mppi', reason='`make peers` installs pytorch-mppi')

SETTINGS = PlannerSettings(rollouts=6, threads=1, seed=3)


@pytest.mark.parametrize('name', ['cartpole', 'cylinder_push'])
def test_its_costs_are_those_of_whole_rollouts(name: str) -> None:
    task, start = parse_task(peer_text(name)), judo.JudoTask(name, 1).start
    peer = PEERS['pytorch-mppi'].make(task, name, SETTINGS)
    peer.plan(0.0, start)  # from a plan of zeros, which has no control cost
    begin, controls = peer.rollouts
    planned = task.planner.horizon * task.planner.substeps + 1
    assert controls.shape == (1, SETTINGS.rollouts, planned, task.model.nu)
    ensemble = Ensemble(task.model, (), 1, SETTINGS.rollouts, threads=1)
    fields = ensemble.rollout(begin, controls, ('qpos', 'qvel')).fields
    states = np.concatenate([fields['qpos'][0], fields['qvel'][0]], axis=-1)
    reference = judo.JudoTask(name)
    costs = [-reference.rewards(*pair).sum() for pair in zip(states, controls[0], strict=True)]
    # the same physics steps; sums in another order
    np.testing.assert_allclose(peer._planner.cost_total.numpy(), costs, rtol=1e-9)


def test_a_control_is_within_its_limits_and_constant_until_the_next_plan() -> None:
    task, start = parse_task(peer_text('cartpole')), judo.JudoTask('cartpole', 1).start
    peer = PEERS['pytorch-mppi'].make(task, 'cartpole', SETTINGS)
    for i in range(3):
        peer.plan(0.04 * i, start)
        assert np.array_equal(peer.control(0.04 * i), peer.control(0.04 * i + 0.03))
        assert np.abs(peer.rollouts.controls).max() <= task.model.actuator_ctrlrange.max()

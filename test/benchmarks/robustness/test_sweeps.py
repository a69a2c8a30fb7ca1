"""Each point changes one thing in the simulation, and nothing that planner or belief read."""

import numpy as np
import pytest

from benchmarks.belief.worlds import in_world
from benchmarks.robustness import sweeps
from benchmarks.robustness.sweeps import SWEEPS
from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.sim.true_parameters import draw_truth
from emppi_ros.tasks.task import load_task, parse_task, task_text

TASK = 'panda_push'
KEYS = {
    'parameters': {'truth'},
    'tracking_noise': {'position_noise_sd_m', 'rotation_noise_sd_rad'},
    'tracking_delay': {'tracking_delay_s'},
    'tracking_dropout': {'tracking_dropout'},
    'size': {'sizes'},
    'tilt': {'gravity_tilt_rad'},
    'command_delay': {'command_delay_s'},
    'joint_friction': {'joint_friction'},
    'load': set(),  # of the machine
    'load_normal_priority': set(),
}


@pytest.mark.parametrize('name', SWEEPS)
def test_a_condition_changes_only_what_its_sweep_says(name: str) -> None:
    task, text = load_task(TASK), task_text(TASK)
    before = config.parse(text, TASK)
    points = SWEEPS[name].points(task)
    assert len({point.values for point in points}) == len(points) > 1
    for point in points:
        assert len(point.values) == len(SWEEPS[name].axes(task))
        after = config.parse(in_world(text, point.world), TASK)
        simulation = before.pop('simulation'), after.pop('simulation')
        assert before == after
        before['simulation'] = simulation[0]
        changed = {
            key
            for key in {*simulation[0], *simulation[1]}
            if simulation[0].get(key) != simulation[1].get(key)
        }
        assert changed <= KEYS[name]


def test_the_grid_of_parameters_goes_from_bound_to_bound_and_is_simulated() -> None:
    task, text = load_task(TASK), task_text(TASK)
    points = SWEEPS['parameters'].points(task)
    assert len(points) == sweeps.POINTS**2
    values = np.array([point.values for point in points])
    np.testing.assert_allclose(values.min(axis=0), [p.lower for p in task.parameters], rtol=1e-6)
    np.testing.assert_allclose(values.max(axis=0), [p.upper for p in task.parameters], rtol=1e-6)
    for point in (points[0], points[-1]):
        world = parse_task(in_world(text, point.world), TASK)
        truth = draw_truth(world, 0)
        assert tuple(truth.at(0.0)) == point.values
        SimulatedRobot(world, truth, 0).step()


@pytest.mark.parametrize(
    ('name', 'words'),
    [
        ('tracking_noise', 'no tracked object'),
        ('size', 'no free object'),
        ('load', 'cannot be planned in real time'),
    ],
)
def test_a_sweep_that_does_not_apply_says_why(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SWEEPS[name].points(load_task('adroit_door' if name == 'load' else 'cartpole_swingup'))

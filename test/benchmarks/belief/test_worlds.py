"""Each world is a valid task whose hidden truth is as described."""

import pytest

from benchmarks.belief import worlds
from emppi_ros.core import config
from emppi_ros.sim.true_parameters import draw_truth
from emppi_ros.tasks.task import parse_task, task_text

OWN = {'fr3_pickup': worlds.JUMP}  # the world of the task file
ALL = [(task, name) for task in worlds.WORLDS for name in worlds.worlds_of(task)]


@pytest.mark.parametrize(('task', 'name'), ALL)
def test_a_world_changes_nothing_but_the_simulation(task: str, name: str) -> None:
    before = config.parse(task_text(task), task)
    after = config.parse(worlds.in_world(task_text(task), worlds.worlds_of(task)[name]), task)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert changed <= {'simulation', 'duration_s'}
    assert bool(changed) == (name != OWN.get(task, worlds.CONSTANT))


@pytest.mark.parametrize('task', [task for task in worlds.WORLDS])
def test_all_seeds_start_from_the_given_truth_and_change_to_the_same(task: str) -> None:
    always = set(worlds.worlds_of(task)) - {worlds.CONSTANT} if task in OWN else set()
    changing = {*worlds.CHANGING, *always}
    for name, world in worlds.worlds_of(task).items():
        parsed = parse_task(worlds.in_world(task_text(task), world), task)
        names = [parameter.name for parameter in parsed.parameters]
        for seed in (0, 1):
            truth = draw_truth(parsed, seed)
            at_start = dict(zip(names, truth.at(0.0), strict=True))
            at_end = dict(zip(names, truth.at(parsed.file.duration_s), strict=True))
            assert {key: at_start[key] for key in world.truth} == world.truth
            moved = {key for key in names if at_start[key] != at_end[key]}
            assert moved == {change.parameter for change in parsed.simulation.changes}
            assert bool(moved or truth.pending) == (name in changing)


@pytest.mark.parametrize(
    ('task', 'name'), [(task, name) for task, name in ALL if name == worlds.OUTSIDE]
)
def test_outside_of_the_prior_means_in_its_last_two_percent(task: str, name: str) -> None:
    parsed = parse_task(task_text(task), task)
    theta = parsed.prior.mean()
    for i, parameter in enumerate(parsed.parameters):
        theta[i] = worlds.worlds_of(task)[name].truth.get(parameter.name, theta[i])
    tail = parsed.prior.tail_probability(theta)
    changed = [
        parameter.name in worlds.worlds_of(task)[name].truth for parameter in parsed.parameters
    ]
    assert (tail[changed] < 0.02).all()


def test_a_world_that_another_engine_simulates_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worlds.importlib.util, 'find_spec', lambda name: None)
    assert 'pip install' in worlds.unavailable(worlds.DRAKE)
    assert not worlds.unavailable(worlds.JUMP)

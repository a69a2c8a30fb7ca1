"""Summaries and the report, from synthetic rows."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import runner
from benchmarks.peers import summary
from benchmarks.peers.planners import PEERS
from benchmarks.peers.runs import PeerRow
from benchmarks.row_store import RowStore
from benchmarks.studies import peers
from benchmarks.studies.peers import PeersStudy
from benchmarks.study import Results
from emppi_ros.calibration.report import Provenance

Make = Callable[..., PeerRow]


def report(folder: Path, rows: list[PeerRow], wanted: int) -> str:
    """Write the report of some of the wanted runs; return the page."""
    study = PeersStudy()
    origin = Provenance('emppi bench peers', 'today', {'cores': '2'})
    runner.write(study, Results(rows, folder, [None] * wanted), origin)
    return (folder / runner.PAGE).read_text()


def test_rewards_are_compared_by_seed(make_row: Make) -> None:
    ours = [make_row(seed=seed, reward=-1.0 - seed) for seed in range(3)]
    # seed 0 has no partner; the others differ by 2 each, whatever the order of the rows
    theirs = [
        make_row(planner='judo-ps', seed=seed, reward=-3.0 - seed, parameters={})
        for seed in (2, 1, 7)
    ]
    emppi, judo = summary.summarize([*theirs, *ours])
    assert (emppi.planner, judo.planner) == ('emppi', 'judo-ps')
    assert emppi.behind is None
    assert (judo.behind.mean, judo.behind.total) == (2.0, 2)
    assert summary.summarize(theirs)[0].behind is None


def test_a_planner_that_fails_most_runs_never_succeeds_in_the_median(make_row: Make) -> None:
    failed = [make_row(seed=seed, success=False, time_s=10.0) for seed in range(2)]
    (group,) = summary.summarize([make_row(seed=5), *failed])
    assert (group.success.count, group.success.total) == (1, 3)
    assert group.time_s.median == float('inf')


def test_groups_come_by_task_world_and_planner(make_row: Make) -> None:
    keys = [
        ('cylinder_push', 'true', 'emppi'), ('cartpole', 'wrong', 'judo-cem'),
        ('cartpole', 'true', 'judo-cem'), ('cartpole', 'true', 'emppi'),
    ]  # fmt: skip
    groups = summary.summarize(
        [make_row(task=task, world=world, planner=planner) for task, world, planner in keys]
    )
    assert [(group.task, group.world, group.planner) for group in groups] == [
        keys[3], keys[2], keys[1], keys[0],
    ]  # fmt: skip


def test_rows_survive_the_disk(make_row: Make, tmp_path: Path) -> None:
    row = make_row()
    RowStore(tmp_path, PeerRow).append(row)
    assert RowStore(tmp_path, PeerRow).finished([row]) == [row]


@pytest.mark.parametrize(('gains', 'named'), [((0.5, 0.25, 0.3), True), ((0.5, -0.5, 0.1), False)])
def test_a_planner_is_better_if_its_whole_interval_is(
    make_row: Make, gains: tuple[float, ...], named: bool
) -> None:
    found = [make_row(seed=seed) for seed in range(3)]
    found += [make_row(planner='judo-ps', seed=i, reward=-2.0 + gains[i]) for i in range(3)]
    lines = list(peers._better(summary.summarize(found)))
    assert [line.startswith('- cartpole, true: `judo-ps` has 0.35 (') for line in lines] == [
        True
    ] * named


@pytest.mark.parametrize('seeds', [1, 3])
def test_the_report_has_every_number_and_the_errors_of_the_belief(
    make_row: Make, tmp_path: Path, seeds: int
) -> None:
    found = [
        make_row(planner=planner, seed=seed, reward=reward)
        for planner, reward in (('emppi', -1.25), ('judo-cem', -4.5))
        for seed in range(seeds)
    ]
    text = report(tmp_path, found, 9)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {'table.csv', 'reward_cartpole.png', 'ratio.png', runner.PAGE}
    for words in ('-1.25', '-4.5', '3.25', '| 1.50 |', 'off by 20.0 % in the median', 'a test'):
        assert words in text, words
    assert f'{2 * seeds} of 9 runs' in text
    assert '### wrong' not in text  # no runs there


def test_every_planner_has_a_line_of_its_own_in_the_plot(make_row: Make) -> None:
    found = [make_row(planner=name, seed=seed) for name in PEERS for seed in range(2)]
    (axis,) = summary.rewards(summary.summarize(found), 10.0).axes
    assert len({(line.get_color(), line.get_linestyle()) for line in axis.lines}) == len(PEERS)


def test_stepping_in_an_engine_of_its_own_is_reported_only_with_one(make_row: Make) -> None:
    found = [
        make_row(planner='hydrax', world=world, own_ratio=ratio)
        for world, ratio in (('true', 0.9), ('wrong', 1.3), ('unknown', 1.1))
    ]
    (line,) = peers._own_engines(summary.summarize([*found, make_row()]))
    assert '`hydrax` takes 1.10 times as long' in line


def test_a_planner_with_less_overhead_is_named(make_row: Make) -> None:
    found = [make_row(ratio=1.5), make_row(planner='judo-ps', ratio=1.4)]
    found += [make_row(planner='judo-cem', ratio=1.5), make_row(planner='mppi', ratio=1.1)]
    (line,) = peers._lighter(summary.summarize(found))
    assert 'plans of `judo-ps` (1.40) take' in line and '`emppi` (1.50;' in line


def test_a_task_with_fewer_seeds_says_so(make_row: Make, tmp_path: Path) -> None:
    found = [make_row(seed=seed) for seed in range(3)]
    found += [make_row(task='dm_cartpole', seed=seed) for seed in (0, 2)]
    text = report(tmp_path, found, 5)
    assert text.count('Only seeds 0, 2.') == text.count('Only seeds') == 1

"""`emppi bench watched`: the same graph with and without observers."""

import json

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from benchmarks import observers
from emppi_ros.cli import main


def test_the_summary_has_the_increase_over_no_observer():
    rng = np.random.default_rng(0)
    times = rng.uniform(10.0, 20.0, (2, 300))
    found = {'nobody': times.tolist(), 'pictures': (1.1 * times).tolist()}
    rows = observers.summarize(found)
    assert rows['nobody']['p50_ms'] == pytest.approx(np.median(times))
    for q in (50, 99):
        assert rows['nobody'][f'p{q}_more_percent'] == 0.0
        assert rows['pictures'][f'p{q}_more_percent'] == pytest.approx(10.0)


@pytest.mark.slow
def test_the_standard_error_reflects_differences_between_turns():
    rng = np.random.default_rng(1)
    # the mean of n turns whose own medians are normal: their standard error is theory's
    ours, others = (10.0 + 0.1 * rng.standard_normal(50) for _ in range(2))
    found = {'nobody': [[m] * 20 for m in ours], 'page': [[m] * 20 for m in others]}
    row = observers.summarize(found)['page']
    median_of_normals = 1.2533 * 0.1 / np.sqrt(50)  # asymptotic, of each
    expected = 100.0 * np.sqrt(2.0) * median_of_normals / 10.0
    assert row['p50_more_error'] == pytest.approx(expected, rel=0.5)  # a bootstrap of 50 turns
    assert observers.summarize(found)['nobody']['p50_more_error'] == 0.0


@pytest.mark.alone
@pytest.mark.slow
def test_every_kind_of_observer_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(observers, '_SETTLE_S', 0.2)
    words = ['--task', 'cartpole_swingup', '--turns', '1', '--seconds', '1.2', '--json']
    failed = main(['bench', 'watched', *words])
    said = capsys.readouterr()
    assert not failed, said.err
    rows = json.loads(said.out)['rows']
    assert list(rows) == list(observers.KINDS)
    assert all(row['plans'] > 10 for row in rows.values())


def test_an_unknown_task_is_named_before_anything_starts(capsys):
    assert main(['bench', 'watched', '--task', 'nothing']) != 0
    assert 'nothing' in capsys.readouterr().err

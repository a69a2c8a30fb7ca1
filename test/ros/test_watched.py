"""`emppi bench watched`: the same graph with and without somebody who looks, or records."""

import json

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from emppi_ros.cli import main
from emppi_ros.nodes import watched


def test_it_says_how_far_above_nobody_the_others_are():
    rng = np.random.default_rng(0)
    times = rng.uniform(10.0, 20.0, (2, 300))
    found = {'nobody': times.tolist(), 'pictures': (1.1 * times).tolist()}
    rows = watched.summarize(found)
    assert rows['nobody']['p50_ms'] == pytest.approx(np.median(times))
    for q in (50, 99):
        assert rows['nobody'][f'p{q}_more_percent'] == 0.0
        assert rows['pictures'][f'p{q}_more_percent'] == pytest.approx(10.0)


@pytest.mark.slow
def test_every_kind_gets_its_turn(monkeypatch, capsys):
    monkeypatch.setattr(watched, '_SETTLE_S', 1.0)
    main(
        [
            'bench',
            'watched',
            '--task',
            'cartpole_swingup',
            '--turns',
            '1',
            '--seconds',
            '2',
            '--json',
        ]
    )
    rows = json.loads(capsys.readouterr().out)['rows']
    assert list(rows) == list(watched.KINDS)
    assert all(row['plans'] > 10 for row in rows.values())


def test_a_task_that_is_not_there_is_named_before_anything_starts(capsys):
    assert main(['bench', 'watched', '--task', 'nothing']) != 0
    assert 'nothing' in capsys.readouterr().err

"""The study of priors: the same systems with several priors, and the table of results."""

import argparse
import json

import numpy as np
import pytest

from benchmarks.paper.cells import changed
from benchmarks.studies import prior
from benchmarks.studies.prior import (
    PRIORS,
    EpisodeResult,
    PriorAccuracy,
    compare_priors,
    summarize_episodes,
)
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.cli import main, output
from emppi_ros.core.errors import IdentificationError
from emppi_ros.priors import prior_file
from emppi_ros.tasks.task import parse_task, task_text

NAME = 'cartpole_swingup'
ALONE = ('--jobs', '1')  # in this process, where monkeypatching has effect


@pytest.mark.slow
@pytest.mark.parametrize('name', [NAME, 'fr3_follow'])  # without and with a tracked body
def test_a_prior_identified_from_one_run_is_tighter_than_the_tasks(name):
    rate = {'simulation': {'joint_state_rate_hz': 1.0 / prior.STEP_S}}
    task = parse_task(changed(task_text(name), rate), name)
    trace = ClosedLoop(task, 3).run(1.5)
    text = prior_file.to_yaml(prior.learn(task, trace, 3), 'learned')
    learned = prior_file.parse(text, task.parameters, task.priors, 'learned', name)
    drawn = learned.sample(500, np.random.default_rng(0))
    before = task.prior.sample(500, np.random.default_rng(0))
    # one and a half seconds of motion reduce the spread to less than a tenth
    assert np.all(drawn.std(axis=0) < 0.1 * before.std(axis=0))
    # and the true values are within five standard deviations
    assert np.all(np.abs(drawn.mean(axis=0) - trace.truth) < 5.0 * drawn.std(axis=0))


@pytest.fixture
def short(monkeypatch):
    """Let runs last for 1.3 s, whether they succeed or not."""
    monkeypatch.setattr(
        prior, 'task_text', lambda name: changed(task_text(name), {'duration_s': 1.3})
    )


@pytest.mark.slow
def test_all_priors_are_compared_on_the_same_systems(short, tmp_path, capsys):
    arguments = ['--tasks', NAME, '--out', str(tmp_path), '--seeds', '1', '--models', '1', *ALONE]
    assert main(['bench', 'prior', *arguments, '--json']) == 0
    out = json.loads(capsys.readouterr().out)
    assert [(r['seed'], r['prior']) for r in out['runs']] == [(0, kind) for kind in PRIORS]
    assert [(r['prior'], r['models'], r['runs']) for r in out['rows']] == [
        (kind, 1, 1) for kind in PRIORS
    ]
    (exact,) = [r for r in out['priors'] if (r['prior'], r['parameter']) == ('true', 'pole_mass')]
    assert exact['error'] == pytest.approx(0.0, abs=1e-12) and exact['within'] == 1


@pytest.mark.slow
def test_runs_do_not_depend_on_the_range_of_seeds_or_the_number_of_processes(tmp_path, capsys):
    pytest.importorskip('joblib', reason='joblib is not installed (extra `bench`)')
    path = tmp_path / 'short.yaml'
    path.write_text(changed(task_text(NAME), {'duration_s': 0.6}))
    command = ['bench', 'prior', '--tasks', str(path), '--models', '1']

    def results(*arguments):
        out = str(tmp_path / '-'.join(arguments))
        assert main([*command, '--json', '--out', out, *arguments]) == 0
        return json.loads(capsys.readouterr().out)

    both = results('--seeds', '3-4', '--jobs', '2')
    assert list(dict.fromkeys(run['seed'] for run in both['runs'])) == [3, 4]
    # bit for bit, and in this order, whichever process finishes first
    alone = results('--seeds', '4-4', '--jobs', '1')
    assert alone['runs'] == [run for run in both['runs'] if run['seed'] == 4]


def test_seeds_are_a_count_or_a_range():
    assert output.seeds('3') == range(3)
    assert output.seeds('50-59') == range(50, 60)
    assert list(output.seeds('7-7')) == [7]
    for text in ('0', '-3', '9-5', '1-2-3', '1-', 'x'):
        with pytest.raises(argparse.ArgumentTypeError, match=repr(text)):
            output.seeds(text)


def test_a_failed_identification_is_reported_and_other_priors_still_run(
    tmp_path, monkeypatch, capsys
):
    def nothing(*_):
        raise IdentificationError('unexciting')

    monkeypatch.setattr(prior, 'learn', nothing)
    monkeypatch.setattr(
        prior, 'task_text', lambda name: changed(task_text(name), {'duration_s': 0.3})
    )
    arguments = ['--tasks', NAME, '--seeds', '1', '--models', '1', '--json', *ALONE]
    arguments += ['--out', str(tmp_path)]
    assert main(['bench', 'prior', *arguments]) == 0
    out = json.loads(capsys.readouterr().out)
    assert {row['prior'] for row in out['rows']} == {
        prior.WIDE,
        prior.SAVED,
        prior.TRUE,
    }
    assert out['not_identified'] == [f'{NAME}, seed 0: unexciting']


def test_the_table_counts_successes_and_times():
    times = [1.0, 2.0, 9.0]
    runs = [EpisodeResult('t', i, 'wide', 4, time < 9.0, time) for i, time in enumerate(times)]
    (row,) = summarize_episodes(runs)
    assert (row['runs'], row['successes']) == (3, 2)
    assert (row['median_s'], row['mean_s']) == pytest.approx((2.0, 4.0))


def test_the_table_compares_runs_of_the_same_system():
    wide = [EpisodeResult('t', i, 'wide', 4, True, time) for i, time in enumerate([3.0, 5.0, 4.0])]
    known = [
        EpisodeResult('t', i, 'identified', 4, True, time) for i, time in [(2, 1.0), (0, 2.0)]
    ]
    row = summarize_episodes([*wide, *known])[1]
    # 4 - 1 and 3 - 2: of mean 2, and standard error (3 - 1) / 2
    assert (row['less_s'], row['less_sd_s'], row['sooner']) == pytest.approx((2.0, 1.0, 2))


def test_the_table_has_the_rms_error_of_each_prior():
    known = [
        PriorAccuracy('t', 0, 'wide', 'mass', 1.0, 4.0, 3.0, True),
        PriorAccuracy('t', 1, 'wide', 'mass', 1.0, 5.0, 3.0, False),
    ]
    (row,) = compare_priors(known)
    assert (row['systems'], row['within'], row['sd']) == (2, 1, 3.0)
    assert row['error'] == pytest.approx(np.sqrt((3.0**2 + 4.0**2) / 2.0))

"""Study `stein`: predictions on held-out motions, stored results, and the command."""

import json

import numpy as np
import pytest

from benchmarks.identify import csvgd_study, csvgd_systems, posterior_metrics
from benchmarks.identify.csvgd_study import SamplerBudget, SamplerResult
from emppi_ros.cli import main
from emppi_ros.identify.csvgd.csvgd import CsvgdConfig


def test_true_parameters_predict_held_out_motions_better_than_wrong_ones():
    problem, truth = csvgd_systems.pendulum()
    perfect = posterior_metrics.compare_predictions(problem, truth, np.tile(truth, (30, 1)))
    wrong = np.tile(0.9 * truth + 0.1 * problem.limits.mean(axis=0), (30, 1))
    other = posterior_metrics.compare_predictions(problem, truth, wrong)
    assert perfect['error'] == 0.0
    # mean log density of a normal variable under its own density: -0.5 log(2 pi e), of
    # 10 starts * 30 draws * 160 numbers with a standard deviation of 0.7: 0.003; five of these
    assert perfect['log_density'] == pytest.approx(-0.5 * np.log(2.0 * np.pi * np.e), abs=0.017)
    for name in ('kl_real_sim', 'kl_sim_real', 'mmd'):
        assert other[name] > perfect[name]
    assert other['log_density'] < perfect['log_density']


def test_standard_errors_match_the_spread_over_held_out_motions():
    problem, truth = csvgd_systems.pendulum()
    draws = posterior_metrics.repeat_comparison(problem, truth, np.tile(truth, (30, 1)))
    found = {name: posterior_metrics.mean_and_error(values) for name, values in draws.items()}
    # both ways are of one distribution: six times the error of their difference, as errors
    # from eight draws are themselves known to a quarter
    (forth, error), (back, other) = found['kl_real_sim'], found['kl_sim_real']
    assert abs(forth - back) < 6.0 * np.hypot(error, other)
    mean, error = found['log_density']
    assert 0.0 < error < 0.003  # that of one draw, by arithmetic, as above
    assert abs(mean + 0.5 * np.log(2.0 * np.pi * np.e)) < 6.0 * error
    assert found['error'] == (0.0, 0.0)


def test_stored_results_are_reused_for_the_same_key_only(tmp_path):
    calls = []

    def make():
        calls.append(1)
        return SamplerResult(np.ones((2, 1)), 7, 0.5)

    for seed in (0, 0, 1):
        key = csvgd_study.cache_key('lengths', SamplerBudget(seed=seed), CsvgdConfig())
        found = csvgd_study.cached(tmp_path, 'CMA-ES', key, make)
        assert found.steps == 7 and np.array_equal(found.theta, np.ones((2, 1)))
    assert len(calls) == 2


def test_the_command_prints_a_table_and_writes_a_figure(tmp_path, capsys):
    command = ['bench', 'identify', '--method', 'stein', '--case', 'weights', '--particles', '5']
    command += ['--iterations', '1', '--out', str(tmp_path)]
    assert main([*command, '--json']) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(found['methods']) == {'CSVGD', 'CSVGD, one window'}
    assert found['methods']['CSVGD']['beyond'] == 0.0 and found['ratio_to_bare_stepping'] > 0.0
    assert (tmp_path / 'stein_weights.png').stat().st_size > 10_000
    assert main(command) == 0  # from what is stored
    assert 'CSVGD, one window' in capsys.readouterr().out


def test_wrong_options_are_errors_before_any_work(tmp_path, capsys):
    command = ['bench', 'identify', '--method', 'stein', '--out', str(tmp_path / 'file' / 'deep')]
    (tmp_path / 'file').write_text('')
    assert main(command) == 2
    assert '--out: no folder can be made' in capsys.readouterr().err
    assert main([*command[:4], '--case', 'pendulum', '--particles', '3']) == 2
    assert '--particles: found 3, expected 4 or more' in capsys.readouterr().err

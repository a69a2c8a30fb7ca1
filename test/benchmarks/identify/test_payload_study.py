"""`emppi bench identify --method rigid-body --case payload` identifies and reports the payload."""

import json

import pytest

from benchmarks.identify import payload_study
from emppi_ros.cli import main

COMMAND = ['bench', 'identify', '--method', 'rigid-body', '--case', 'payload']


@pytest.fixture
def small(monkeypatch):
    """Keep one level of noise and two variants."""
    kept = {name: payload_study.VARIANTS[name] for name in ('plain', 'torques 5 ms late')}
    monkeypatch.setattr(payload_study, 'VARIANTS', kept)
    monkeypatch.setattr(payload_study, 'LEVELS', payload_study.LEVELS[:1])


@pytest.mark.slow
def test_the_payload_is_identified_and_late_torques_are_measured(small, capsys):
    assert main([*COMMAND, '--trials', '1', '--json']) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(result) == {'case', 'excitation', 'trials', 'seed', 'truth', 'rows'}
    assert result['case'] == 'payload' and result['truth'] == payload_study.TRUTH
    plain, late = result['rows']
    assert (plain['variant'], late['variant']) == ('plain', 'torques 5 ms late')
    assert (plain['noise_rad'], plain['noise_nm'], plain['seed']) == (*payload_study.LEVELS[0], 0)
    assert plain['off_in_sd'] > 0.0 and plain['cpu_s'] > 0.0
    for name, row in plain['parameters'].items():
        # that one of six numbers is off by four standard deviations has a probability of 1 in 2600
        assert row['value'] == pytest.approx(payload_study.TRUTH[name], abs=4.0 * row['sd'])
    assert plain['mass'] == plain['parameters']['mass']['value']
    assert plain['mass_sd'] < 0.01 * payload_study.TRUTH['mass']
    # a sample, which is 1 ms
    assert late['torque_lag_s'] - plain['torque_lag_s'] == pytest.approx(5e-3, abs=1e-3)


def test_a_failed_identification_is_a_row_of_the_table(small, monkeypatch, capsys):
    kept = {'late': payload_study.PayloadVariant(late=20)}
    monkeypatch.setattr(payload_study, 'VARIANTS', kept)
    assert main([*COMMAND, '--trials', '1', '--excitation', 'drawn']) == 0
    assert 'unsynchronised: torques lag the motion by 0.0' in capsys.readouterr().out


@pytest.mark.parametrize(
    'method, case, expected',
    [
        ('rigid-body', 'lengths', 'panda or payload'),
        ('stein', 'payload', 'lengths or pendulum or weights'),
        ('states', 'payload', 'none'),
        ('regression', 'payload', 'none'),
    ],
)
def test_a_case_of_another_method_is_an_error(method, case, expected, capsys):
    assert main(['bench', 'identify', '--method', method, '--case', case]) == 2
    words = f'--case: found {case}, expected {expected} for --method {method}'
    assert words in capsys.readouterr().err


def test_the_help_lists_all_cases(capsys):
    with pytest.raises(SystemExit):
        main(['bench', 'identify', '--help'])
    assert '{panda,payload,lengths,pendulum,weights,real}' in capsys.readouterr().out

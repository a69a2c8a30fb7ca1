"""`emppi bench payload` identifies and reports the payload."""

import json

import pytest

from benchmarks.studies import payload
from emppi_ros.cli import main

COMMAND = ['bench', 'payload', '--quick', '--jobs', '1']


@pytest.fixture
def small(monkeypatch):
    """Keep one level of noise and two variants."""
    kept = {name: payload.VARIANTS[name] for name in ('plain', 'torques 5 ms late')}
    monkeypatch.setattr(payload, 'VARIANTS', kept)
    monkeypatch.setattr(payload, 'LEVELS', payload.LEVELS[:1])


@pytest.mark.slow
def test_the_payload_is_identified_and_late_torques_are_measured(small, tmp_path, capsys):
    assert main([*COMMAND, '--out', str(tmp_path), '--json']) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result['truth'] == payload.TRUTH
    (row,) = result['rows']
    plain, late = row['results']
    assert (plain['variant'], late['variant']) == ('plain', 'torques 5 ms late')
    assert (plain['noise_rad'], plain['noise_nm'], row['seed']) == (*payload.LEVELS[0], 0)
    assert plain['off_in_sd'] > 0.0 and plain['cpu_s'] > 0.0
    for name, estimate in plain['parameters'].items():
        # that one of six numbers is off by four standard deviations has a probability of 1 in 2600
        assert estimate['value'] == pytest.approx(payload.TRUTH[name], abs=4.0 * estimate['sd'])
    assert plain['parameters']['mass']['sd'] < 0.01 * payload.TRUTH['mass']
    # a sample, which is 1 ms
    assert late['torque_lag_s'] - plain['torque_lag_s'] == pytest.approx(5e-3, abs=1e-3)


def test_a_failed_identification_is_a_row_of_the_table(small, monkeypatch, tmp_path):
    kept = {'late': payload.PayloadVariant(late=20)}
    monkeypatch.setattr(payload, 'VARIANTS', kept)
    assert main([*COMMAND, '--out', str(tmp_path), '--excitation', 'drawn']) == 0
    text = (tmp_path / 'results.md').read_text()
    assert 'unsynchronised: torques lag the motion by 0.0' in text

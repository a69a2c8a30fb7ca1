"""Likelihood-free posteriors of a known system, stored and shown beside that of CSVGD."""

import json
from pathlib import Path

import pytest

from benchmarks.identify import bayessim_study
from emppi_ros.cli import main


def test_the_study_compares_all_summaries_and_densities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(bayessim_study, 'SUMMARIES', {'statistics': None})
    monkeypatch.setattr(bayessim_study, 'DENSITIES', ('network', 'rbf'))
    command = ['bench', 'identify', '--method', 'bayessim', '--case', 'lengths', '--json']
    command += ['--simulations', '500', '--epochs', '3', '--particles', '8', '--iterations', '2']
    command += ['--out', str(tmp_path)]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)['methods']
    assert list(found) == ['statistics network', 'statistics rbf', 'CSVGD']
    for row in found.values():
        assert all(0.5 <= value <= 5.0 for value in row['median'])  # the bounds
        assert 0.0 <= row['near'][0] <= 1.0 and row['steps'] > 0
    assert (tmp_path / 'bayessim_lengths.png').read_bytes().startswith(b'\x89PNG')
    # stored results are not computed again
    monkeypatch.setattr(bayessim_study.simulations, 'simulate_all', None)
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)['methods'] == found

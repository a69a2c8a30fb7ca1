"""Requirements on the two pendulums, with fewer recordings than the benchmark."""

import json

import pytest

from benchmarks.identify import pendulums, states_study
from emppi_ros.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def measured():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states_study, 'RECORDINGS', 2)
        return list(states_study.measure_pendulum(0, lambda: None)), states_study.measure_furuta(0)


def test_the_inertia_of_the_pendulum_is_identified_and_frictions_rank_as_in_table_3(measured):
    viscous, dry, stribeck = measured[0]
    assert all(row['inertia_error_percent'] < 1.0 for row in measured[0])  # required
    assert viscous['cost'] > dry['cost'] > stribeck['cost']
    assert viscous['cross_validation'] > dry['cross_validation'] > stribeck['cross_validation']


def test_residuals_of_the_true_model_are_the_quantisation_of_encoders(measured):
    # quantisation has a variance of pulse^2 / 12; the states fit about a tenth of it
    floor = (2.0 * 3.141592653589793 / 4096) ** 2 / 12.0
    assert 0.9 * floor < measured[0][-1]['cost'] < 1.3 * floor
    assert 0.9 * 2 * floor < measured[1]['cost'] < 1.3 * 2 * floor  # two joints


def test_the_furuta_pendulum_is_identified_in_few_iterations(measured):
    found = measured[1]
    assert found['converged'] and found['iterations'] <= 10  # required, as the error below
    assert len(found['parameters']) == 13 and found['worst_error_percent'] < 2.0
    unexcited = {n for n, row in found['parameters'].items() if row['knowledge'] == 'unexcited'}
    assert unexcited == {'arm_inertia_x', 'arm_inertia_y', 'tilt_z'}
    for name, row in found['parameters'].items():
        if name not in unexcited:
            assert row['knowledge'] == 'found'
            # a linearised estimate, and the noise of encoders is not white: five sd
            assert abs(row['found'] - row['true']) < 5.0 * row['sd']


def test_the_command_prints_both_pendulums(measured, monkeypatch, capsys):
    monkeypatch.setattr(states_study, 'measure_pendulum', lambda seed, advance: iter(measured[0]))
    monkeypatch.setattr(states_study, 'measure_furuta', lambda seed: measured[1])
    assert main(['bench', 'identify', '--method', 'states', '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row['friction'] for row in found['pendulum']] == list(pendulums.FRICTION_MODELS)
    assert set(found['furuta']['parameters']) == {u.name for u in pendulums.FURUTA_UNKNOWNS}
    assert main(['bench', 'identify', '--method', 'states']) == 0
    text = capsys.readouterr().out
    assert 'stribeck' in text and 'unexcited' in text and 'iterations' in text

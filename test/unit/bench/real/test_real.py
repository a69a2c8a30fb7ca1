"""Readers, runs and report of published recordings; one excerpt of real data."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from emppi_ros.bench.real import cells, compute, datasets, results
from emppi_ros.bench.real.compute import Estimate, RealCell, RealRow
from emppi_ros.bench.real.datasets import DATASETS
from emppi_ros.cli import main
from emppi_ros.core.errors import BenchError, ConfigError, IdentificationError
from emppi_ros.core.paths import ASSETS
from emppi_ros.identify.common.plant import Plant

DATA = Path(__file__).parents[3] / 'data'


@pytest.fixture(autouse=True)
def excerpt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use all rows of the excerpt."""
    monkeypatch.setattr(datasets, '_PENDULUM_ROWS', slice(None))


def cell(method: str) -> RealCell:
    """Return the cell of the excerpt."""
    found, _ = cells.make_cells(DATA, ('free-pendulum',), (method,))
    return found[0]


@pytest.mark.parametrize('name', DATASETS)
def test_models_exist_and_have_the_quantities_that_are_compared(name: str) -> None:
    dataset = DATASETS[name]
    plant = Plant.from_file(ASSETS / dataset.model)
    found = dataset.quantities(plant.at(plant.initial))
    assert found.keys() == dataset.units.keys()
    assert set(dataset.together) <= found.keys()
    # the model file is loaded as the user's own
    assert Plant.from_file(ASSETS / dataset.model).parameters


def test_angles_of_filmed_links_are_those_of_their_markers(tmp_path: Path) -> None:
    angles = np.linspace(0.0, 9.0, 40), np.linspace(0.5, -4.0, 40)  # of the links
    pivot = np.array([10.0, 20.0])
    elbow = pivot + 600.0 * np.column_stack([np.cos(angles[0]), np.sin(angles[0])])
    tip = elbow + 460.0 * np.column_stack([np.cos(angles[1]), np.sin(angles[1])])
    rows = np.column_stack([np.tile(pivot, (40, 1)), elbow, tip])
    np.savetxt(tmp_path / '0.csv.gz', rows, delimiter=',')
    (one,) = datasets._free_pendulum(tmp_path)
    np.testing.assert_allclose(one.columns['position/shoulder [rad]'], angles[0], atol=1e-9)
    np.testing.assert_allclose(
        one.columns['position/elbow [rad]'], angles[1] - angles[0], atol=1e-9
    )


def test_the_length_of_a_real_pendulum_follows_from_its_motion() -> None:
    row = compute.compute(cell('shooting'), threads=1)
    assert not row.refused
    length = row.quantities['length']
    # the same in runs 0 to 9 of the whole set, by windows of 0.03 to 1 s: 0.143 to 0.148 m
    assert 0.12 < length.low < 0.143
    assert 0.148 < length.high < 0.17
    # at 400 images a second this is not the published length; it would be at about 505
    assert length.inside is False
    assert 480.0 < row.quantities['rate for the published length'].value < 530.0


def test_a_method_that_refuses_is_a_result() -> None:
    free = cell('shooting')
    row = compute.compute(dataclasses.replace(free, method='rigid-body'), threads=1)
    assert 'no torque was recorded' in row.refused and '/' not in row.refused
    assert row.refused and not row.quantities and not row.forecasts


def test_recordings_disagree_by_what_their_intervals_say() -> None:
    rng = np.random.default_rng(0)
    rows = [
        RealRow('arm', str(i), 'shooting', '', '', {
            'length': Estimate(x, x - 1.645 * 0.1, x + 1.645 * 0.1)
        }, {}, 1.0, 'a test')
        for i, x in enumerate(3.0 + 0.1 * rng.standard_normal(200))
    ]  # fmt: skip
    # chi-squared with 199 degrees of freedom: its root has a standard deviation of 0.05
    assert compute.disagreement(rows, 'length') == pytest.approx(1.0, abs=0.2)


def test_the_report_has_refusals_and_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise IdentificationError('the model does not match')

    monkeypatch.setattr(compute, '_identify', refuse)
    arguments = ['bench', 'real', '--data', str(DATA), '--methods', 'states', '--jobs', '1']
    assert main([*arguments, '--out', str(tmp_path)]) == 0
    text = (tmp_path / results.NAME).read_text()
    for words in (
        'Refused:',
        '0.csv.gz, `states`: the model does not match',
        'arm: no folder',
        'CDLA-Sharing',
    ):
        assert words in text


def test_missing_data_and_unknown_names_are_errors(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match='--data: free-pendulum: no folder'):
        cells.make_cells(tmp_path)
    with pytest.raises(BenchError, match='no recording'):
        cells.make_cells(DATA, ('free-pendulum',), ('rigid-body',))
    with pytest.raises(ConfigError, match="--datasets: unknown dataset 'cube'"):
        cells.make_cells(DATA, ('cube',))
    (tmp_path / 'ibm_double_pendulum').mkdir()
    with pytest.raises(BenchError, match=r'found no \*.csv.gz'):
        cells.make_cells(tmp_path)
    np.savetxt(tmp_path / 'ibm_double_pendulum' / '0.csv.gz', np.ones((3, 2)), delimiter=',')
    with pytest.raises(BenchError, match='found 2 columns, expected 6'):
        cells.make_cells(tmp_path)

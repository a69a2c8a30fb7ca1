"""Readers, runs and report of published recordings; one excerpt of real data."""

from argparse import Namespace
import dataclasses
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from benchmarks import ASSETS, runner
from benchmarks.real import compute, datasets, marker_calibration
from benchmarks.real.datasets import DATASETS, Estimate, RealCell, RealRow, Score
from benchmarks.studies.real import RealStudy
from benchmarks.study import Cells, Results
from emppi_ros.calibration.report import Provenance
from emppi_ros.cli import main
from emppi_ros.core.errors import BenchError, ConfigError, IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting.windows import make_ensemble
from emppi_ros.model.ensemble import State

DATA = Path(__file__).parents[2] / 'data'


@pytest.fixture(autouse=True)
def excerpt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use all rows of the excerpt."""
    monkeypatch.setattr(datasets, '_PENDULUM_ROWS', slice(None))


def make_cells(folder: Path, **names: tuple[str, ...]) -> Cells:
    """Return the cells of recordings in a folder."""
    study = RealStudy()
    return study.cells(study.select(options=Namespace(data=folder), **names))


def cell(method: str) -> RealCell:
    """Return the cell of the excerpt."""
    return make_cells(DATA, datasets=('free-pendulum',), methods=(method,)).cells[0]


@pytest.mark.parametrize('name', DATASETS)
def test_models_exist_and_have_the_quantities_that_are_compared(name: str) -> None:
    dataset = DATASETS[name]
    plant = Plant.from_file(ASSETS / dataset.model)
    found = dataset.quantities(plant.at(plant.initial))
    assert found.keys() == dataset.units.keys()
    assert set(dataset.together) <= found.keys()
    # the model file is loaded as the user's own
    assert Plant.from_file(ASSETS / dataset.model).parameters


def filmed(angles: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the pixels (n, 6) of markers on the axes of links at these angles."""
    count = len(angles[0])
    pivot = np.array([10.0, 20.0])
    elbow = pivot + 600.0 * np.column_stack([np.cos(angles[0]), np.sin(angles[0])])
    tip = elbow + 460.0 * np.column_stack([np.cos(angles[1]), np.sin(angles[1])])
    return np.column_stack([np.tile(pivot, (count, 1)), elbow, tip])


def test_angles_of_filmed_links_are_those_of_their_markers(tmp_path: Path) -> None:
    angles = np.linspace(0.0, 9.0, 40), np.linspace(0.5, -4.0, 40)  # of the links
    np.savetxt(tmp_path / '0.csv.gz', filmed(angles), delimiter=',')
    (one,) = DATASETS['free-pendulum'].read(tmp_path)
    np.testing.assert_allclose(one.columns['position/shoulder [rad]'], angles[0], atol=1e-9)
    np.testing.assert_allclose(
        one.columns['position/elbow [rad]'], angles[1] - angles[0], atol=1e-9
    )


def test_offsets_of_markers_are_found_from_rigid_links() -> None:
    angles = np.linspace(0.0, 9.0, 80), np.linspace(0.5, -14.0, 80)
    pixels = filmed(angles)
    found = marker_calibration.find_offsets(pixels)
    assert np.max(np.abs(found)) < 1e-6  # markers on the axes: rounding of the search
    turned = np.exp(1j * angles[0]) * (1.5 - 0.8j)  # off in the frame of the upper link
    pixels[:, 2:4] -= np.column_stack([turned.real, turned.imag])
    pixels[:, 0:2] -= [0.7, 1.8]
    pixels[:, 4:6] -= [-1.0, 0.2]
    upper, lower = marker_calibration.link_angles(pixels, marker_calibration.find_offsets(pixels))
    # the frame of the upper link turns by less than 2 px / 600 px with the markers, times 2 px
    np.testing.assert_allclose(upper, angles[0], atol=2e-5)
    np.testing.assert_allclose(lower, angles[1], atol=2e-5)


@pytest.mark.slow
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
        RealRow('arm', str(i), 'shooting', digest='', quantities={
            'length': Estimate(x, x - 1.645 * 0.1, x + 1.645 * 0.1)
        })
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
    text = (tmp_path / runner.PAGE).read_text()
    for words in (
        'Refused:',
        '0.csv.gz, `states`: the model does not match',
        'arm: no folder',
        'CDLA-Sharing',
    ):
        assert words in text


def test_missing_data_and_unknown_names_are_errors(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match='--data: free-pendulum: no folder'):
        make_cells(tmp_path)
    with pytest.raises(BenchError, match='no recording'):
        make_cells(DATA, datasets=('free-pendulum',), methods=('rigid-body',))
    with pytest.raises(ConfigError, match="--datasets: unknown dataset 'ball'"):
        make_cells(DATA, datasets=('ball',))
    (tmp_path / 'ibm_double_pendulum').mkdir()
    with pytest.raises(BenchError, match=r'found no \*.csv.gz'):
        make_cells(tmp_path)
    np.savetxt(tmp_path / 'ibm_double_pendulum' / '0.csv.gz', np.ones((3, 2)), delimiter=',')
    with pytest.raises(BenchError, match='found 2 columns, expected 6'):
        make_cells(tmp_path)


def test_a_published_arm_has_the_dynamics_that_its_authors_write() -> None:
    given = {
        'm1': 0.6, 'm2': 0.63, 'r1': 0.27, 'r2': 0.17, 'I1': 0.055, 'I2': 0.025, 'Ir': 6e-5,
        'gr': 6.0, 'b1': 0.08, 'b2': 0.01, 'cf1': 0.09, 'cf2': 0.18,
    }  # fmt: skip
    plant = Plant.from_file(ASSETS / DATASETS['arm'].published)
    values = datasets._parameters_of_arm(given)
    theta = np.array([values[unknown.name] for unknown in plant.unknowns])
    model = plant.at(theta)
    data = mujoco.MjData(model)
    angle, reach, rotor = (0.4, -1.1), 0.3, given['gr'] ** 2 * given['Ir']
    data.qpos[:] = angle
    mujoco.mj_forward(model, data)
    matrix = np.zeros((2, 2))
    mujoco.mj_fullM(model, data, matrix)
    coupling = given['m2'] * reach * given['r2'] * np.cos(angle[1])
    upper = given['I1'] + given['I2'] + given['m2'] * reach**2 + 2.0 * coupling + rotor
    expected = [[upper, given['I2'] + coupling], [given['I2'] + coupling, given['I2'] + rotor]]
    np.testing.assert_allclose(matrix, expected, rtol=1e-9)
    lower = given['m2'] * given['r2'] * 9.81 * np.sin(sum(angle))
    first = (given['m1'] * given['r1'] + given['m2'] * reach) * 9.81 * np.sin(angle[0])
    np.testing.assert_allclose(data.qfrc_bias, [first + lower, lower], rtol=1e-9)
    assert model.dof_damping.tolist() == [0.08, 0.01]
    assert model.dof_frictionloss.tolist() == [0.09, 0.18]


def test_the_forecast_of_a_published_model_is_that_of_its_simulation() -> None:
    plant = Plant.from_file(ASSETS / DATASETS['arm'].published)
    theta, rows = plant.initial, 40
    control = np.sin(np.arange(2 * rows).reshape(rows, 2))
    ensemble = make_ensemble(plant, 2, 1, threads=1)
    ensemble.write(np.tile(theta, (2, 1)))
    start = State(np.array([0.3, -0.2]), np.array([1.0, 2.0]))
    records = ensemble.rollout(start, np.broadcast_to(control, (2, 1, rows, 2)), ('qpos',))
    model = plant.at(theta)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start
    for row, data.ctrl[:] in enumerate(control):
        mujoco.mj_step(model, data)
        np.testing.assert_array_equal(records.fields['qpos'][:, 0, row], [data.qpos] * 2)


def test_each_published_model_is_a_row_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {'datasets': ('cube',), 'methods': ('rollouts', 'published')}
    found = make_cells(DATA, **names).cells
    methods = [one.method for one in found if one.recording == 'half 1']
    assert methods == ['rollouts', 'published', "MuJoCo's defaults"]
    changed = {**datasets._PUBLISHED_CUBE, 'friction': 0.2}
    monkeypatch.setattr(datasets, '_PUBLISHED_CUBE', changed)
    again = make_cells(DATA, **names).cells
    same = [a.digest == b.digest for a, b in zip(found, again, strict=True)]
    assert same == [True, False, True] * 2


def test_the_report_compares_the_belief_with_other_methods(tmp_path: Path) -> None:
    def row(recording: str, method: str, low: float, **more: Any) -> RealRow:
        found = {'length': Estimate(low + 0.1, low, low + 0.2), 'rate': Estimate(1.0, 1.0, 1.0)}
        return RealRow('free-pendulum', recording, method, quantities=found, digest='', **more)

    scores = {'length: settles after': Score(1.5, 's'), 'inside': Score(90.0, '%', 80.0, 95.0)}
    rows = [
        row('a', 'states', 1.0), row('b', 'states', 1.0),
        row('a', 'belief', 1.1, scores=scores, flags=('misfit: joint_position',)),
        row('b', 'belief', 1.3, scores={**scores, 'length: settles after': Score(None, 's')}),
    ]  # fmt: skip
    study = RealStudy()
    runner.write(study, Results(rows, tmp_path), Provenance('emppi', 'today', {}))
    text = (tmp_path / runner.PAGE).read_text()
    for words in (
        'Intervals of `belief` and `states` overlap for 1/2 (',
        '- a, `belief`: misfit: joint_position.',
        '- b, `belief`: no flags.',
        '| length: settles after [s] | 1.5 | - |',
        '| inside [%] | 90 (80 to 95) | 90 (80 to 95) |',
    ):
        assert words in text


def test_an_arm_is_read_with_measured_torques_and_the_models_of_its_authors(
    tmp_path: Path,
) -> None:
    rows = np.arange(45.0).reshape(3, 15)
    np.savetxt(tmp_path / 'design_C.1_1.csv.gz', rows, delimiter=',', header='x', comments='')
    model = 'm1: 0.5\nm2: 0.6\nr1: 0.2\nr2: 0.25\nl1: 0.2\nI1: 0.03\nI2: 0.05\nIr: 0.0001\n'
    text = f'{model}gr: 6.0\nb1: 0.0\nb2: 0.0\ncf1: 0.1\ncf2: 0.2\n'
    (tmp_path / 'design_C.1_model_1.0.yml').write_text(text)
    (one,) = DATASETS['long-arm'].read(tmp_path)
    assert one.columns['command/shoulder [N m]'].tolist() == [13.0, 28.0, 43.0]
    assert one.columns['command/elbow [N m]'].tolist() == [14.0, 29.0, 44.0]
    assert one.velocities['elbow'].tolist() == [4.0, 19.0, 34.0]
    assert one.published['upper first moment'] == pytest.approx(0.5 * 0.2 + 0.6 * 0.2)
    assert one.models['published 1.0']['elbow_friction'] == 0.2
    (tmp_path / 'design_C.1_model_1.0.yml').unlink()
    with pytest.raises(BenchError, match='model_1.0.yml: cannot be read'):
        list(DATASETS['long-arm'].read(tmp_path))

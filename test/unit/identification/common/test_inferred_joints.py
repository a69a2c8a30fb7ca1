"""Errors of inferred joints: displaced models, and estimates that change with them."""

from collections.abc import Callable
import json
from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
import yaml

from emppi_ros.cli import main
from emppi_ros.identification import methods
from emppi_ros.identification.common.inferred_joints import displaced_models
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import RunSettings
from emppi_ros.model.parameters import Parameter
from emppi_ros.recordings import tables
from emppi_ros.recordings.recordings import Recording
from emppi_ros.recordings.signals import Signal
from emppi_ros.tracking.jointed_parts import JointedParts

STEP_S, NOISE = 0.005, 2e-3
SCENE = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.005" integrator="implicitfast"><flag autoreset="disable"/></option>
  <worldbody>
    <body name="upper" pos="0.1 0 0.2" euler="0.1 0.2 0.3">
      <joint name="upper" axis="0.1 1 0" pos="0 0.02 0.1" damping="0.02"/>
      <geom type="capsule" size="0.02" fromto="0 0 0.1 0 0 -0.2" density="500"/>
      <body name="lower" pos="0 -0.06 -0.2" euler="0 0.4 0">
        <joint name="lower" axis="0 1 0.1" pos="0.01 0 0" damping="0.01"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0.02 0 -0.2" density="500"/>
      </body>
    </body>
  </worldbody>
  <custom><numeric name="lower_covariance" data="{numbers}"/></custom>
</mujoco>"""
PARAMETERS = {
    'lower_mass': {'field': 'body_mass', 'of': 'lower', 'unit': 'kg'},
    'damping': {'field': 'dof_damping', 'of': 'lower', 'unit': 'N m s/rad'},
}
RANGES = {'lower_mass': (0.02, 0.5), 'damping': (0.001, 0.1)}


def with_covariance(covariance: np.ndarray) -> str:
    numbers = covariance[np.triu_indices(12)].tolist()
    return SCENE.format(numbers=' '.join(map(repr, numbers)))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[np.ndarray], Plant]:
    """Return a function that makes the plant with a covariance of its lower joint."""

    def plant(covariance: np.ndarray) -> Plant:
        (tmp_path / 'scene.xml').write_text(with_covariance(covariance))
        entries = {
            name: {**one, 'lower': RANGES[name][0], 'upper': RANGES[name][1]}
            for name, one in PARAMETERS.items()
        }
        text = yaml.safe_dump({'scene': 'scene.xml', 'parameters': entries})
        (tmp_path / 'plant.yaml').write_text(text)
        return Plant.from_file(tmp_path / 'plant.yaml')

    return plant


def swing(model: mujoco.MjModel, steps: int = 400) -> Recording:
    """Return the falling pendulum with noise, which is always the same."""
    data = mujoco.MjData(model)
    data.qpos[:] = 1.0, -0.5
    rows = np.empty((steps, 2))
    for row in rows:
        row[:] = data.qpos
        mujoco.mj_step(model, data)
    rows += NOISE * np.random.default_rng(0).standard_normal(rows.shape)
    time = STEP_S * np.arange(len(rows))
    return Recording(
        {
            ('position', name): Signal('position', name, 'rad', time, column, name)
            for name, column in zip(('upper', 'lower'), rows.T, strict=True)
        },
        (),
    )


def test_displaced_models_move_the_parts_as_the_covariance_says() -> None:
    rng = np.random.default_rng(1)
    root = 1e-4 * rng.standard_normal((12, 5))
    model = mujoco.MjModel.from_xml_string(with_covariance(root @ root.T))
    pairs = displaced_models(model, ())
    assert len(pairs) == 5  # the rank
    qpos = rng.uniform(-1.0, 1.0, 2)
    parts = 'upper', 'lower'
    total = np.zeros((12, 12))
    for pair in pairs:
        ahead, behind = (JointedParts(one, parts).places(qpos).poses for one in pair)
        turn = Rotation.from_matrix(ahead.rotation @ np.swapaxes(behind.rotation, 1, 2))
        step = np.concatenate([ahead.position - behind.position, turn.as_rotvec()], axis=1)
        total += np.outer(0.5 * step, 0.5 * step)
    expected = JointedParts(model, parts).places(qpos).covariance
    # second order of displacements of 0.1 mm and 0.1 mrad
    np.testing.assert_allclose(total, expected, atol=1e-3 * np.abs(expected).max())
    assert np.abs(expected).max() > 1e-9


@pytest.mark.parametrize('field', ['jnt_pos', 'jnt_axis', 'body_pos'])
def test_places_that_are_estimated_are_not_displaced_too(field: str) -> None:
    model = mujoco.MjModel.from_xml_string(with_covariance(1e-6 * np.eye(12)))
    assert len(displaced_models(model, ())) == 12
    assert not displaced_models(model, [Parameter('place', field, 'lower')])
    assert displaced_models(model, [Parameter('place', field, 'upper')])


@pytest.mark.slow
@pytest.mark.parametrize('method', ['shooting', 'sysid'])
def test_estimates_change_with_a_joint_as_their_intervals_say(write, method: str) -> None:
    rng = np.random.default_rng(2)
    motions = 3e-4 * rng.standard_normal(12)  # m and rad: motions change by less than the noise
    plant = write(np.outer(motions, motions))
    ((ahead, _),) = displaced_models(plant.model, plant.parameters)
    found = methods.load(method)
    options, run = found.options(), RunSettings(threads=1)

    def identify(one: Plant, recording: Recording) -> dict[str, dict[str, float]]:
        return found.identify(one, [recording], options, run).summary['parameters']

    known, exact = identify(plant, swing(plant.model)), write(np.zeros((12, 12)))
    own, away = (identify(exact, swing(one)) for one in (plant.model, ahead))
    for name, row in known.items():
        assert row['value'] == own[name]['value'] and 'sd_by_joints' not in own[name]
        assert row['sd'] == pytest.approx(np.hypot(own[name]['sd'], row['sd_by_joints']))
        change = abs(away[name]['value'] - row['value'])
        # weights of errors differ, and the search ends within a few percent of an sd
        near = 0.2 * row['sd_by_joints'] + 0.05 * own[name]['sd']
        assert row['sd_by_joints'] == pytest.approx(change, abs=near), name
    assert max(row['sd_by_joints'] / own[name]['sd'] for name, row in known.items()) > 0.3


@pytest.mark.parametrize(('method', 'told'), [('states', True), ('shooting', False)])
def test_methods_without_errors_of_joints_say_so(
    write, tmp_path: Path, capsys: pytest.CaptureFixture, method: str, told: bool
) -> None:
    recording = swing(write(1e-8 * np.eye(12)).model, steps=200)
    tables.write(tmp_path / 'swing.csv', list(recording.signals.values()))
    files = ['--data', str(tmp_path / 'swing.csv'), '--model', str(tmp_path / 'plant.yaml')]
    assert main(['identify', '--method', method, *files, '--json']) == 0
    notes = json.loads(capsys.readouterr().out).get('notes', '')
    assert ('errors of inferred joints: take shooting or sysid' in notes) == told

"""The method on recordings: windows that grow, forecasts, and errors."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from emppi_ros.cli import main
from emppi_ros.identification.multiple_shooting import forecast, windows
from emppi_ros.identification.shooting.method import fit_growing
from emppi_ros.recordings.motion import Motion

from .conftest import PENDULUM_TRUTH, STEP_S


def grow(plant, motion, lengths):
    return fit_growing(plant, motion, lengths, 1, lambda _: None)


@pytest.mark.slow
def test_windows_grow_as_long_as_the_model_explains_them(plants, swing) -> None:
    plant = plants['pendulum']
    right = grow(plant, swing(), (20, 40, 80))
    assert right.chosen.windows.length == 80 and right.rejected is None
    wrong = grow(plant, swing(push=0.3), (20, 40, 80))
    assert wrong.chosen.windows.length < 80
    assert wrong.rejected.windows.length == 2 * wrong.chosen.windows.length
    assert 'lacks something' in wrong.notes(plant)[0]


def test_windows_cover_each_recording_and_share_their_ends() -> None:
    qpos = np.arange(47.0)[:, None]
    motion = Motion(qpos, np.ones((47, 1)), np.zeros((47, 0)), np.zeros((47, 1)), (0, 21))
    cut = windows.cut(motion, 10)
    assert cut.measured[:, 0, 0].tolist() == [0, 10, 21, 31]
    assert cut.measured[:, -1, 0].tolist() == [10, 20, 31, 41]
    assert cut.recordings.tolist() == [0, 0, 1, 1]
    assert cut.steps[2].tolist() == list(range(21, 31))


def test_a_polynomial_start_is_exact_for_a_polynomial_motion() -> None:
    time = STEP_S * np.arange(61)
    qpos = (0.3 + 2.0 * time - 4.0 * time**2 + 7.0 * time**3)[:, None]
    seen = np.ones((61, 1))
    seen[1::2] = 0.0  # nothing was measured there
    motion = Motion(qpos, seen, np.zeros((61, 0)), np.zeros((61, 1)))
    start = windows.guess_starts(windows.cut(motion, 30), STEP_S)[1]
    t = time[30]
    np.testing.assert_allclose(start, [qpos[30, 0], 2.0 - 8.0 * t + 21.0 * t**2], rtol=1e-9)


@pytest.mark.slow
def test_a_forecast_holds_the_measurements_as_often_as_it_says(plants, swing) -> None:
    plant, motion = plants['pendulum'], swing(steps=1200)
    cut = {'qpos': motion.qpos, 'weights': motion.weights, 'ctrl': motion.ctrl,
           'applied': motion.applied}  # fmt: skip
    known, later = (
        dataclasses.replace(motion, **{name: rows[part] for name, rows in cut.items()})
        for part in (slice(400), slice(400, None))
    )
    thetas = np.tile(PENDULUM_TRUTH, (60, 1))
    scale = np.full(2, 0.85e-3)  # of the noise of 1e-3, as a Student's t
    one = forecast.forecast(plant, thetas, scale, known, later, 80, seed=0, threads=1)
    assert one.measured.shape == (800, 2) and one.forecast.shape == (60, 800, 2)
    # at least 8 independent samples, one for each forecast: 3 standard errors of a share
    for share in forecast.inside(one):
        assert abs(share - 0.9) < 3.0 * np.sqrt(0.9 * 0.1 / 8)
    assert np.max(forecast.inside(one)) < 1.0


def test_the_command_writes_a_prior(plants, swing, tmp_path: Path, capsys) -> None:
    motion = swing(steps=600)
    time = STEP_S * np.arange(600)
    np.savetxt(
        tmp_path / 'swing.csv', np.column_stack([time, motion.qpos]), delimiter=',',
        header='time_s,position/shoulder [rad],position/elbow [rad]', comments='',
    )  # fmt: skip
    arguments = ['--model', str(tmp_path / 'pendulum.yaml'), '--data', str(tmp_path / 'swing.csv')]
    out = ['--out', str(tmp_path / 'known.yaml'), '--longest-window', '0.2']
    assert main(['identify', '--method', 'shooting', *arguments, *out]) == 0
    printed = capsys.readouterr().out
    assert 'lower_mass  value' in printed and 'held_out_inside_90' in printed
    assert (tmp_path / 'known.yaml').exists()


def test_a_free_body_is_an_error(tmp_path: Path, capsys) -> None:
    (tmp_path / 'free.xml').write_text(
        '<mujoco><worldbody><body name="b"><freejoint name="f"/>'
        '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody></mujoco>'
    )
    (tmp_path / 'free.yaml').write_text(
        'scene: free.xml\nparameters:\n  m: {field: body_mass, of: b, unit: kg}\n'
    )
    (tmp_path / 'x.csv').write_text('time_s,position/f [rad]\n0,0\n')
    arguments = ['--model', str(tmp_path / 'free.yaml'), '--data', str(tmp_path / 'x.csv')]
    assert main(['identify', '--method', 'shooting', *arguments]) == 2
    assert capsys.readouterr().err

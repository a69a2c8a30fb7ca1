"""`emppi calibrate`: report, recommendation, and the task file that it writes."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from emppi_ros.calibration import runs
from emppi_ros.calibration.runs import BeliefSetting
from emppi_ros.cli import calibrate, main
from emppi_ros.core import paths, yaml_edit
from emppi_ros.tasks import calibration_record
from emppi_ros.tasks.schema import CalibrationConfig
from emppi_ros.tasks.task import load_task, task_text

COMMENT = '  particles: 16   # few, to be quick\n'
SETTING = BeliefSetting('noise x2', {'likelihood': {'joint_velocity_sd': 0.01}, 'particles': 20})

RIGHT = CalibrationConfig('a123', 30, (0.9, 0.8, 0.96), 1.1)


@pytest.fixture
def cartpole(tmp_path: Path) -> Path:
    """Return a user's own file of a cartpole that is quick to simulate."""
    lines = task_text('cartpole_swingup').splitlines(keepends=True)
    text = ''.join(line for line in lines if not line.startswith('calibration:'))
    for before, after in (
        ('  particles: 80\n', COMMENT),
        ('models: 16', 'models: 2'),
        ('horizon: 40', 'horizon: 4'),
    ):
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / 'mine.yaml'
    path.write_text(text)
    return path


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare two settings only."""
    monkeypatch.setattr(calibrate, 'alternatives', lambda _: [BeliefSetting(runs.OWN), SETTING])


def run(path: object, *words: str) -> int:
    return main(['calibrate', str(path), '--runs', '4', '--duration', '2', '--jobs', '1', *words])


@pytest.mark.slow
@pytest.mark.usefixtures('few')
def test_a_calibration_of_a_cartpole_reports_all_numbers(
    cartpole: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out, before = tmp_path / 'out', cartpole.read_bytes()
    assert run(cartpole, '--out', str(out), '--json') == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found['runs'] == 4 and set(found['settings']) == {runs.OWN, SETTING.name}
    assert set(found['parameters']) == {'pole_mass', 'pole_inertia'}
    for one in found['parameters'].values():
        assert sum(one['ranks']['counts']) == 3 and one['inside_end']['total'] == 3
    assert found['recommended']['checked']['runs'] == 1
    text = (out / 'calibration.md').read_text()
    pictures = {path.name for path in out.glob('*.png')}
    assert pictures == {'coverage.png', 'ranks.png', 'estimates.png', 'contraction.png'}
    assert all(f']({name})' in text for name in pictures)
    assert all(line in text for line in found['verdict'])
    assert cartpole.read_bytes() == before and found['written'] is None


def test_written_settings_change_the_belief_only_and_keep_comments(
    cartpole: Path, tmp_path: Path
) -> None:
    before, lines = load_task(str(cartpole)), cartpole.read_text().splitlines()
    assert calibrate.write_settings(str(cartpole), SETTING, RIGHT, tmp_path / 'out') == cartpole
    after, written = load_task(str(cartpole)), cartpole.read_text().splitlines()
    assert (after.belief.particles, after.belief.likelihood.joint_velocity_sd) == (20, 0.01)
    assert after.belief.likelihood.joint_position_sd == before.belief.likelihood.joint_position_sd
    assert (after.planner, after.file.cost) == (before.planner, before.file.cost)
    assert sum(line != other for line, other in zip(lines, written, strict=False)) == 2
    assert written[len(lines) :] == [
        'calibration: {digest: a123, inside_90: [0.9, 0.8, 0.96], rms_z: 1.1, runs: 30}'
    ]
    assert COMMENT.replace('16', '20').rstrip() in written
    assert [path.name for path in tmp_path.iterdir()] == ['mine.yaml']  # nothing temporary


def test_joints_without_intervals_are_not_asked_to_be_calibrated() -> None:
    text = calibration_record.describe(load_task('panda_drawer'), 'panda_drawer')
    assert text == 'none: axes and pivots of uncertain joints have no intervals'


def test_a_run_says_what_was_measured_until_the_task_changes(
    cartpole: Path, tmp_path: Path
) -> None:
    own, task = BeliefSetting(runs.OWN), load_task(str(cartpole))
    assert 'not calibrated: `emppi calibrate lever' in calibration_record.describe(task, 'lever')
    digest = calibration_record.digest(task, task.data)
    calibration = dataclasses.replace(RIGHT, digest=digest)
    calibrate.write_settings(str(cartpole), own, calibration, tmp_path)
    text = calibration_record.describe(load_task(str(cartpole)), 'mine.yaml')
    assert text == (
        '90 % intervals held the truth 90 % of the time (80 to 96 %) in 30 simulated runs'
    )
    for before, after, outdated in (
        ('particles: 16', 'particles: 17', True),
        ('description: ', 'description: my ', False),
    ):
        text = cartpole.read_text()
        assert before in text
        changed = tmp_path / 'changed.yaml'
        changed.write_text(text.replace(before, after))
        text = calibration_record.describe(load_task(str(changed)), 'mine.yaml')
        assert text.startswith('calibrated with other settings') == outdated


@pytest.mark.slow
@pytest.mark.usefixtures('few')
def test_what_is_written_is_the_calibration_of_what_is_written(
    cartpole: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert run(cartpole, '--out', str(tmp_path / 'out'), '--json', '--write') == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    task, chosen = load_task(str(cartpole)), found['recommended']
    calibration = task.file.calibration
    assert calibration is not None
    changes = chosen['setting'] != runs.OWN
    measured = chosen['checked'] if changes else found['settings'][runs.OWN]
    assert calibration.runs == measured['runs']
    assert calibration.inside_90[0] == pytest.approx(measured['inside_90']['mean'], abs=6e-4)
    assert 'intervals held the truth' in calibration_record.describe(task, 'mine.yaml')


@pytest.mark.parametrize('by_path', [False, True])
def test_a_task_of_the_package_is_copied_instead(tmp_path: Path, by_path: bool) -> None:
    source = paths.find_config('tasks', 'cartpole_swingup')
    before = source.read_bytes()
    name = str(source) if by_path else 'cartpole_swingup'
    target = calibrate.write_settings(name, SETTING, RIGHT, tmp_path)
    assert target == tmp_path / 'cartpole_swingup.yaml'
    assert load_task(str(target)).belief.particles == 20
    assert source.read_bytes() == before


def test_ctrl_c_leaves_no_report_and_the_task_as_it_is(
    cartpole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(calibrate, 'compute', interrupted)
    before = cartpole.read_bytes()
    assert run(cartpole, '--out', str(tmp_path / 'out'), '--write') == 130
    assert cartpole.read_bytes() == before and not (tmp_path / 'out').exists()


@pytest.mark.usefixtures('few')
def test_a_file_that_cannot_be_edited_is_refused_before_any_run(
    cartpole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(calibrate, 'compute', None)
    # as if the file were written in a way that no edit fits
    monkeypatch.setattr(yaml_edit, 'flow', lambda _: '? [')
    assert run(cartpole, '--write', '--out', str(tmp_path / 'out')) == 2
    assert 'cannot be set without rewriting the file by hand' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--runs', '3'], '--runs: found 3, expected 4 or more'),
        (['--duration', '1'], '--duration: found 1 s, expected 2 s or more'),
        (['--prior', 'no_such'], 'no_such'),
    ],
)
def test_errors_end_with_status_2_and_name_the_option(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert run('cartpole_swingup', '--out', str(tmp_path / 'out'), *words) == 2
    assert message in capsys.readouterr().err and not (tmp_path / 'out').exists()

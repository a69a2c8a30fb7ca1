"""Output, errors and exit status of the commands."""

import argparse
from collections.abc import Callable
import json
import math
from pathlib import Path
import subprocess
import sys

import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros import cli
from emppi_ros.cli import main, output
from emppi_ros.core.paths import find_config

RUN = ['run', 'cartpole_swingup', '--duration', '0.4', '--json']


def last_json(captured: str) -> dict:
    return json.loads(captured.splitlines()[-1])


def _commands(parser: argparse.ArgumentParser) -> list[str]:
    (commands,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return list(commands.choices)


def test_each_module_has_the_commands_of_the_registry() -> None:
    assert _commands(cli.make_parser()) == [
        name for names in cli.MODULES.values() for name in names
    ]
    for names in cli.MODULES.values():
        for name in names:
            assert _commands(cli.make_parser(name)) == list(names)


def test_a_command_imports_only_its_own_module() -> None:
    slow = [
        'matplotlib',
        'scipy.signal',
        'scipy.stats',
        'emppi_ros.identification',
        'emppi_ros.bench',
    ]
    code = (
        'import sys; from emppi_ros.cli import make_parser; make_parser("task"); '
        f'print([name for name in {slow} if name in sys.modules])'
    )
    said = subprocess.run([sys.executable, '-c', code], check=True, capture_output=True, text=True)
    assert said.stdout == '[]\n'


def test_tasks_lists_every_task(capsys: pytest.CaptureFixture) -> None:
    assert main(['tasks']) == 0
    assert 'panda_push' in capsys.readouterr().out


@pytest.mark.parametrize(
    'task',
    [
        'panda_push',
        'cartpole_swingup',
        'fr3_pickup',
        'spring_door',
        'ur5e_push',
        'ur5e_reach',
        'xarm7_push',
    ],  # fmt: skip
)
def test_check_accepts_our_tasks(task: str, capsys: pytest.CaptureFixture) -> None:
    assert main(['check', str(find_config('tasks', task))]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == 'ok'


@pytest.mark.parametrize(
    ('old', 'new', 'words'),
    [
        ('horizon:', 'horizont:', ["'horizont'", "did you mean 'horizon'", 'available']),
        ('of: block', 'of: blok', ['block_mass', "'blok'", "'block'"]),
        ('temperature: ', 'temperature: -', ['temperature', 'above 0']),
        ('scene: panda_push.xml', 'scene: no.xml', ["'no.xml'", 'panda_push.xml']),
        (
            'cost:  ',
            'probe: {cost: {a: {residual: distan, weight: 1.0}}}\ncost:  ',
            ['probe: cost: a', 'distance'],
        ),
        ('robot: panda', 'robot: pandas', ["'pandas'", 'cartpole']),
        ('weight: 1.0', 'wieght: 1.0', ['line', 'cost: reach', "did you mean 'weight'"]),
        ('residual: distance', 'resiudal: distance', ['reach', "did you mean 'residual'"]),
        ('axes: xy', 'axis: xy', ['cost: push', "did you mean 'axes'"]),
    ],
)
def test_check_names_the_key_the_reason_and_what_is_allowed(
    old: str, new: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    text = find_config('tasks', 'panda_push').read_text()
    file = tmp_path / 'task.yaml'
    file.write_text(text.replace(old, new, 1))
    assert main(['check', str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ''
    assert captured.err.startswith('error: ') and captured.err.count('\n') == 1
    for word in words:
        assert word in captured.err


CENTRE = """parameters:
  centre: {field: body_ipos, of: block, element: 1, lower: -0.02, upper: 0.02, unit: m, prior: {
    distribution: normal, mean: 0.0, sd: 0.01}}
"""


def test_the_centre_of_mass_of_a_symmetric_free_body_can_be_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    text = find_config('tasks', 'panda_push').read_text()
    text = text.replace('parameters: ', CENTRE + '#').replace(
        'truth:\n', 'truth:\n    centre: {distribution: fixed, value: 0.01}\n'
    )
    file = tmp_path / 'task.yaml'
    file.write_text(text)
    assert main(['check', str(file)]) == 0
    assert main(['run', str(file), '--duration', '0.2', '--json']) == 0
    assert last_json(capsys.readouterr().out)['parameters']['centre']['true'] == 0.01


def test_check_simulates_the_models_and_tells_parameters_without_an_effect(
    write_task: Callable[..., Path], task_data: Callable[[str], dict],
    capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    data = task_data('block')
    data['parameters']['height'] = {
        'field': 'body_pos', 'of': 'block', 'element': 2, 'lower': 0.0,
        'prior': {'distribution': 'uniform', 'lower': 0.0, 'upper': 1.0},
    }  # fmt: skip
    data['simulation']['truth']['height'] = {'distribution': 'fixed', 'value': 0.5}
    assert main(['check', str(write_task('block', data)), '--json']) == 0
    captured = capsys.readouterr()
    (warning,) = json.loads(captured.out)['warnings']
    assert 'height: body_pos of' in warning and 'no effect' in warning
    assert f'warning: {warning}' in captured.err
    data = task_data('two_link')
    data['planner'] |= {'step_s': 10.0, 'substeps': 1}
    assert main(['check', str(write_task('two_link', data))]) == 2
    assert 'error: ' in (said := capsys.readouterr().err) and 'diverge within' in said


def test_an_error_of_mujoco_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def failing(*_: object, **__: object) -> None:
        mujoco.mj_setConst(*_broken())

    monkeypatch.setattr('emppi_ros.cli.run.ClosedLoop', failing)
    assert main(RUN) == 2
    assert capsys.readouterr().err.startswith('error: MuJoCo: mj_setConst')


def _broken() -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Return a model that MuJoCo rejects: a symmetric body with another centre of mass."""
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><freejoint/><geom size="1"/></body></worldbody></mujoco>'
    )
    model.body_ipos[1] = 0.1
    return model, mujoco.MjData(model)


def test_run_prints_all_documented_keys(capsys: pytest.CaptureFixture) -> None:
    assert main([*RUN, '--seed', '3', '--truth', 'pole_mass=0.3']) == 0
    found = last_json(capsys.readouterr().out)
    assert list(found) == [
        'task', 'controller', 'seed', 'success', 'time_s', 'steps', 'real_time',
        'final_error', 'parameters', 'misfit', 'collapsed', 'reinjected', 'changes', 'unresolved',
        'ess_min',
        'plan_ms', 'diverged', 'ended', 'intervals',
    ]  # fmt: skip
    assert found['seed'] == 3
    assert found['parameters']['pole_mass']['true'] == 0.3
    assert set(found['plan_ms']) == {'p50', 'p99'}


def test_a_run_tells_the_last_truth_and_when_it_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    truth = ['--truth', 'pole_mass=0.3,0.5@0.1,0.4@0.3', '--truth', 'pole_inertia=0.02']
    assert main([*RUN, *truth, '--record', str(tmp_path / 'run.csv')]) == 0
    assert last_json(capsys.readouterr().out)['parameters']['pole_mass']['true'] == 0.4
    beside = json.loads((tmp_path / 'run.truth.json').read_text())
    assert beside['truth'] == {'pole_mass': 0.4, 'pole_inertia': 0.02}
    assert beside['changes'] == {'pole_mass': [[0.0, 0.3], [0.1, 0.5], [0.3, 0.4]]}


@pytest.mark.slow
def test_a_run_probes_first_on_request_and_repeats_bit_for_bit(
    capsys: pytest.CaptureFixture,
) -> None:
    outputs = []
    for options in (['--probe', '0.2'], ['--probe', '0.2'], []):
        assert main([*RUN, '--seed', '3', *options]) == 0
        found = last_json(capsys.readouterr().out)
        outputs.append((found['final_error'], found['parameters']))
    assert outputs[0] == outputs[1] != outputs[2]
    assert main([*RUN, '--controller', 'mppi-true', '--probe', '0.2']) == 2
    assert 'probe: needs several models' in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_goes_on_after_success_on_request(
    write_task: Callable[..., Path], task_data: Callable[[str], dict], tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    data = task_data('slider')
    data['success']['below'] = 9.0  # from the start
    command = [
        'run',
        str(write_task('slider', data)),
        '--json',
        '--record',
        str(tmp_path / 'r.csv'),
    ]
    ends = []
    for options in ([], ['--no-stop']):
        assert main([*command, *options]) == 0
        found = last_json(capsys.readouterr().out)
        assert found['success'] and found['time_s'] == 0.02
        ends.append(float((tmp_path / 'r.csv').read_text().splitlines()[-1].split(',')[0]))
    assert ends[0] < 0.03 and ends[1] > 0.9


@pytest.mark.slow
def test_the_belief_of_a_run_is_the_prior_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = str(tmp_path / 'known.yaml')
    assert main([*RUN, '--save', path]) == 0
    first = last_json(capsys.readouterr().out)
    assert first['saved'] == path
    again = [*RUN, '--prior', path, '--controller', 'no-update', '--save', path]
    assert main(again) == 0
    second = last_json(capsys.readouterr().out)
    assert second['saved'] == f'{path}; before: known.1.yaml' and second['prior'] == path
    for name, values in first['parameters'].items():
        # weights come back to an ulp, and 100 of them are summed
        assert second['parameters'][name]['mean'] == pytest.approx(values['mean'], rel=1e-13)
    assert main([*RUN, '--save', 'known.txt']) == 2
    assert 'expected a name ending in .yaml' in capsys.readouterr().err


@pytest.mark.slow
def test_run_is_the_same_for_the_same_seed(capsys: pytest.CaptureFixture) -> None:
    results = []
    for seed in ('5', '5', '6'):
        assert main([*RUN, '--seed', seed]) == 0
        results.append(last_json(capsys.readouterr().out))
        del results[-1]['plan_ms']  # time, the one thing that differs
    assert results[0] == results[1]
    assert results[0]['final_error'] != results[2]['final_error']


@pytest.mark.slow
def test_several_seeds_are_a_table_of_the_single_runs(capsys: pytest.CaptureFixture) -> None:
    command = RUN[:-1]
    single = []
    for seed in ('4', '5'):
        assert main([*command, '--seed', seed, '--json']) == 0
        single.append(last_json(capsys.readouterr().out)['parameters'])
    assert main([*command, '--seeds', '4-5', '--jobs', '1', '--json']) == 0
    found = last_json(capsys.readouterr().out)
    assert [row['seed'] for row in found['runs']] == [4, 5]
    for row, alone in zip(found['runs'], single, strict=True):
        for name, values in row['parameters'].items():
            z = values.pop('z')
            assert values == alone[name]
            assert z == (values['mean'] - values['true']) / values['sd']
    assert (found['successes'], found['of'], found['median_time_s']) == (0, 2, None)
    assert main([*command, '--seeds', '4-5', '--jobs', '2']) == 0
    head, first, second, last, _note = capsys.readouterr().out.splitlines()
    columns = ['seed', 'success', 'time_s', 'z', 'pole_mass', 'z', 'pole_inertia', 'ended']
    assert head.split() == columns and first.endswith('  time limit')
    assert first.split()[:3] == ['4', 'no', '0.40'] and second.split()[0] == '5'
    assert last.split()[:3] == ['all', '0/2', '-']
    z = found['runs'][0]['parameters']['pole_mass']['mean'] - single[0]['pole_mass']['true']
    assert first.split()[3] == f'{z / single[0]["pole_mass"]["sd"]:+.2f}'


def test_files_of_a_single_run_are_an_error_with_several_seeds(
    capsys: pytest.CaptureFixture,
) -> None:
    assert main([*RUN, '--seeds', '0-1', '--save', 'a.yaml']) == 2
    assert '--save: is for a single run' in capsys.readouterr().err


def test_run_starts_from_a_prior_and_names_parameters_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / 'known.yaml'
    entry = '{unit: kg, prior: {distribution: fixed, value: 0.25}}'
    path.write_text(f'method: none\nsources: []\nparameters: {{pole_mass: {entry}}}\n')
    assert main([*RUN, '--prior', str(path), '--controller', 'no-update']) == 0
    found = last_json(capsys.readouterr().out)
    assert found['prior'].startswith(f"{path}; the task's own for ")
    # nobody updates, so that what is fixed stays: a mean of equal numbers, rounded
    assert found['parameters']['pole_mass']['mean'] == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['run', 'panda_pusch'], ["'panda_pusch'", "did you mean 'panda_push'"]),
        (['run', 'panda_push', '--truth', 'mass=1'], ["'mass'", 'block_mass']),
        (['run', 'panda_push', '--truth', 'block_mass'], ['name=value']),
        (['run', 'panda_push', '--truth', 'block_mass=nan'], ['name=value']),
        (['run', 'panda_push', '--truth', 'block_mass=-1'], ['block_mass', 'within']),
        (
            ['run', 'panda_push', '--truth', 'block_mass=1', '--truth', 'block_mass=2'],
            ['given twice'],
        ),
        (['run', 'panda_push', '--prior', 'nowhere.yaml'], ['nowhere.yaml', 'no such file']),
        (['run', 'panda_push', '--video', 'motion.avi'], ['.mp4 or .gif']),
        (['check', 'nowhere.yaml'], ['nowhere.yaml', 'no such file']),
        (['bench', 'planner', '--task', 'x'], ["'x'", 'panda_push']),
        (['demo', 'x'], ["'x'", 'panda_push']),
        (['demo', 'panda_push', '--truth', 'mass=1'], ["'mass'", 'block_mass']),
        (['demo', 'panda_push', '--prior', 'nowhere.yaml'], ['nowhere.yaml', 'no such file']),
        (['demo', 'panda_push', '--articulation'], ['panda_push', 'motion: jointed']),
    ],
)
def test_errors_are_one_line_on_stderr(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ''
    line = captured.err.splitlines()[-1]
    assert line.startswith('error: ')
    assert 'Traceback' not in captured.err
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    'arguments',
    [
        [],
        ['fly'],
        ['run'],
        ['run', 'panda_push', '--duration', '-1'],
        ['run', 'panda_push', '--duration', 'nan'],
        ['run', 'panda_push', '--seed', '-1'],
        ['run', 'panda_push', '--controller', 'pid'],
    ],
)
def test_invalid_arguments_end_with_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_ctrl_c_ends_with_status_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr('emppi_ros.cli.run.ClosedLoop', interrupted)
    assert main(RUN) == 130
    assert 'Traceback' not in capsys.readouterr().err


def test_the_error_for_a_slow_task_suggests_emppi_run(
    capsys: pytest.CaptureFixture,
) -> None:
    assert main(['demo', 'halfcheetah_backflip']) == 2
    assert 'cannot be planned in real time' in (said := capsys.readouterr().err)
    assert '`emppi run halfcheetah_backflip` runs it in simulated time' in said


def test_a_robot_without_command_topics_is_an_error_before_a_demo_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    robot, task = (
        yaml.safe_load(find_config(kind, name).read_text())
        for kind, name in (('robots', 'cartpole'), ('tasks', 'cartpole_swingup'))
    )
    del robot['topics']
    (tmp_path / 'robot.yaml').write_text(yaml.safe_dump(robot))
    (tmp_path / 'task.yaml').write_text(yaml.safe_dump({**task, 'robot': 'robot.yaml'}))
    assert main(['demo', str(tmp_path / 'task.yaml')]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f'error: {tmp_path / "robot.yaml"}: topics: commands: effort: missing: give the topic of '
        'the controller, such as `topics: {commands: {effort: effort_controller/commands}}`'
    )


@pytest.mark.parametrize('command', [[], ['tasks'], ['check'], ['run'], ['demo'], ['bench']])
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, '--help'])
    assert ended.value.code == 0
    assert 'usage: emppi' in capsys.readouterr().out


def test_json_has_null_for_what_is_not_finite() -> None:
    value = {'a': math.nan, 'b': [np.float64(np.inf), np.int64(3)], 'c': {'d': True}}
    assert output.to_json(value) == '{"a": null, "b": [null, 3], "c": {"d": true}}'

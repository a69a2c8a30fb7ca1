"""An error about a YAML text names the line of the key at fault."""

import pytest

from emppi_ros.core import config, paths, yaml_loader
from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.robots.robot import Robot, load_robot
from emppi_ros.tasks.task import parse_task

SHIPPED = [p for kind in ('robots', 'tasks') for p in (paths.share() / 'config' / kind).iterdir()]


def line_of(text: str, key: str) -> int:
    """Return the line, counted from 1, that begins with a key."""
    (found,) = [i for i, line in enumerate(text.split('\n'), 1) if line.strip().startswith(key)]
    return found


@pytest.mark.parametrize('path', SHIPPED, ids=lambda path: path.stem)
def test_every_key_of_a_shipped_file_has_the_line_on_which_it_stands(path):
    text = path.read_text()
    lines = text.split('\n')
    document = yaml_loader.load(path)
    for name, line in document.lines.items():
        assert f'{name.split(": ")[-1]}:' in lines[line - 1]
    assert set(document) == {name for name in document.lines if ': ' not in name}


@pytest.mark.parametrize('row', ['velocity', 'acceleration', 'jerk', 'home', 'lower', 'upper'])
def test_seven_joints_with_six_numbers_name_the_line(row, tmp_path):
    text = paths.find_config('robots', 'panda').read_text()
    number = line_of(text, f'{row}: [')
    lines = text.split('\n')
    start, _, rest = lines[number - 1].partition('[')
    lines[number - 1] = f'{start}[{rest.partition(", ")[2]}'
    path = tmp_path / 'six.yaml'
    path.write_text('\n'.join(lines))
    with pytest.raises(ConfigError, match=f'six.yaml: line {number}: .*{row}: 6 values.* 7'):
        load_robot(str(path))


@pytest.mark.parametrize(
    ('old', 'new', 'words'),
    [
        ('  step_s: 0.05', '  step_s: fast', "line {}: planner: step_s: found 'fast'"),
        ('  step_s: 0.05', '  step_x: 0.05', "line {}: planner: unknown key 'step_x'"),
        ('axis: z', 'axis: w', r'line {}: cost: upright \(tilt\): axis: found'),
        ('of: gripper, axis', 'of: grip, axis', 'line {}: cost: upright: unknown site'),
        ('    field: body_mass', '    field: body_mas', 'line {}: parameters: block_mass: field'),
        ('robot: panda', 'robot: pandas', "line {}: robot: unknown robot 'pandas'"),
        ('scene: panda_push.xml', 'scene: push.xml', "line {}: scene: unknown scene 'push.xml'"),
    ],
)
def test_an_error_in_a_task_names_the_line(old, new, words):
    text = paths.find_config('tasks', 'panda_push').read_text()
    assert text.count(old) == 1
    number = text[: text.index(old)].count('\n') + 1
    with pytest.raises(EmppiError, match='^emppi/task: ' + words.format(number)):
        parse_task(text.replace(old, new), 'emppi/task')


def test_an_error_about_no_key_of_the_text_has_no_line():
    document = config.parse('name: a\nnames: b\n', 'f')
    for text in ('there is no such thing', 'named otherwise', ''):
        assert str(yaml_loader.located(ConfigError(text), 'f', document)) == f'f: {text}'
    for text, line in (('name: wrong', 1), ('f: names: wrong', 2), ('names[3]: wrong', 2)):
        found = str(yaml_loader.located(ConfigError(text), 'f', document))
        assert found == f'f: line {line}: {text.removeprefix("f: ")}'


def test_what_is_no_document_has_no_line():
    with pytest.raises(ConfigError, match='^f: missing key'):
        config.build(Robot, {}, 'f')

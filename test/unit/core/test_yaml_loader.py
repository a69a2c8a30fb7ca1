"""An error about a YAML text names the line of the key at fault."""

import math

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


def read(value: str) -> object:
    """Return a value as the loader reads it."""
    return config.parse(f'a: {value}\n', 'f')['a']


@pytest.mark.parametrize(
    ('text', 'value'),
    [
        ('!degrees 30', math.pi / 6),
        ('!degrees  -360.0', -2.0 * math.pi),
        ('!degrees 1e1', math.pi / 18),
        ('!radians 1.5', 1.5),
        ('!radians pi', math.pi),
        ('!radians -pi/5', -math.pi / 5),
        ('!radians 2*pi', 2.0 * math.pi),
        ('!radians +3 * pi / 4', 0.75 * math.pi),
    ],
)
def test_angles_are_tagged_as_in_ros(text, value):
    assert read(text) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize('text', ['x', '""', '[1]', 'nan', '1e', 'pi/0', 'os.system', '1.2.3'])
def test_what_is_no_angle_is_refused(text):
    with pytest.raises(ConfigError, match='f: line 1: !degrees: found .* expected a number'):
        read(f'!degrees {text}')


def test_an_angle_is_refused_where_a_key_has_another_unit():
    with pytest.raises(ConfigError, match='line 1: tilt_deg: !degrees gives radians'):
        config.parse('tilt_deg: !degrees 30\n', 'f')
    for key in ('tilt_rad', 'residual_rad_per_s', 'tilt'):
        assert config.parse(f'{key}: !degrees 180\n', 'f') == {key: math.pi}


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('1:30', "1:30 is 90 in YAML 1.1, in base 60.*'1:30' for a string"),
        ('-1:30.5', '-1:30.5 is -90.5'),
        ('1' + ':00' * 999, '1:00.*: quote it'),
        ('1' + ':00' * 999 + '.5', '1:00.*: quote it'),
        ('010', '010 is 8 in YAML 1.1, in base 8'),
        ('-0_17', '-0_17 is -15'),
    ],
)
def test_what_yaml_reads_as_another_number_is_refused(text, words):
    with pytest.raises(ConfigError, match=f'f: line 1: {words}'):
        read(text)
    assert read(f"'{text}'") == text


@pytest.mark.parametrize(
    ('text', 'value'),
    [
        ('2001-99-99', '2001-99-99'), ('2024-01-02', '2024-01-02'), ('=', '='), ('0', 0),
        ('1_000', 1000), ('0.5', 0.5), ('1e-3', 1e-3), ('12:5:7x', '12:5:7x'),
    ],
)  # fmt: skip
def test_other_values_are_what_they_look_like(text, value):
    assert read(text) == value


def test_a_boolean_for_a_name_is_refused_with_the_remedy():
    with pytest.raises(ConfigError, match=r'name: found False, expected a string: quote it \(no'):
        config.build(Robot, config.parse('name: no\n', 'f'), 'f')


def test_an_anchor_is_repeated_by_its_aliases():
    text = 'a: &a [1, 2]\nb: *a\nc: {d: *a}\n'
    assert config.parse(text, 'f') == {'a': [1, 2], 'b': [1, 2], 'c': {'d': [1, 2]}}


def test_merge_keys_give_way_to_own_keys_and_keep_their_lines():
    text = 'x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz:\n  b: 5\n  <<: [*x, *y]\n'
    for _ in range(2):  # the text is parsed only once
        document = config.parse(text, 'f')
        assert document['z'] == {'a': 1, 'b': 5, 'c': 4}
    assert [document.lines[f'z: {name}'] for name in 'abc'] == [1, 4, 2]
    with pytest.raises(ConfigError, match='line 2: <<: expected a mapping'):
        config.parse('x: &x 1\ny: {<<: *x}\n', 'f')


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('a: &a [*a]\n', r'line 1: alias \*a is within &a itself'),
        ('a: &a {<<: *a}\n', r'line 1: alias \*a is within &a itself'),
        ('a: *b\n', 'line 1: not valid YAML: found undefined alias'),
        (
            'a0: &a0 [1, 1]\n'
            + ''.join(f'a{i + 1}: &a{i + 1} [*a{i}, *a{i}]\n' for i in range(30)),
            'line 1.: aliases repeat more than 10000 values',
        ),
        (
            'a0: &a0 [1]\n' + ''.join(f'a{i + 1}: &a{i + 1} [*a{i}]\n' for i in range(40)),
            'nested more than 32 levels deep',
        ),
    ],
)
def test_aliases_do_not_multiply_without_bound(text, words):
    with pytest.raises(ConfigError, match=f'^f: .*{words}'):
        config.parse(text, 'f')

"""Wrong launch arguments are refused before any node starts."""

import ast
from pathlib import Path

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.common import launch_arguments

NODES_YAML = paths.share() / 'config' / 'nodes.yaml'
GOOD = {
    'task': 'cartpole_swingup', 'robot': '', 'prior': '', 'save_belief': '', 'backend': '',
    'params_file': str(NODES_YAML), 'namespace': '', 'seed': '', 'real_time_factor': '1.0',
    'log_level': 'info', 'simulate': 'true', 'hardware': '', 'use_sim_time': 'false',
    'tracking': 'truth', 'articulation': 'false',
}  # fmt: skip


def write(folder: Path, text: str) -> dict[str, str]:
    (folder / 'nodes.yaml').write_text(text)
    return {'params_file': str(folder / 'nodes.yaml')}


@pytest.mark.parametrize(
    'values',
    [
        {}, {'task': ''}, {'backend': 'dry-run'}, {'seed': '3'}, {'save_belief': '{task}.yaml'},
        {'prior': 'unsaved/{task}.yaml'}, {'namespace': 'left'}, {'namespace': '/a/left'},
        {'log_level': 'WARN'}, {'log_level': 'planner:=debug'}, {'use_sim_time': 'true'},
        {'use_sim_time': 'true', 'simulate': 'false', 'hardware': 'false'},
        {'articulation': 'true', 'prior': 'unsaved/{task}.yaml', 'save_belief': 'b.yaml'},
    ],
)  # fmt: skip
def test_valid_arguments_are_accepted(values):
    launch_arguments.check({**GOOD, **values})


@pytest.mark.parametrize(
    ('name', 'value', 'words'),
    [
        ('task', 'cartpole_swngup', 'did you mean .cartpole_swingup'),
        ('task', '/no/such.yaml', 'no such file: /no/such.yaml'),
        ('robot', 'panda', 'joint'),  # another robot than the scene's
        ('robot', 'pandora', "unknown robot 'pandora'.*available"),
        ('prior', 'heavy', "unknown prior 'heavy'"),
        ('backend', 'forwards', 'did you mean .forward'),
        ('tracking', 'dept', "did you mean 'depth'"),
        ('articulation', 'yes', 'expected true or false'),
        ('articulation', 'true', 'no prior file to write: .*need not exist yet'),
        ('log_level', 'warning', 'did you mean .warn.*available: debug'),
        ('params_file', '/no/such.yaml', 'no such file: /no/such.yaml'),
        ('namespace', 'a//b', "repeated '/'"),
        ('seed', '-1', "found '-1', expected a non-negative integer"),
        ('real_time_factor', '0', "found '0', expected a positive number"),
        ('real_time_factor', 'fast', "found 'fast', expected a positive number"),
        ('save_belief', 'belief.txt', r'ending in \.yaml'),
    ],
)
def test_a_wrong_argument_is_refused_by_name(name, value, words):
    with pytest.raises(ConfigError, match=words) as caught:
        launch_arguments.check({**GOOD, name: value})
    assert str(caught.value).startswith(f'{name}: ')


@pytest.mark.parametrize(
    ('prior', 'words'),
    [
        ('heavy', r'^prior: heavy: expected a name ending in \.yaml'),
        ('/no/such.yaml', r'^prior: no such file: /no/such\.yaml; a path with {task}'),
        ('{task}.yaml', "^articulation: prior and save_belief are both '{task}.yaml'"),
    ],
)
def test_a_prior_that_the_belief_would_not_read_is_refused(tmp_path, prior, words):
    file = write(tmp_path, "belief: {ros__parameters: {save_to: '{task}.yaml'}}")
    with pytest.raises(ConfigError, match=words):
        launch_arguments.check({**GOOD, **file, 'articulation': 'true', 'prior': prior})


@pytest.mark.parametrize('real', [{'simulate': 'false'}, {'hardware': 'true'}])
def test_simulated_time_is_refused_for_a_real_robot(real):
    launch_arguments.check({**GOOD, **real})
    with pytest.raises(ConfigError, match='^use_sim_time: .*hardware:=false'):
        launch_arguments.check({**GOOD, **real, 'use_sim_time': 'true'})


def test_a_parameter_file_that_nodes_cannot_read_is_refused(tmp_path):
    broken = write(tmp_path, 'planner: {ros__parameters: {a: [1, b]}}')
    with pytest.raises(ConfigError, match=r'params_file: .*nodes\.yaml'):
        launch_arguments.check({**GOOD, **broken})


@pytest.mark.parametrize('node', ['planner', '/planner', '/left/planner', '/**/planner', '/**'])
def test_the_task_of_a_parameter_file_is_checked_unless_an_argument_replaces_it(tmp_path, node):
    file = write(tmp_path, f'{node}: {{ros__parameters: {{task: nonsense}}}}')
    with pytest.raises(ConfigError, match="task: unknown task 'nonsense'"):
        launch_arguments.check({**GOOD, **file, 'task': ''})
    launch_arguments.check({**GOOD, **file})


def test_unknown_arguments_are_refused_with_the_closest_name():
    known = declared()
    launch_arguments.check_names(['task:=panda_push', 'launch-prefix:=gdb'], known)
    with pytest.raises(
        ConfigError, match=r"unknown launch argument 'takss' \(did you mean 'task'"
    ):
        launch_arguments.check_names(['takss:=panda_push'], known)


def declared() -> list[str]:
    text = (paths.share() / 'launch' / 'emppi.launch.py').read_text()
    (table,) = [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == 'ARGUMENTS'
    ]
    return [ast.literal_eval(key) for key in table.keys]


@pytest.mark.parametrize(('text', 'value'), [('true', True), ('False', False), ('1', True)])
def test_flags_are_read_as_launch_reads_them(text, value):
    assert launch_arguments.flag('rviz', text) is value
    with pytest.raises(ConfigError, match="rviz: found 'yes', expected true or false"):
        launch_arguments.flag('rviz', 'yes')

"""Tasks and robots: each shipped one works, and each wrong key is an error that names it."""

import copy
import importlib.util
import math
import re

import command_series
from hypothesis import given
from hypothesis import strategies as st
import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError, EmppiError, SceneError
from emppi_ros.planning.planner import Planner
from emppi_ros.priors import distributions, particles, prior_file
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.prior_file import ParameterPrior, PriorFile
from emppi_ros.robots import robot as robots
from emppi_ros.tasks.schema import ChangeConfig, TaskFile
from emppi_ros.tasks.task import Task, load_task, parse_task, task_text

TASKS, ROBOTS = paths.available('tasks'), paths.available('robots')
# true masses that the paper's prior leaves out
OUTSIDE = {'halfcheetah_backflip': {'ffoot_mass'}}
VALUES = (None, 'x', -1, 0, math.nan, math.inf, [], {}, True, '1e400')


def _yaml(kind, name):
    return config.load(paths.find_config(kind, name))


def _is_loadable(name):
    """Return whether the Python package of a task's scene is installed, if it needs one."""
    package = re.match(r'package://(\w+)/', _yaml('tasks', name)['scene'])
    return package is None or importlib.util.find_spec(package[1]) is not None


INSTALLED = [name for name in TASKS if _is_loadable(name)]
needs_extra = pytest.mark.skip(reason='the extra `tasks` is not installed')
SHIPPED = [name if name in INSTALLED else pytest.param(name, marks=needs_extra) for name in TASKS]


def _places(data, path=()):
    """Yield the path of every key and list entry of nested YAML."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for name, value in items:
        yield (*path, name)
        if isinstance(value, (dict, list)):
            yield from _places(value, (*path, name))


def _mutate(data, place, change):
    """Return a copy of YAML data with one place deleted, renamed or replaced."""
    data = copy.deepcopy(data)
    parent = data
    for name in place[:-1]:
        parent = parent[name]
    if change == 'delete':
        del parent[place[-1]]
    elif change == 'rename':
        value = parent[place[-1]]
        if isinstance(parent, dict):
            del parent[place[-1]]
            parent[f'{place[-1]}_'] = value
        else:
            parent[place[-1]] = f'{value}_'
    else:
        parent[place[-1]] = VALUES[change]
    return data


def _text(data):
    return yaml.safe_dump(dict(data)).replace("'1e400'", '1e400')


CHANGES = ['delete', 'rename', *range(len(VALUES))]
EVERY = [
    (kind, name, place)
    for kind, names in (('tasks', INSTALLED), ('robots', ROBOTS))
    for name in names
    for place in _places(_yaml(kind, name))
]


# 60 of 3540; all of them take a minute, and passed when this was written
@pytest.mark.slow
@given(st.sampled_from(EVERY), st.sampled_from(CHANGES))
def test_a_mutated_yaml_loads_or_is_an_error_that_names_the_key(where, change):
    kind, name, place = where
    text = _text(_mutate(_yaml(kind, name), place, change))
    try:
        if kind == 'tasks':
            parse_task(text, 'file')
        else:
            config.build(robots.Robot, config.parse(text, 'file'), 'file')
    except EmppiError as error:
        message = str(error)
        assert message.startswith('file: '), message
        keys = [str(part) for part in place if isinstance(part, str)]
        value = _get(_yaml(kind, name), place)
        named = [keys[-1], *keys[:-1][-1:], *([value] if isinstance(value, str) else [])]
        assert any(part in message for part in named), (place, change, message)


def _get(data, place):
    for part in place:
        data = data[part]
    return data


@pytest.mark.slow
@pytest.mark.parametrize('name', SHIPPED)
def test_every_required_key_of_a_shipped_task_is_missed_by_name(name):
    for place in _places(_yaml('tasks', name)):
        if len(place) == 1 and isinstance(place[0], str):
            text = _text(_mutate(_yaml('tasks', name), place, 'delete'))
            try:
                parse_task(text, 'file')
            except EmppiError as error:
                assert place[0] in str(error)


@pytest.mark.slow
@pytest.mark.parametrize('name', SHIPPED)
def test_every_shipped_task_plans_twice_with_finite_costs(name, rng):
    task = load_task(name)
    planner = Planner(task, rng)
    count = task.belief.particles
    planner.set_belief(
        particles.uniform(distributions.sample(task.parameters, task.priors, count, rng))
    )
    applied = np.zeros(len(task.robot.commanded))
    for cycle in range(2):
        now = cycle / task.planner.rate_hz
        plan, info = planner.plan_from(
            task.start(),
            now,
            now + 1.0 / task.planner.rate_hz,
            command_series.held(applied),
        )
        assert np.isfinite(info.costs).all() and info.diverged == 0
        assert np.isfinite(plan.values).all()


@pytest.mark.parametrize('name', SHIPPED)
def test_the_text_of_a_task_says_the_same_as_its_file(name):
    text = paths.find_config('tasks', name).read_text()
    ours, theirs = parse_task(text), load_task(name)
    assert ours.file == theirs.file and ours.parameters == theirs.parameters
    assert ours.truth == theirs.truth and ours.robot == theirs.robot


@pytest.mark.parametrize('name', SHIPPED)
def test_hidden_truth_is_possible_and_the_prior_knows_it(name):
    task = load_task(name)
    rng = np.random.default_rng(0)
    truth = distributions.sample(task.parameters, task.truth, 200, rng)
    belief = distributions.sample(task.parameters, task.priors, 200, rng)
    # a prior that leaves out the truth makes it hard to learn; 1.1 allows for the extremes
    inside = (belief.min(axis=0) < truth.min(axis=0) * 1.1) & (
        belief.max(axis=0) > truth.max(axis=0) / 1.1
    )
    outside = {p.name for p, good in zip(task.parameters, inside, strict=True) if not good}
    assert outside == OUTSIDE.get(name, set())


@pytest.mark.parametrize('name', ['ur5e_push', 'xarm7_push'])
def test_other_arms_push_by_the_numbers_of_the_panda(name):
    ours, pandas = _yaml('tasks', name), _yaml('tasks', 'panda_push')
    differing = {key for key in pandas.keys() | ours.keys() if ours.get(key) != pandas.get(key)}
    assert differing - {'calibration'} == {'name', 'description', 'scene', 'robot'}


@pytest.mark.parametrize('name', ROBOTS)
def test_every_shipped_robot_loads_with_its_home_within_limits(name):
    robot = robots.load_robot(name)
    home = dict(zip(robot.joints, robot.home, strict=True))
    for joint, low, high in zip(
        robot.commanded, robot.limits.position.lower, robot.limits.position.upper, strict=True
    ):
        assert low <= home[joint] <= high


def test_a_task_starts_with_the_robot_at_home_and_objects_where_the_scene_has_them(make_task):
    task = make_task('block')
    start = task.start()
    assert start.qpos[task.map.qpos] == [0.0]
    item = task.objects['block']
    assert start.qpos[item.qpos : item.qpos + 3].tolist() == [0.0, 0.0, 0.05]
    start.qpos[:] = 9.0
    assert task.start().qpos[0] == 0.0 and not np.any(task.model.qpos0 == 9.0)


def test_the_physics_step_is_the_plan_step_over_its_substeps(make_task):
    assert make_task('slider').model.opt.timestep == 0.05 / 5


def test_the_error_is_the_length_of_the_success_residual(make_task):
    task = make_task('block')
    data = mujoco.MjData(task.model)
    data.qpos[:] = task.start().qpos
    data.qpos[1:3] = 0.2, 0.4  # the block's x and y: 0.3 and 0.4 from the goal
    mujoco.mj_forward(task.model, data)
    assert task.error(task.model, data) == pytest.approx(0.5, rel=1e-14)


BLOCK_MISTAKES = {
    'unknown object body': (
        ('objects', 'block', 'body'),
        'box',
        "unknown body 'box'.*block, push",
    ),
    'object without free joint': (('objects', 'block', 'body'), 'pusher', 'no free joint'),
    'no topic name': (
        ('objects', 'red-box'),
        {'body': 'block', 'motion': 'free'},
        'objects: red-box: .* no name of a topic',
    ),
    'nobody measures': (('objects',), {}, "joint 'block' of body 'block' is not measured"),
    'unknown scene': (('scene',), 'none.xml', "unknown scene 'none.xml'.*block.xml"),
    'unknown robot': (('robot',), 'pandaa', "unknown robot 'pandaa' .did you mean 'panda'"),
    'missing robot file': (('robot',), 'no.yaml', 'no such file: no.yaml'),
    'unknown truth': (
        ('simulation', 'truth'),
        {'m': {}},
        "truth: not in parameters: unknown parameter 'm'.*mass",
    ),
    'missing truth': (('simulation', 'truth'), {}, "truth: missing parameter 'mass'"),
    'bad prior': (
        ('parameters', 'mass', 'prior', 'sd'),
        -1.0,
        'parameters: mass: prior: sd: foun',
    ),
    'crossed bounds': (('parameters', 'mass', 'lower'), 30.0, 'parameters: mass: lower: found 30'),
    'unphysical': (('parameters', 'mass', 'lower'), None, 'parameters: mass: lower: body_mass'),
    'unknown field': (('parameters', 'mass', 'field'), 'm', 'parameters: mass: field: unknown'),
    'unknown of': (
        ('parameters', 'mass', 'of'),
        'm',
        "unknown body 'm'; available: block, pusher",
    ),
    'noise': (('planner', 'noise_variance'), [1, 2], 'noise_variance: 2 values for 1 controls'),
    'filter': (('planner', 'filter_window'), 7, 'planner: filter_window: 7 steps exceed the hori'),
    'risk': (('planner', 'risk'), 'max', "planner: risk: found 'max', expected one of none, mean"),
    'risk level': (('planner', 'risk_level'), 0.1, 'planner: risk_level: requires risk: cvar'),
    'even filter': (('planner', 'filter_window'), 6, 'planner: filter_window: found 6'),
    'likelihood': (('belief', 'likelihood'), {}, 'belief: likelihood: .*nothing to compare'),
    'changes': (
        ('belief', 'changes'),
        {'of': ['mass', 'mas']},
        "belief: changes: of: unknown parameter 'mas' .did you mean 'mass'",
    ),
    'no changes': (('belief', 'changes'), 'off', "belief: changes: found 'off', .* or none"),
    'success': (('success', 'residual', 'of'), 'body:b', "success: residual: .*unknown body 'b'"),
    'view': (('view',), {'body': 'b', 'distance_m': 1}, "view: body: .*unknown body 'b'"),
    'cost': (('cost', 'reach', 'to'), 'site:b', "cost: reach.*unknown site 'b'.*goal, pusher"),
}


@pytest.mark.parametrize('mistake', BLOCK_MISTAKES)
def test_a_mistake_in_a_task_is_an_error_that_names_the_file_and_the_key(
    write_task, task_data, mistake
):
    place, value, match = BLOCK_MISTAKES[mistake]
    data = task_data('block')
    parent = data
    for name in place[:-1]:
        parent = parent[name]
    parent[place[-1]] = value
    with pytest.raises((ConfigError, SceneError), match=rf'block\.yaml: .*{match}'):
        load_task(str(write_task('block', data)))


def test_a_world_can_be_constant_or_change_in_some_parameters(write_task, task_data):
    data = task_data('block')
    for changes, expected in (('none', None), ({'of': ['mass']}, ChangeConfig(of=('mass',)))):
        data['belief']['changes'] = changes
        assert load_task(str(write_task('block', data))).belief.changes == expected


def test_keys_of_the_file_are_the_fields_of_its_class():
    with pytest.raises(ConfigError, match="unknown key 'planer' .did you mean 'planner'"):
        parse_task(_text({**_yaml('tasks', INSTALLED[0]), 'planer': {}}), 'file')
    assert {'name', 'scene', 'robot', 'cost', 'success', 'planner', 'belief', 'simulation'} <= set(
        TaskFile.__dataclass_fields__
    )
    assert isinstance(load_task(INSTALLED[0]), Task)


def test_a_task_may_name_its_prior_file(write_task, task_data, tmp_path):
    path = write_task('slider', {**task_data('slider'), 'prior': 'known.yaml'})
    with pytest.raises(ConfigError, match=r'slider.yaml.* prior: no such file: known.yaml'):
        load_task(str(path))
    known = tmp_path / 'known.yaml'
    prior_file.write(
        known, PriorFile('test', (), {'mass': ParameterPrior('kg', values=(1.0, 2.0))}, (1.0, 1.0))
    )
    assert load_task(str(path)).prior.file == str(known)
    text = task_text(str(path))  # for nodes, which may run in another folder
    assert config.parse(text, 'x')['prior'] == str(known)
    assert parse_task(text).prior.file == ''  # only the belief reads it


def test_with_prior_leaves_the_task_itself_unchanged(make_task, tmp_path):
    path = tmp_path / 'prior.yaml'
    values = ParameterPrior('kg', values=(1.25, 2.5))
    prior_file.write(path, PriorFile('test', (), {'mass': values}, (3.0, 1.0)))
    task = make_task('slider')
    before = task.prior.sample(5, np.random.default_rng(0))
    assert task.with_prior(str(path)).prior.file == str(path)
    assert np.array_equal(task.prior.sample(5, np.random.default_rng(0)), before)


def test_a_distribution_in_a_prior_file_gives_the_same_draws_as_in_the_task(
    make_task, task_data, tmp_path
):
    prior = {'distribution': 'normal', 'mean': 1.1, 'sd': 0.3}
    path = tmp_path / 'prior.yaml'
    prior_file.write(
        path, PriorFile('test', (), {'mass': ParameterPrior('kg', prior=Prior(**prior))})
    )
    data = task_data('slider')
    data['parameters']['mass']['prior'] = prior
    first, second = (
        task.prior.sample(20, np.random.default_rng(3))
        for task in (make_task('slider').with_prior(str(path)), make_task('slider', data))
    )
    assert np.array_equal(first, second)


DAMPING = {
    'field': 'dof_damping',
    'of': 'x',
    'lower': 0.0,
    'upper': 5.0,
    'prior': {'distribution': 'uniform', 'lower': 0.1, 'upper': 2.0},
}


@pytest.fixture
def damped_robot(robot_data):
    """Return the robot of the cart on a rail, whose damping is uncertain."""
    return {**robot_data('slider'), 'parameters': {'damping': DAMPING}}


def test_a_robots_parameters_follow_those_of_the_task(make_task, damped_robot):
    task = make_task('slider', robot=damped_robot)
    assert [p.name for p in task.parameters] == ['mass', 'damping']
    assert task.truth[1] == task.priors[1]  # drawn from the prior unless the task says otherwise
    loop = ClosedLoop(task, 0, truth={'damping': 0.7})
    loop.run(0.3, stop_at_success=False)
    assert loop.filter.belief.theta.shape == (12, 2)
    assert loop.robot.model.dof_damping.tolist() == [0.7]


def test_a_task_may_have_its_own_entry_and_truth(make_task, task_data, damped_robot):
    data = task_data('slider')
    data['simulation']['truth']['damping'] = {'distribution': 'fixed', 'value': 0.3}
    assert make_task('slider', data, damped_robot).truth[1].value == 0.3
    data['parameters']['damping'] = {**DAMPING, 'upper': 3.0}
    task = make_task('slider', data, damped_robot)
    assert [(p.name, p.upper) for p in task.parameters] == [('mass', 20.0), ('damping', 3.0)]


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'of': 'y'}, "parameters: damping: of: unknown joint 'y'"),
        ({'field': 'damping'}, "robot: parameters: damping: field: unknown field 'damping'"),
        ({'lower': -1.0}, 'robot: parameters: damping: lower: dof_damping is physical only'),
        ({'least': 0.0}, "robot: parameters: damping: unknown key 'least'"),
    ],
)
def test_a_wrong_parameter_of_a_robot_is_named(make_task, damped_robot, change, words):
    damped_robot['parameters'] = {'damping': {**DAMPING, **change}}
    with pytest.raises(EmppiError, match=words):
        make_task('slider', robot=damped_robot)


@pytest.mark.parametrize(
    ('name', 'monitor', 'follows'),
    [
        ('slider', None, True),
        ('two_link', None, False),  # commanded by position
        ('two_link', True, True),
        ('slider', False, False),
    ],
)
def test_simulated_servos_of_position_are_not_expected_to_follow(
    make_task, task_data, robot_data, name, monitor, follows
):
    data, robot = task_data(name), robot_data(name)
    robot['command'] = 'position' if name == 'two_link' else robot['command']
    if monitor is not None:
        data['simulation']['residual_monitor'] = monitor
    assert make_task(name, data, robot).follows_in_simulation is follows

"""What no parameter describes, against closed forms and against scenes written that way."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import ConfigError
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.sim.true_model import nominal_model
from emppi_ros.sim.true_parameters import draw_truth
from emppi_ros.tasks.task import load_task, parse_task, task_text

_FIELDS = (
    'body_mass', 'body_inertia', 'body_ipos', 'body_invweight0', 'geom_size', 'geom_rbound',
    'geom_aabb', 'dof_invweight0', 'bvh_aabb', 'dof_frictionloss',
)  # fmt: skip
FORCE, MASS, DAMPING = 10.0, 2.0, 0.5
GRAVITY, FRICTION = 9.81, 0.4


@pytest.fixture
def make_robot(make_task, task_data):
    """Return a function that simulates a small task with settings of `simulation`."""

    def make(name, truth, parameters=(), **settings):
        data = task_data(name)
        data['simulation'].update(settings)
        for key, entry, value in parameters:
            data['parameters'][key] = entry
            data['simulation']['truth'][key] = {'distribution': 'fixed', 'value': value}
        return SimulatedRobot(make_task(name, data), np.array(truth), 0)

    return make


def test_nothing_differs_by_default():
    task = load_task('panda_push')
    model = nominal_model(task)
    assert model is not task.model and model.opt.timestep == task.simulation.timestep_s
    model.opt.timestep = task.model.opt.timestep
    for name in _FIELDS:
        assert np.array_equal(getattr(model, name), getattr(task.model, name))
    assert np.array_equal(model.opt.gravity, task.model.opt.gravity)


def _accelerations(robot, steps):
    """Return the acceleration and the mean speed of the first joint in each step."""
    robot.command(np.array([FORCE]))
    speeds = [robot.data.qvel[0]]
    for _ in range(steps):
        robot.step()
        speeds.append(robot.data.qvel[0])
    return np.diff(speeds) / 0.001, np.array(speeds[1:])  # the damping is implicit


def test_dry_friction_slows_a_cart_and_holds_it(make_robot):
    robot = make_robot('slider', [MASS], joint_friction={'x': 3.0})
    acceleration, speed = _accelerations(robot, 500)
    moving = slice(100, None)  # the constraint is soft: the friction builds up
    expected = (FORCE - 3.0 - DAMPING * speed) / MASS
    np.testing.assert_allclose(acceleration[moving], expected[moving], rtol=1e-6)
    held = make_robot('slider', [MASS], joint_friction={'x': FORCE + 1.0})
    _accelerations(held, 1000)
    assert held.data.qpos[0] < 0.05 < robot.data.qpos[0]  # it creeps


def test_dry_friction_adds_to_an_uncertain_one(make_robot):
    entry = {
        'field': 'dof_frictionloss', 'of': 'x', 'lower': 0.0, 'upper': 5.0,
        'prior': {'distribution': 'uniform', 'lower': 0.0, 'upper': 2.0},
    }  # fmt: skip
    robot = make_robot(
        'slider', [MASS, 1.0], [('friction', entry, 1.0)], joint_friction={'x': 3.0},
        changes=[{'parameter': 'friction', 'at_s': 0.2, 'to': 2.0}],
    )  # fmt: skip
    assert robot.model.dof_frictionloss.tolist() == [4.0]


def test_dry_friction_stays_when_a_parameter_changes(make_task, task_data):
    data = task_data('slider')
    data['simulation']['joint_friction'] = {'x': 3.0}
    task = make_task('slider', data)
    robot = SimulatedRobot(task, draw_truth(task, 0, {'mass': [(0.0, 1.0), (0.01, 3.0)]}), 0)
    for _ in range(20):
        robot.step()
    assert robot.model.dof_frictionloss.tolist() == [3.0] and robot.truth.tolist() == [3.0]


def test_a_block_slides_down_a_slope(make_robot):
    angle = 0.6  # steeper than the friction allows: tan 0.6 is 0.68
    robot = make_robot('block', [1.0], gravity_tilt_rad=angle)
    assert np.linalg.norm(robot.model.opt.gravity) == pytest.approx(GRAVITY)
    times, speeds = [], []
    for step in range(600):
        robot.step()
        if step >= 200:  # it has settled on the soft contact
            times.append(robot.time)
            speeds.append(robot.data.qvel[1])
    slope = np.polyfit(times, speeds, 1)[0]
    expected = GRAVITY * (np.sin(angle) - FRICTION * np.cos(angle))
    assert slope == pytest.approx(expected, rel=0.02)  # soft contact


def test_a_block_rests_on_a_gentle_slope(make_robot):
    robot = make_robot('block', [1.0], gravity_tilt_rad=-0.2)
    for _ in range(1000):
        robot.step()
    assert abs(robot.data.qpos[1]) < 0.01  # it creeps; on ice it would slide by 1 m
    assert robot.model.opt.gravity[0] < 0.0


def test_another_size_is_that_of_a_scene_with_that_size(make_robot, make_task):
    robot = make_robot('block', [0.4], sizes={'block': 1.2})
    text = make_task('block').scene_file[0].read_text()
    text = text.replace('size="0.05 0.05 0.05"', 'size="0.06 0.06 0.06"')
    expected = mujoco.MjModel.from_xml_string(text.replace('pos="0 0 0.05">', 'pos="0 0 0.06">'))
    for name in _FIELDS:
        np.testing.assert_allclose(
            getattr(robot.model, name), getattr(expected, name), rtol=1e-12, err_msg=name
        )
    assert robot.data.qpos[3] == pytest.approx(0.06)  # it stands on the floor
    expected.opt.timestep = robot.model.opt.timestep
    data = mujoco.MjData(expected)
    data.ctrl[:] = 1.0
    robot.command(np.array([1.0]))
    for _ in range(400):
        robot.step()
        mujoco.mj_step(expected, data)
    assert robot.data.qvel[1] > 0.5  # it is pushed
    np.testing.assert_allclose(robot.data.qpos, data.qpos, atol=1e-8)


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        ({'command_delay_s': -0.1}, 'command_delay_s: found -0.1, expected from 0 to 1'),
        ({'joint_friction': 1.0}, 'joint_friction: found 1.0, expected a mapping of keys'),
        ({'joint_friction': {'push': -1.0}}, 'joint_friction: found .*expected a non-negative'),
        ({'joint_friction': {'pull': 1.0}}, "joint_friction: unknown commanded joint 'pull'"),
        ({'joint_friction': {'push': True}}, 'joint_friction: push: found True, expected a'),
        ({'gravity_tilt_rad': 2.0}, 'gravity_tilt_rad: found 2.0, expected from'),
        ({'sizes': {'blok': 1.1}}, "sizes: unknown free object 'blok' .did you mean 'block'"),
        ({'sizes': {'block': 0.0}}, r'sizes: found .* expected a factor from 0.1 to 10 for each'),
    ],
)
def test_a_wrong_setting_is_an_error(make_task, task_data, settings, message):
    data = task_data('block')
    data['simulation'].update(settings)
    with pytest.raises(ConfigError, match=f'simulation: {message}'):
        make_task('block', data)


def test_an_object_without_geoms_has_no_size():
    text = task_text('fr3_follow').replace('  truth:', '  sizes: {target: 1.1}\n  truth:')
    with pytest.raises(ConfigError, match='simulation: sizes: target: its body needs geoms'):
        parse_task(text)


def test_starts_are_drawn_from_their_ranges_by_the_seed(make_task, task_data):
    data = task_data('block')
    ranges = {'x': [-0.3, 0.3], 'y': [0.1, 0.2], 'yaw': [-1.0, 1.0]}
    data['simulation']['starts'] = {'block': ranges}
    task = make_task('block', data)
    place = task.objects['block'].qpos
    home, truth = task.start().qpos, np.array([0.4])
    robots = [SimulatedRobot(task, truth, seed) for seed in range(20)]
    starts = np.array([(robot.data.qpos - home)[place : place + 7] for robot in robots])
    assert np.all(np.abs(starts[:, 0]) <= 0.3) and np.std(starts[:, 0]) > 0.1
    assert np.all((0.1 <= starts[:, 1]) & (starts[:, 1] <= 0.2)) and np.all(starts[:, 2] == 0.0)
    robot = robots[3]
    before = robot.data.qpos.copy()
    for _ in range(10):
        robot.step()
    robot.reset()
    np.testing.assert_array_equal(robot.data.qpos, before)


@pytest.mark.parametrize(
    ('starts', 'match'),
    [
        ({'blok': {}}, "starts: unknown object 'blok' .did you mean 'block'"),
        ({'block': {'joint': [0.0, 0.1]}}, 'starts: block: joint: it is free'),
        ({'block': {'x': [0.2, 0.1]}}, 'x: found .* expected two numbers, the smaller first'),
    ],
)
def test_a_start_that_cannot_be_drawn_is_an_error(make_task, task_data, starts, match):
    data = task_data('block')
    data['simulation']['starts'] = starts
    with pytest.raises(ConfigError, match=match):
        make_task('block', data)

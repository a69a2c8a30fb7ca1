"""The simulated robot: repeatable, with specified noise and delays, and hidden parameters."""

from dataclasses import replace
import itertools

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import ParameterError
from emppi_ros.identification.rigid_body import arm
from emppi_ros.model.parameters import with_parameters
from emppi_ros.sim.simulated_robot import SimulatedRobot, move_to_free_space
from emppi_ros.sim.true_parameters import TrueParameters, draw_truth
from emppi_ros.tasks.schema import ParameterChange
from emppi_ros.tasks.task import load_task


@pytest.fixture
def task(make_task):
    return make_task('block')


def _simulation(task_data, make_task, **keys):
    data = task_data('block')
    data['simulation'].update(keys)
    return make_task('block', data)


def _run(robot, steps, command=0.5):
    """Return joint readings of every 4th step and all pose readings with their arrival."""
    joints, poses = [], []
    robot.command(np.array([command]))
    for step in range(steps):
        if step % 4 == 0:
            joints.append(robot.read_joints())
        poses += [(robot.time, reading) for reading in robot.read_poses()]
        robot.step()
    return joints, poses


def _bits(joints, poses):
    rows = [np.concatenate([[r.stamp], r.position, r.velocity]) for r in joints]
    rows += [np.concatenate([[t, r.stamp], r.pose.position, r.pose.quaternion]) for t, r in poses]
    return np.concatenate(rows).tobytes()


def test_one_seed_gives_the_same_bits_and_another_does_not(task):
    truth = draw_truth(task, 3)
    runs = [_bits(*_run(SimulatedRobot(task, truth, seed), 300)) for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def test_a_reset_starts_again_with_the_same_bits(task):
    robot = SimulatedRobot(task, draw_truth(task, 3), 3)
    first = _bits(*_run(robot, 300))
    robot.reset()
    assert robot.time == 0.0 and robot.read_poses() == []
    robot.reset()
    assert _bits(*_run(robot, 300)) == first


def test_without_noise_the_robot_is_a_loop_of_mj_step(task_data, make_task):
    noises = ('joint_position_noise_sd', 'joint_velocity_noise_sd')
    task = _simulation(task_data, make_task, **dict.fromkeys(noises, 0.0))
    truth = np.array([1.3])
    robot = SimulatedRobot(task, truth, 0)
    joints, _ = _run(robot, 400, command=1.0)
    model = with_parameters(task.model, task.parameters, truth)
    model.opt.timestep = 0.001
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = task.start()
    mujoco.mj_forward(model, data)
    data.ctrl[:] = 1.0
    for step in range(400):
        if step % 4 == 0:
            assert joints[step // 4].position[0] == data.qpos[0]
            assert joints[step // 4].velocity[0] == data.qvel[0]
            assert joints[step // 4].stamp == pytest.approx(data.time, abs=1e-9)  # a sum of 1e-3
        mujoco.mj_step(model, data)
    assert np.array_equal(robot.data.qpos, data.qpos)


def _quiet(name):
    task = load_task(name)
    noises = ('joint_position_noise_sd', 'joint_velocity_noise_sd', 'joint_effort_noise_sd')
    task.simulation = replace(task.simulation, **dict.fromkeys(noises, 0.0))
    return task


@pytest.mark.parametrize('name', ['fr3_follow', 'fr3_pickup'])
def test_efforts_are_the_torques_that_links_need(name):
    """Held against inverse dynamics with gravity and without rotors; servos, and torques."""
    task = _quiet(name)
    robot = SimulatedRobot(task, draw_truth(task, 1), 1)
    seen = []
    for _ in range(600):
        robot.command(0.5 * np.sin(10.0 * robot.time + np.arange(len(task.robot.joints))))
        robot.step()
        seen.append(robot.read_joints())
    model, dofs = robot.model, task.map.qvel
    rotor = model.dof_armature[dofs].min()
    model.dof_armature[:], model.body_gravcomp[:] = 0.0, 0.0
    data = mujoco.MjData(model)
    state = np.zeros((3, model.nv))
    place = data.qpos.copy()
    off, fastest = 0.0, 0.0
    for before, now in itertools.pairwise(seen[200:]):  # servos have settled
        place[task.map.qpos], state[1, dofs] = now.position, now.velocity
        state[2, dofs] = (now.velocity - before.velocity) / task.simulation.timestep_s
        needed = arm.motion_torques(model, (place[None], *state[1:, None]))[0, dofs]
        off = max(off, np.abs(now.effort - needed).max())
        fastest = max(fastest, np.abs(state[2, dofs]).max())
    # half a step late at 10 rad/s: 0.5 % of what changes; rotors of 0.1 kg m^2 would show
    assert off < 0.1 * rotor * fastest


def test_a_joint_that_nothing_drives_has_no_effort():
    task = load_task('cartpole_swingup')
    effort = SimulatedRobot(task, draw_truth(task, 0), 0).read_joints().effort
    driven = [name in task.robot.commanded for name in task.robot.joints]
    assert np.isfinite(effort).tolist() == driven != [True, True]


def test_noise_has_the_size_it_says(task):
    robot = SimulatedRobot(task, draw_truth(task, 0), 0)
    count = 2000
    readings = [robot.read_joints() for _ in range(count)]
    # a standard deviation of n draws errs by 1 / sqrt(2 n), a mean by 1 / sqrt(n); four of each
    error = 4.0 / np.sqrt(count)
    for values, sd in (
        ([r.position[0] for r in readings], 1e-4),
        ([r.velocity[0] for r in readings], 1e-3),
        ([r.effort[0] for r in readings], 0.05),
    ):
        assert abs(np.mean(values)) < error * sd
        assert abs(np.std(values) / sd - 1.0) < error / np.sqrt(2.0)
    poses = [robot._measure_pose('block').pose for _ in range(count)]
    shifts = np.array([p.position for p in poses]) - robot.data.qpos[1:4]
    turns = Rotation.from_quat(np.array([p.quaternion[[1, 2, 3, 0]] for p in poses])).as_rotvec()
    for values, sd in ((shifts, 0.002), (turns, 0.0175)):
        assert np.all(np.abs(values.mean(axis=0)) < error * sd)
        assert np.all(np.abs(values.std(axis=0) / sd - 1.0) < error / np.sqrt(2.0))


@pytest.mark.parametrize(
    ('rate', 'delay'), [(50.0, 0.03), (30.0, 0.0), (60.0, 0.1), (100, 0.0305)]
)
def test_poses_come_at_their_rate_and_after_their_delay(task_data, make_task, rate, delay):
    task = _simulation(task_data, make_task, tracking_rate_hz=rate, tracking_delay_s=delay)
    robot = SimulatedRobot(task, draw_truth(task, 0), 0)
    _, poses = _run(robot, 2001)
    stamps = np.array([reading.stamp for _, reading in poses])
    late = np.array([arrival for arrival, _ in poses]) - stamps
    assert abs(len(poses) - (2.0 - delay) * rate) <= 2
    # stamps and arrivals fall on the 1 ms grid of the physics
    assert np.all(np.abs(np.diff(stamps) - 1.0 / rate) < 0.001 + 1e-9)
    assert np.all((late >= delay - 1e-9) & (late < delay + 0.001 + 1e-9))


def test_a_share_of_the_poses_is_lost_and_the_others_are_the_same(task_data, make_task):
    runs = []
    for share in (0.0, 0.3, 1.0):
        task = _simulation(task_data, make_task, tracking_rate_hz=500.0, tracking_dropout=share)
        robot = SimulatedRobot(task, draw_truth(task, 0), 0)
        runs.append({one.stamp: one.pose.position for _, one in _run(robot, 2001)[1]})
    whole, some, none = runs
    assert not none
    # five standard deviations of a binomial count
    assert abs(len(some) - 0.7 * len(whole)) < 5.0 * np.sqrt(0.3 * 0.7 * len(whole))
    assert all(np.array_equal(whole[stamp], position) for stamp, position in some.items())


def test_given_truth_is_respected_and_the_rest_is_drawn_as_before(make_task, task_data):
    data = task_data('block')
    data['parameters']['friction'] = {
        'field': 'geom_friction',
        'of': 'block',
        'lower': 0.01,
        'upper': 2.0,
        'prior': {'distribution': 'uniform', 'lower': 0.1, 'upper': 1.0},
    }
    data['simulation']['truth']['friction'] = {
        'distribution': 'uniform',
        'lower': 0.2,
        'upper': 0.9,
    }
    task = make_task('block', data)
    drawn = draw_truth(task, 7).initial
    assert np.array_equal(drawn, draw_truth(task, 7).initial)
    assert not np.array_equal(drawn, draw_truth(task, 8).initial)
    given = draw_truth(task, 7, {'mass': 0.77})
    assert given.initial.tolist() == [0.77, drawn[1]]
    robot = SimulatedRobot(task, given, 7)
    assert robot.model.body('block').mass[0] == 0.77
    assert robot.model.geom('block').friction[0] == drawn[1]


def test_truth_of_unknown_name_or_impossible_value_is_an_error(task):
    with pytest.raises(ParameterError, match="unknown parameter 'mas' .did you mean 'mass'"):
        draw_truth(task, 0, {'mas': 1.0})
    for value in (-1.0, 0.0, np.nan, 21.0):
        with pytest.raises(ParameterError, match='mass: .* is not within'):
            SimulatedRobot(task, draw_truth(task, 0, {'mass': value}), 0)


def _state(robot):
    return np.concatenate([robot.data.qpos, robot.data.qvel])


def test_a_changed_mass_moves_as_a_model_compiled_with_it(make_task):
    """From the step at 0.2 s on, and not before."""
    task = make_task('block')
    truth = draw_truth(task, 0, {'mass': [(0.0, 0.8), (0.2, 2.6)]})
    changing, constant = SimulatedRobot(task, truth, 0), SimulatedRobot(task, np.array([0.8]), 0)
    for robot in (changing, constant):
        robot.command(np.array([1.5]))
    for _ in range(200):
        assert changing.truth.tolist() == [0.8]
        changing.step()
        constant.step()
    assert np.array_equal(_state(changing), _state(constant))
    assert changing.data.ncon > 0 and changing.data.qvel[1] > 0.1  # it pushes the block
    model = with_parameters(task.model, task.parameters, np.array([2.6]))
    model.opt.timestep = task.simulation.timestep_s
    for _ in range(300):
        mujoco.mj_step(model, constant.data)
        changing.step()
        assert changing.truth.tolist() == [2.6]
        assert np.array_equal(_state(changing), _state(constant))
    assert changing.model.body('block').mass[0] == 2.6


def test_a_change_begins_once_its_condition_has_held(task_data, make_task):
    """The second waits for the first, though it would hold before; a reset starts again."""
    data = task_data('slider')
    near = {'residual': {'residual': 'joint_position', 'joints': ['x'], 'targets': [0.1]}}
    mass = {'parameter': 'mass', 'when': {**near, 'below': 0.05, 'hold_s': 0.02}}
    data['simulation']['changes_when'] = [
        {**mass, 'to': {'distribution': 'fixed', 'value': value}} for value in (3.0, 0.7)
    ]
    task = make_task('slider', data)
    robot = SimulatedRobot(task, draw_truth(task, 0), 0)
    start = robot.truth.tolist()
    for _ in range(2):
        assert robot.truth.tolist() == start
        values, entered = [], None
        while robot.data.qpos[0] < 0.1:
            robot.command(np.array([2.0]))
            if entered is None and robot.data.qpos[0] > 0.05:
                entered = robot.time
            robot.step()
            values.append((robot.time, robot.truth[0]))
        changed = [time for time, value in values if value != start[0]]
        # the residual is that of the step before: one step of 1 ms late, and one to the end of it
        assert changed[0] == pytest.approx(entered + 0.02 + 0.002, abs=0.001 + 1e-9)
        assert {value for time, value in values if time < changed[0]} == {start[0]}
        seen = [value for _, value in values]
        assert seen == sorted(seen, key=[start[0], 3.0, 0.7].index)
        assert robot.truth.tolist() == [0.7] and robot.schedule.pending == ()
        robot.reset()


def test_a_cart_whose_mass_grows_accelerates_less(make_task):
    """A ramp from 1 to 3 kg, for 10 N: its rate of change is constant."""
    task = make_task('slider')
    task.simulation = replace(task.simulation, changes=(ParameterChange('mass', 0.1, 3.0, 0.2),))
    robot = SimulatedRobot(task, TrueParameters(np.array([1.0]), {0: task.simulation.changes}), 0)
    robot.command(np.array([10.0]))
    masses = []
    for _ in range(400):
        time, speed = robot.time, robot.data.qvel[0]
        robot.step()
        masses.append(robot.truth[0])
        # values of a ramp are up to 10 ms old
        assert masses[-1] == pytest.approx(np.interp(time, [0.1, 0.3], [1.0, 3.0]), abs=0.1 + 1e-9)
        acceleration = (robot.data.qvel[0] - speed) / 0.001
        # the damping of 0.5 N s/m is implicit
        assert acceleration == pytest.approx((10.0 - 0.5 * robot.data.qvel[0]) / masses[-1])
    assert masses[:101] == [1.0] * 101 and masses[300:] == [3.0] * 100
    assert len(set(masses)) == 21  # every 10 ms


def test_a_delay_of_commands_shifts_the_response(task_data, make_task):
    """By exactly the delay; position, velocity and effort robots."""
    for name in ('two_link', 'block', 'slider'):
        task, data = make_task(name), task_data(name)
        data['simulation']['command_delay_s'] = 0.02
        truth = draw_truth(task, 0)
        late = SimulatedRobot(make_task(name, data), truth, 0)
        prompt = SimulatedRobot(task, truth, 0)
        start, sent, fastest = late.data.ctrl.copy(), {}, 0.0
        for step in range(200):
            if step % 4 == 0:
                sent[step] = np.sin(0.1 * step + np.arange(late.model.nu))
                late.command(sent[step])
            if step - 20 in sent:
                prompt.command(sent[step - 20])
            late.step()
            prompt.step()
            assert np.array_equal(_state(late), _state(prompt))
            assert step >= 20 or np.array_equal(late.data.ctrl, start)
            fastest = max(fastest, np.abs(late.data.qvel).max())
        assert fastest > 0.005
        late.command(np.full(late.model.nu, 3.0))
        late.reset()
        for _ in range(50):
            late.step()
        assert np.array_equal(late.data.ctrl, start)  # nothing is left of what was sent before


def test_a_reset_restores_the_initial_truth(make_task):
    task = make_task('block')
    robot = SimulatedRobot(task, draw_truth(task, 3, {'mass': [(0.0, 0.8), (0.1, 2.6)]}), 3)
    first = _bits(*_run(robot, 300))
    assert robot.truth.tolist() == [2.6]
    robot.reset()
    assert robot.truth.tolist() == [0.8] == robot.model.body('block').mass.tolist()
    assert _bits(*_run(robot, 300)) == first


def test_the_task_never_learns_the_truth(task):
    before = task.model.body_mass.copy(), task.model.opt.timestep
    robot = SimulatedRobot(task, np.array([2.5]), 0)
    _run(robot, 50)
    assert robot.model is not task.model
    assert np.array_equal(task.model.body_mass, before[0])
    assert task.model.opt.timestep == before[1]


def test_a_position_robot_starts_by_holding_its_home(make_task):
    task = make_task('two_link')
    robot = SimulatedRobot(task, draw_truth(task, 0), 0)
    assert robot.data.ctrl.tolist() == [0.3, -0.2] == robot.data.qpos.tolist()


def test_a_robot_stands_in_the_scene_of_another_task_where_it_stood():
    push, tip = load_task('panda_push'), load_task('panda_reconfigure')
    one = SimulatedRobot(push, draw_truth(push, 0), 0)
    one.command(np.full(7, 0.3))
    for _ in range(200):
        one.step()
    other = SimulatedRobot(tip, draw_truth(tip, 0), 0)
    other.copy_joint_positions(one)
    assert np.array_equal(other.commanded_position, one.commanded_position)
    assert not np.array_equal(other.commanded_position, np.array(tip.robot.home))
    assert not np.any(other.data.qvel) and not np.any(other.data.ctrl)
    place = tip.objects['block'].qpos
    assert np.array_equal(other.data.qpos[place : place + 7], tip.start().qpos[place : place + 7])


def _scene(name):
    task = load_task(name)
    robot = SimulatedRobot(task, draw_truth(task, 0), 0)
    return task, robot, task.objects['block']


@pytest.mark.parametrize('name', ['panda_push', 'panda_reconfigure'])
def test_an_object_in_free_space_stays(name):
    _, robot, item = _scene(name)
    before = robot.data.qpos.copy()
    move_to_free_space(robot.model, robot.data, item)
    assert np.array_equal(robot.data.qpos, before)


@pytest.mark.parametrize('name', ['panda_push', 'panda_reconfigure'])
def test_an_object_that_overlaps_with_the_arm_moves_aside_and_the_arm_stays(name):
    task, robot, item = _scene(name)
    tool = robot.data.site('gripper').xpos.copy()
    robot.data.qpos[item.qpos : item.qpos + 3] = tool
    mujoco.mj_forward(robot.model, robot.data)
    arm = robot.data.qpos[task.map.qpos].copy()
    move_to_free_space(robot.model, robot.data, item)
    moved = robot.data.qpos[item.qpos : item.qpos + 3] - tool
    assert moved[2] == 0.0 and 0.0 < np.linalg.norm(moved) <= 0.4 + 1e-9  # rounding
    for _ in range(100):
        robot.step()
    # servos sag by far less than 0.02 rad in 0.1 s; an overlap throws the arm by more
    np.testing.assert_allclose(robot.data.qpos[task.map.qpos], arm, atol=0.02)


def test_a_parameter_delays_commands_as_the_setting_does(task_data, make_task):
    """To the bit, also where a delay is not a multiple of the physics step."""
    data, other = task_data('slider'), task_data('slider')
    data['parameters']['delay'] = {
        'field': 'command_delay', 'lower': 0.0, 'upper': 0.1,
        'prior': {'distribution': 'uniform', 'lower': 0.0, 'upper': 0.05},
    }  # fmt: skip
    data['simulation']['truth']['delay'] = {'distribution': 'fixed', 'value': 0.0123}
    other['simulation']['command_delay_s'] = 0.0123
    runs = []
    for given, truth in ((data, [1.0, 0.0123]), (other, [1.0])):
        robot = SimulatedRobot(make_task('slider', given), np.array(truth), 0)
        for step in range(100):
            if step % 4 == 0:
                robot.command(np.array([np.sin(0.1 * step)]))
            robot.step()
        runs.append(_state(robot))
    assert np.array_equal(*runs)


def test_a_command_counts_for_its_share_of_the_step_in_which_it_takes_effect(task_data, make_task):
    """The cart is linear, so that its state is linear in the delay between two steps."""
    states = []
    for delay in (0.012, 0.0123, 0.013):
        data = task_data('slider')
        data['simulation']['command_delay_s'] = delay
        robot = SimulatedRobot(make_task('slider', data), np.array([1.0]), 0)
        for step in range(100):
            if step % 4 == 0:
                robot.command(np.array([np.sin(0.1 * step)]))
            robot.step()
        states.append(np.concatenate([robot.data.qpos, robot.data.qvel]))
    assert np.abs(states[2] - states[0]).max() > 1e-4
    # rounding of 100 steps of numbers below 1
    np.testing.assert_allclose(states[1], 0.7 * states[0] + 0.3 * states[2], rtol=0, atol=1e-13)

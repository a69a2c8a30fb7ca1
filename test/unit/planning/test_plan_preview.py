"""Previews follow MuJoCo's own steps, and do not change the plan."""

import command_series
import mujoco
import numpy as np
import pytest

from emppi_ros.model import scene
from emppi_ros.model.ensemble import State
from emppi_ros.model.parameters import with_parameters
from emppi_ros.planning import interpolation
from emppi_ros.planning.plan_preview import PlanPreview, TracePoint, trace_point
from emppi_ros.planning.planner import Planner
from emppi_ros.priors import particles
from emppi_ros.priors.particles import Belief
from emppi_ros.robots.plan import Plan
from emppi_ros.tasks.task import load_task

THETA = np.array([[0.3], [0.6], [1.2]])
TIPS = 'site_xpos'


def resting(task):
    home = np.array(task.robot.home)
    return command_series.held(home)


def planned(task, point, cycles=3):
    planner = Planner(task, np.random.default_rng(4))
    planner.set_belief(particles.uniform(THETA))
    planner.trace_point = point
    for i in range(cycles):
        made = planner.plan_from(task.start(), 0.05 * i, 0.05 * (i + 1), resting(task))
    return planner, *made


def path(task, theta, state, controls, field, index):
    """Return the positions of a point before each plain `mj_step`, (steps + 1, 3)."""
    model = with_parameters(task.model, task.parameters, theta)
    data, found = mujoco.MjData(model), []
    data.qpos[:], data.qvel[:] = state
    for control in controls:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        found.append(getattr(data, field)[index].copy())  # of before this step
    return np.array(found)


def test_keeping_candidates_changes_no_bit_of_a_plan(make_task):
    task = make_task('two_link')
    other = TracePoint('xipos', 2)  # which the cost does not record
    plans = [planned(task, point)[1] for point in (None, trace_point(task), other)]
    for plan in plans[1:]:
        assert plan.values.tobytes() == plans[0].values.tobytes()


def test_candidates_are_kept_only_with_a_trace_point(make_task):
    task = make_task('two_link')
    assert planned(task, None)[0].candidates is None
    planner, _, info = planned(task, trace_point(task))
    assert planner.candidates.traces.shape == (3, 4, 7, 3)
    np.testing.assert_array_equal(planner.candidates.costs, info.costs)
    planner.trace_point = None
    planner.plan_from(task.start(), 0.2, 0.25, resting(task))
    assert planner.candidates is None


@pytest.mark.parametrize('point', [None, TracePoint('xipos', 2)])
def test_traces_of_candidates_match_mujoco(make_task, point):
    task = make_task('two_link')
    point = point or trace_point(task)
    assert point.field in (TIPS, 'xipos')
    planner, _, info = planned(task, point, cycles=1)
    config = task.planner
    for m, k in np.ndindex(3, 4):
        home = np.array(task.robot.home)
        fine = interpolation.upsample(
            info.controls[m, k], home, config.substeps, config.interpolation
        )
        # what is in force until the plan starts: one period in physics steps of its own
        before = np.tile(home, (round(0.05 / task.model.opt.timestep), 1))
        positions = path(task, THETA[m], task.start(), [*before, *fine], *point)
        expected = positions[len(before) :: config.substeps]
        # the same physics, in other sums: rounding of positions of 1 m, grown over 35 steps
        np.testing.assert_allclose(planner.candidates.traces[m, k], expected, atol=1e-9)


@pytest.mark.parametrize(
    ('name', 'field', 'kind', 'of'),
    [
        ('panda_push', 'site_xpos', 'site', 'gripper'),
        ('panda_drawer', 'site_xpos', 'site', 'gripper'),
        ('cartpole_swingup', 'xipos', 'body', 'pole'),
    ],
)
def test_the_trace_point_is_the_hand_or_else_the_last_link(name, field, kind, of):
    task = load_task(name)
    point = trace_point(task)
    assert point.field == field and scene.names(task.model, kind)[point.row] == of


def test_the_rollouts_of_a_plan_match_mujoco(make_task):
    task = make_task('two_link')
    preview, config = PlanPreview(task), task.planner
    plan = Plan(0.1, np.array([0.0, 0.2, 0.4]), np.array([[0.3, -0.2], [0.8, 0.1], [0.1, 0.5]]))
    state = State(np.array([0.2, -0.4]), np.array([0.5, 0.1]))
    rollouts = preview.predict(particles.uniform(THETA), state, 0.07, plan, {})
    dt = config.step_s / config.substeps
    steps = config.horizon * config.substeps + 1
    fine = [plan.at(0.07 + (i + 0.5) * dt) for i in range(steps)]
    for m in range(3):
        positions = path(task, THETA[m], state, fine, *trace_point(task))
        np.testing.assert_allclose(
            rollouts.points[m], positions[:: config.substeps], atol=1e-9
        )  # as above
    assert rollouts.objects.shape == (3, 0, config.horizon + 1, 3)
    np.testing.assert_allclose(rollouts.weights, 1.0 / 3.0)


def test_objects_move_in_each_model_as_in_mujoco(make_task):
    task = make_task('block')
    rest = Plan(0.0, np.array([0.0, 1.0]), np.zeros((2, 1)))
    start = task.start()
    start.qvel[task.objects['block'].qvel] = 0.5  # it slides, and friction stops it
    rollouts = PlanPreview(task).predict(particles.uniform(THETA), start, 0.0, rest, {})
    body = scene.find(task.model, 'body', 'block')
    controls = np.zeros((task.planner.horizon * task.planner.substeps + 1, 1))
    for m in range(3):
        positions = path(task, THETA[m], start, controls, 'xipos', body)
        expected = positions[:: task.planner.substeps]
        np.testing.assert_allclose(rollouts.objects[m, 0], expected, atol=1e-9)  # as above
    assert rollouts.objects[0, 0, -1, 0] > 0.01


def test_the_cost_of_a_plan_matches_mujoco(make_task):
    task = make_task('two_link')
    cost, config = task.stages[0].cost, task.planner
    plan = Plan(0.1, np.array([0.0, 0.2, 0.4]), np.array([[0.3, -0.2], [0.8, 0.1], [0.1, 0.5]]))
    state = State(np.array([0.2, -0.4]), np.array([0.5, 0.1]))
    belief = Belief(THETA, np.log([0.5, 0.2, 0.3]))
    found = PlanPreview(task).predict(belief, state, 0.07, plan, {}, cost).cost
    dt = config.step_s / config.substeps
    steps = config.horizon * config.substeps + 1
    fine = [plan.at(0.07 + (i + 0.5) * dt) for i in range(steps)]
    goal, expected = np.array([0.3, 0.0, 0.6]), 0.0
    for m, share in enumerate((0.5, 0.2, 0.3)):
        positions = path(task, THETA[m], state, fine, *trace_point(task))[:: config.substeps]
        expected += share * np.linalg.norm(positions[:-1] - goal, axis=1).sum()
    assert list(found.terms) == ['reach'] and found.diverged == 0.0
    assert found.terms['reach'] == pytest.approx(expected, abs=1e-8)  # as above, six of them


def test_models_that_diverge_do_not_count_in_a_plans_cost(make_task, monkeypatch):
    task = make_task('two_link')
    preview, cost = PlanPreview(task), task.stages[0].cost
    plan = Plan(0.0, np.array([0.0, 0.4]), np.array([[0.3, -0.2], [0.1, 0.5]]))
    belief = Belief(THETA, np.log([0.5, 0.2, 0.3]))
    alone = Belief(THETA[[0, 0, 2]], np.log([0.5, 1e-300, 0.3]) - np.log(0.8))
    expected = preview.predict(alone, task.start(), 0.0, plan, {}, cost).cost
    rollout = preview.ensemble.rollout

    def broken(*arguments):
        records = rollout(*arguments)
        records.diverged[diverged] = True
        return records

    monkeypatch.setattr(preview.ensemble, 'rollout', broken)
    diverged = [1]
    found = preview.predict(belief, task.start(), 0.0, plan, {}, cost).cost
    assert found.diverged == pytest.approx(0.2)
    assert found.terms['reach'] == pytest.approx(expected.terms['reach'], rel=1e-12)  # rounding
    diverged = [0, 1, 2]
    found = preview.predict(belief, task.start(), 0.0, plan, {}, cost).cost
    assert found.diverged == 1.0 and np.isnan(found.terms['reach'])

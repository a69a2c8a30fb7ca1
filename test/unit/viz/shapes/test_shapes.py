"""Shapes match the belief: axes are MuJoCo's, areas of bars are weights."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.belief.changes import DetectedChange
from emppi_ros.model import scene
from emppi_ros.model.parameters import with_parameters
from emppi_ros.planning.plan_preview import Candidates
from emppi_ros.priors import distributions
from emppi_ros.priors.particles import Belief, uniform
from emppi_ros.robots.plan import Plan
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.task import load_task
from emppi_ros.viz import palette
from emppi_ros.viz.shapes import histograms, joint_axes, objects, rollouts, scene_extent
from emppi_ros.viz.shapes.joint_axes import MIN_SHARE, kind_names, uncertain_objects
from emppi_ros.viz.shapes.shapes import Label, Lines, Spheres, Triangles
from emppi_ros.viz.shapes.task_shapes import SHOWN_S, DisplayState, TaskShapes


@pytest.fixture(scope='module')
def drawer():
    return load_task('panda_drawer')


@pytest.fixture(scope='module')
def push():
    return load_task('panda_push')


def believed(task, rng, count=20, uneven=True):
    theta = distributions.sample(task.parameters, task.priors, count, rng)
    if not uneven:
        return uniform(theta)
    return Belief(theta, np.log(rng.dirichlet(np.ones(count))))


def shown(function, task, belief):
    data = scene.kinematics(task.model, task.start().qpos)
    return function(task, scene_extent.scene_extent(task), data, belief)


def layer(shapes, name):
    (found,) = [shape for shape in shapes if shape.name == name]
    return found


def areas(triangles):
    a, b, c = np.moveaxis(triangles, 1, 0)
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)


def test_axes_lie_where_mujoco_has_them(drawer, rng):
    belief = believed(drawer, rng, uneven=False)
    lines = layer(shown(joint_axes.shapes, drawer, belief), 'axes')
    pivots = layer(shown(joint_axes.shapes, drawer, belief), 'pivots').centres
    ((_, item),) = uncertain_objects(drawer)
    hinges = []
    for theta, (a, b), color in zip(belief.theta, lines.ends, lines.colors, strict=True):
        model = with_parameters(drawer.model, drawer.parameters, theta)
        data = mujoco.MjData(model)
        data.qpos[:] = drawer.start().qpos
        mujoco.mj_kinematics(model, data)
        hinge = model.jnt_type[item.joint] == mujoco.mjtJoint.mjJNT_HINGE.value
        place = data.xanchor[item.joint] if hinge else data.xpos[item.body]
        # rounding of positions of 1 m
        np.testing.assert_allclose(0.5 * (a + b), place, atol=1e-12)
        np.testing.assert_allclose(np.cross(b - a, data.xaxis[item.joint]), 0.0, atol=1e-12)
        assert tuple(color[:3]) == palette.JOINT_KINDS[int(hinge)]
        hinges += [data.xanchor[item.joint].copy()] if hinge else []
    assert 0 < len(hinges) < len(lines.ends)
    np.testing.assert_allclose(pivots, hinges, atol=1e-12)


def test_the_opacity_of_an_axis_is_its_relative_weight(drawer, rng):
    belief = believed(drawer, rng)
    shares = np.exp(belief.log_weights - belief.log_weights.max())
    found = layer(shown(joint_axes.shapes, drawer, belief), 'axes').colors[:, 3]
    np.testing.assert_array_equal(found, shares[shares >= MIN_SHARE])


def test_the_kinds_of_a_joint_have_names(make_task, drawer):
    ((joint, _),) = uncertain_objects(drawer)
    assert kind_names(drawer, joint) == ['slide', 'hinge']
    assert uncertain_objects(make_task('slider')) == []


def test_areas_of_bars_are_weights(push, rng):
    belief = believed(push, rng, count=300)
    found = areas(layer(shown(histograms.shapes, push, belief), 'bars').corners)
    found = found.reshape(2, histograms.BINS, 2).sum(axis=2)  # of 2 parameters
    low, high = push.prior.range
    for column, bars in enumerate(found):
        values = belief.theta[:, column]
        first, last = min(low[column], values.min()), max(high[column], values.max())
        edges = np.linspace(first, last, histograms.BINS + 1)
        place = np.clip(np.searchsorted(edges, values, side='right') - 1, 0, histograms.BINS - 1)
        weights = np.bincount(place, np.exp(belief.log_weights), histograms.BINS)
        # of numbers of 1, by sums of 300
        np.testing.assert_allclose(bars / bars.sum(), weights, atol=1e-12)
    assert found[0].sum() == pytest.approx(found[1].sum(), rel=1e-12)  # all weights sum to 1


def test_bars_stay_on_their_sheet_however_certain_the_belief(push, rng):
    wide = believed(push, rng, count=300)
    certain = wide._replace(theta=np.tile(wide.theta.mean(axis=0), (300, 1)))
    for belief in (wide, certain):
        made = shown(histograms.shapes, push, belief)
        bars, sheet = (layer(made, name).corners[..., 2] for name in ('bars', 'panel'))
        assert sheet.min() < bars.min() and bars.max() < sheet.max()


def test_labels_say_name_unit_mean_and_interval(push):
    theta = np.column_stack([np.linspace(0.1, 0.3, 101), np.full(101, 0.5)])
    belief = uniform(theta)
    texts = [s.text for s in shown(histograms.shapes, push, belief) if isinstance(s, Label)]
    assert texts == ['block_mass\n0.2 kg\n[0.11, 0.29]', 'block_friction\n0.5\n[0.5, 0.5]']


def test_components_of_an_axis_have_no_histogram(drawer, push, rng):
    assert histograms.scalar_columns(drawer) == []
    assert histograms.scalar_columns(push) == [0, 1]
    assert shown(histograms.shapes, drawer, believed(drawer, rng)) == []
    assert shown(joint_axes.shapes, push, believed(push, rng)) == []


@pytest.mark.parametrize('name', ['panda_push', 'panda_drawer', 'cartpole_swingup'])
def test_the_same_layers_are_shown_at_all_times(name, rng):
    task = load_task(name)
    scenes = []
    for count, uneven in ((40, True), (1, False), (7, True)):
        belief = believed(task, rng, count, uneven)
        data = scene.kinematics(task.model, task.start().qpos)
        found = objects.shapes(task, scene_extent.scene_extent(task), data)
        for function in (joint_axes.shapes, histograms.shapes):
            found += shown(function, task, belief)
        scenes.append([(type(shape), shape.name) for shape in found])
    assert scenes[0] == scenes[1] == scenes[2]


def test_rollouts_have_the_same_layers_with_and_without_a_plan(push, rng):
    belief, start = believed(push, rng), push.start()
    rest = Plan(0.0, np.array([0.0, 1.0]), np.zeros((2, 7)))
    some = Candidates(rng.normal(size=(2, 3, 4, 3)), np.ones((2, 3)))
    known = [
        DisplayState(0.0, start, {}, belief, plan, candidates)
        for plan in (None, rest)
        for candidates in (None, some)
    ]
    drawing = TaskShapes(push)
    found = [[shape.name for shape in drawing.rollouts(seen)] for seen in known]
    assert found == [['rollouts', 'diverged', 'plan', 'object paths', 'object spread']] * 4
    counts = [[len(shape[1]) > 0 for shape in drawing.rollouts(seen)] for seen in known]
    assert counts == [
        [one, False, plan, plan, plan] for plan in (False, True) for one in (False, True)
    ]


def test_a_change_is_shown_in_words_for_some_seconds(push, rng):
    belief, start, drawing = believed(push, rng), push.start(), TaskShapes(push)
    mass = float(np.exp(belief.log_weights) @ belief.theta[:, 0])
    detected = (
        DetectedChange(3.0, 'block_mass', 0.125, 0.3),
        DetectedChange(4.0, 'of another task', 1.0, 2.0),
    )

    def text(stamp, seen):
        found = drawing.belief(DisplayState(stamp, start, {}, belief, changes=seen))
        (one,) = [shape for shape in found if shape.name == 'changes']
        return one.text

    expected = f'block_mass changed:\n0.125 to {mass:.3g} kg'
    last = 3.0 + SHOWN_S
    assert [text(at, detected) for at in (2.9, 3.0, last - 0.1, last)] == [
        '', expected, expected, '',
    ]  # fmt: skip
    assert text(3.0, ()) == ''


def test_the_sheet_of_a_change_lies_above_the_histograms_and_holds_its_text(push, rng):
    belief, stamp = believed(push, rng), 3.0
    seen = tuple(
        DetectedChange(stamp, name, 0.1, 0.3) for name in ('block_mass', 'block_friction')
    )
    display = DisplayState(stamp, push.start(), {}, belief, changes=seen)
    found = TaskShapes(push).belief(display)
    label, sheet, panel = (layer(found, n) for n in ('changes', 'change panel', 'panel'))
    assert sheet.corners[..., 2].min() > panel.corners[..., 2].max()
    across, down = np.ptp(sheet.corners.reshape(-1, 3) @ _axes(push), axis=0)
    lines = label.text.split('\n')
    assert len(lines) == 4 and down > 1.2 * len(lines) * label.height
    assert across > 0.8 * max(map(len, lines)) * label.height  # of DejaVu Sans, in pictures
    hidden = TaskShapes(push).belief(display._replace(changes=()))
    assert layer(hidden, 'changes').text == '' and not len(layer(hidden, 'change panel').corners)


def test_lines_of_histograms_lie_between_the_camera_and_opaque_bars(push, rng):
    found = shown(histograms.shapes, push, believed(push, rng))
    away = np.cross(scene_extent.UP, scene_extent.scene_extent(push).right)
    parts = (
        layer(found, 'scales').ends,
        layer(found, 'bars').corners,
        layer(found, 'panel').corners,
    )
    lines, bars, sheet = (np.unique(np.round(part @ away, 9)) for part in parts)  # planes
    assert len(lines) == len(bars) == len(sheet) == 1 and lines < bars < sheet
    assert (layer(found, 'bars').colors[:, 3] == 1.0).all()  # others are sorted at random


def test_the_label_of_a_joint_is_beside_its_object_and_lists_the_kinds(drawer, rng):
    label = layer(shown(joint_axes.shapes, drawer, believed(drawer, rng)), 'joints')
    ((_, item),) = uncertain_objects(drawer)
    centre = scene.kinematics(drawer.model, drawer.start().qpos).xpos[item.body]
    lines = label.text.split('\n')
    assert lines[0] == 'handle' and [line.split(' % ')[1] for line in lines[1:]] == [
        'slide', 'hinge',
    ]  # fmt: skip
    aside, up = (label.position - centre) @ _axes(drawer)
    assert aside > 0.5 * max(map(len, lines)) * label.height and up > 0.0


def _axes(task):
    """Return to the right and up (3, 2), as seen by the scene's camera."""
    return np.column_stack([scene_extent.scene_extent(task).right, scene_extent.UP])


def test_the_box_around_an_object_is_its_geom_with_a_margin(push):
    data = scene.kinematics(push.model, push.start().qpos)
    found = objects.shapes(push, scene_extent.scene_extent(push), data)
    ends = layer(found, 'objects').ends
    body = scene_extent.tracked_bodies(push)[0]
    geom = push.model.body_geomadr[body]
    margin = objects.MARGIN * scene_extent.scene_extent(push).size
    size = push.model.geom_size[geom] + margin
    inside = (ends - data.geom_xpos[geom]) @ data.geom_xmat[geom].reshape(3, 3)
    # every corner of the box, from three edges each; rounding
    np.testing.assert_allclose(np.abs(inside), np.broadcast_to(size, inside.shape), atol=1e-9)
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    np.testing.assert_allclose(np.sort(lengths), np.sort(np.repeat(2 * size, 4)), atol=1e-9)


def test_the_target_mark_is_at_the_target_of_the_success_residual(push):
    data = scene.kinematics(push.model, push.start().qpos)
    ends = layer(objects.shapes(push, scene_extent.scene_extent(push), data), 'target').ends
    site = mujoco.mj_name2id(push.model, mujoco.mjtObj.mjOBJ_SITE, 'target')
    middle = data.site_xpos[site]
    np.testing.assert_allclose(ends[:3].mean(axis=1), np.tile(middle, (3, 1)), atol=1e-12)
    radii = np.linalg.norm(ends[3:] - middle, axis=2)
    np.testing.assert_allclose(radii, push.file.success.below, rtol=1e-9)


def test_candidates_go_from_green_to_red_by_cost_and_diverged_ones_are_apart(push, rng):
    traces = rng.normal(size=(3, 2, 5, 3))
    costs = np.array([[1.0, 2.0], [np.inf, 3.0], [5.0, 4.0]])
    traces[1, 0, 2:] = np.nan
    one, lost = rollouts.candidates(scene_extent.scene_extent(push), traces, costs)
    assert len(one.ends) == 5 * 4 and len(lost.ends) == 1  # it ended after its first step
    np.testing.assert_array_equal(one.ends[:4, 0], traces[0, 0, :-1])
    np.testing.assert_array_equal(lost.ends[0], traces[1, 0, :2])
    assert (
        tuple(one.colors[0, :3]) == palette.LOW_COST
        and tuple(lost.colors[0, :3]) == palette.DIVERGED
    )
    red = [one.colors[4 * i, 0] - one.colors[4 * i, 1] for i in range(5)]
    ranks = np.argsort(costs[np.isfinite(costs)])
    assert list(np.argsort(red, kind='stable')) == list(ranks)


def test_a_plan_is_the_mean_of_models_and_objects_keep_their_weights(push, rng):
    course, moved = rng.normal(size=(4, 6, 3)), rng.normal(size=(4, 2, 6, 3))
    shares = np.array([0.1, 0.4, 0.2, 0.3])
    course[0, 3] = np.nan  # this one diverged
    plan, paths, spread = rollouts.plan(scene_extent.scene_extent(push), course, moved, shares)
    expected = np.average(course[1:], axis=0, weights=shares[1:])
    np.testing.assert_allclose(plan.ends[:, 0], expected[:-1], rtol=1e-12, atol=1e-12)
    assert isinstance(spread, Spheres) and len(paths.ends) == 8 * 5
    np.testing.assert_array_equal(spread.centres, moved[:, :, -1].reshape(-1, 3))
    np.testing.assert_allclose(spread.colors[::2, 3], shares / 0.4, rtol=1e-12)


def test_no_plan_is_drawn_if_all_models_diverge(push):
    nowhere = np.full((2, 4, 3), np.nan)
    found = rollouts.plan(scene_extent.scene_extent(push), nowhere, nowhere[:, None], np.ones(2))
    assert [len(shape[1]) for shape in found] == [0, 0, 0]


def test_layers_have_a_colour_for_each_part(push, rng):
    found = shown(histograms.shapes, push, believed(push, rng))
    for shape in found:
        if isinstance(shape, (Lines, Triangles)):
            assert len(shape[1]) == len(shape.colors)


def test_a_door_is_shown_where_it_was_tracked(drawer):
    ((_, item),) = uncertain_objects(drawer)
    hinge = np.array([0.0, 0.0, 1.0, 0.0, -0.2, 0.0])  # the scene has a slide along x
    data = mujoco.MjData(with_parameters(drawer.model, drawer.parameters, hinge))
    data.qpos[:] = drawer.start().qpos
    data.qpos[item.qpos] = 0.7
    mujoco.mj_kinematics(data.model, data)
    turn = Rotation.from_quat(data.xquat[item.body], scalar_first=True)
    still, zero = np.zeros(3), np.zeros((2, 2))
    track = Track(0.0, data.xpos[item.body].copy(), still, turn, still, zero, zero)
    display = DisplayState(0.0, drawer.start(), {'handle': track}, uniform(hinge[None]))
    drawing = TaskShapes(drawer)
    drawing.objects(display._replace(tracks={}))  # another moment
    frame = layer(drawing.objects(display), 'object frames').ends
    # up to the rounding of a fit in closed form
    np.testing.assert_allclose(frame[:, 0], np.tile(track.position, (3, 1)), atol=1e-9)
    directions = (frame[:, 1] - frame[:, 0]) / np.linalg.norm(frame[:, 1] - frame[:, 0], axis=1)
    np.testing.assert_allclose(directions.T, turn.as_matrix(), atol=1e-6)


def test_points_of_a_belief_lie_in_the_box_of_the_prior(push):
    low, high = push.prior.range
    belief = uniform(np.array([low, high, 0.5 * (low + high)]))
    display = DisplayState(0.0, push.start(), {}, belief)
    positions = TaskShapes(push).points(display)
    np.testing.assert_allclose(positions[2], 0.5 * (positions[0] + positions[1]), atol=1e-12)
    (box,) = TaskShapes(push).points_box(display)
    assert len(box.ends) == 4  # a rectangle, of two parameters; rounding
    ends = box.ends.reshape(-1, 3) @ _axes(push)
    reached = np.array([ends.min(axis=0), ends.max(axis=0)])
    np.testing.assert_allclose(positions[:2] @ _axes(push), reached, atol=1e-12)

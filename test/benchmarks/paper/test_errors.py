"""Errors are in identifiable quantities: not an axis's length or sign, nor a pivot along it."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks.paper import compute, errors
from benchmarks.paper.summary import coverage
from emppi_ros.app.trace import Frame, Trace
from emppi_ros.model import uncertain_joints
from emppi_ros.priors.particles import Belief, uniform
from emppi_ros.tasks import calibration_record
from emppi_ros.tasks.task import load_task

HINGE = np.array([0.1, 0.2, 2.0, -0.05, 0.2, 0.01])
SLIDE = np.array([1.5, 0.1, -0.2, 0.0, 0.0, 0.0])
# rounding of angles and distances below 1; squares of near nothing, eigenvectors of sums of 200
ROUNDING = 1e-12


@pytest.fixture(scope='module')
def cabinet():
    """Return the task whose joint is a slide or a hinge: three of an axis, three of a pivot."""
    return load_task('panda_cabinet')


@pytest.fixture
def chosen(make_task, task_data):
    """Return a cart on a rail of one of two directions, and of unknown mass."""
    data = task_data('slider')
    axis = {'field': 'jnt_axis', 'of': 'x', 'choices': [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]}
    data['parameters']['way'] = {
        **axis,
        'prior': {'distribution': 'uniform', 'lower': 0.0, 'upper': 2.0},
    }
    data['simulation']['truth']['way'] = {'distribution': 'fixed', 'value': 0.5}
    return make_task('slider', data)


def _belief(rng, around=HINGE, count=200, spread=0.05):
    theta = np.clip(around + spread * rng.normal(size=(count, 6)), -0.19, 0.19)
    theta[:, :3] = around[:3] + spread * rng.normal(size=(count, 3))
    return Belief(theta, np.log(rng.dirichlet(np.ones(count))))


@pytest.mark.parametrize('truth', [HINGE, SLIDE])
def test_the_truth_has_no_error(cabinet, truth):
    assert errors.squared_error(cabinet, uniform(truth[None]), truth) < ROUNDING
    names = {'axis of handle'} | ({'pivot of handle'} if truth is HINGE else set())
    assert set(errors.terms(cabinet, uniform(truth[None]), truth)) == names


@pytest.mark.parametrize('truth', [HINGE, SLIDE])
def test_lengths_and_signs_of_axes_do_not_count(cabinet, truth, rng):
    belief = _belief(rng)
    other = belief.theta.copy()
    other[:, :3] *= (rng.uniform(0.3, 1.2, 200) * rng.choice([-1.0, 1.0], 200))[:, None]
    found = [errors.terms(cabinet, b, truth) for b in (belief, belief._replace(theta=other))]
    assert found[0] == pytest.approx(found[1], abs=ROUNDING)
    assert found[0]['axis of handle'] > 1e-6  # there is something to compare
    told = [errors.mean(cabinet, b, truth) for b in (belief, belief._replace(theta=other))]
    np.testing.assert_allclose(*told, atol=ROUNDING)


@pytest.mark.parametrize('turn', [0.0, 0.3, 1.2, 3.0])
def test_an_axis_errs_by_its_angle_and_at_most_by_a_right_one(cabinet, turn):
    across = np.cross(HINGE[:3], [0.3, -0.2, 0.1])
    across *= turn / np.linalg.norm(across)
    theta = HINGE.copy()
    theta[:3] = Rotation.from_rotvec(across).apply(HINGE[:3])
    found = errors.terms(cabinet, uniform(theta[None]), HINGE)['axis of handle']
    assert found == pytest.approx(min(turn, np.pi - turn) ** 2, abs=ROUNDING)


def test_a_pivot_may_lie_anywhere_on_the_true_line_and_errs_by_its_distance(cabinet):
    axis = HINGE[:3] / np.linalg.norm(HINGE[:3])
    off = np.cross(axis, [1.0, 0.0, 0.0])
    off *= 0.03 / np.linalg.norm(off)
    for along in (0.0, 0.1, -0.15):
        theta = HINGE.copy()
        theta[3:] += along * axis + off
        terms = errors.terms(cabinet, uniform(theta[None]), HINGE)
        assert terms['pivot of handle'] == pytest.approx(0.03**2, abs=ROUNDING)


def test_pivots_of_particles_that_slide_do_not_count(cabinet):
    theta = np.stack([HINGE, HINGE, SLIDE])
    theta[2, 3:] = 0.15
    belief = Belief(theta, np.log([0.3, 0.3, 0.4]))
    assert errors.terms(cabinet, belief, HINGE)['pivot of handle'] < ROUNDING
    nobody = errors.terms(cabinet, uniform(theta[2:]), HINGE)  # then there are no others
    assert nobody['pivot of handle'] > 1e-3


def test_a_choice_errs_by_the_share_of_what_is_wrong(chosen):
    theta = np.array([[2.0, 0.2], [3.0, 0.9], [4.0, 1.5]])
    belief, truth = Belief(theta, np.log([0.5, 0.2, 0.3])), np.array([2.0, 0.5])
    found = errors.terms(chosen, belief, truth)
    assert found == pytest.approx({'choice of x': 0.3**2, 'mass': 0.8**2}, abs=ROUNDING)
    assert calibration_record.has_interval(chosen) == [True, False]
    np.testing.assert_allclose(errors.mean(chosen, belief, truth), [2.8, 0.3], atol=ROUNDING)


def test_ordinary_parameters_err_as_their_means_do(make_task, rng):
    belief = Belief(rng.uniform(1.0, 3.0, (9, 1)), np.log(rng.dirichlet(np.ones(9))))
    mean = np.exp(belief.log_weights) @ belief.theta[:, 0]
    found = errors.terms(make_task('slider'), belief, np.array([2.0]))
    assert found == pytest.approx({'mass': (mean - 2.0) ** 2}, abs=ROUNDING)


def test_estimates_of_an_open_joint_are_of_unit_axes_and_are_not_judged(cabinet, rng, make_row):
    belief = _belief(rng)
    flipped = belief._replace(theta=belief.theta * [-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
    found, other = (compute.estimates(cabinet, HINGE, b) for b in (belief, flipped))
    axis = [found[f'axis_{x}'] for x in 'xyz']
    for numbers in ([e.true for e in axis], [e.mean for e in axis]):
        assert np.linalg.norm(numbers) == pytest.approx(1.0, abs=ROUNDING)
    assert np.dot([e.true for e in axis], [e.mean for e in axis]) > 0.9  # of one sign
    assert found == other  # negation is exact
    assert all(e.inside is None for e in found.values())
    assert coverage([make_row(parameters=found)]) == {}


def test_an_estimate_series_has_the_errors_of_its_beliefs(cabinet, rng):
    beliefs = [(0.1 * i, _belief(rng)) for i in range(4)]
    found = compute.estimate_series(cabinet, SLIDE, beliefs)
    for (_, belief), value in zip(beliefs, found.squared_error, strict=True):
        assert value == errors.squared_error(cabinet, belief, SLIDE)


def test_the_joint_type_is_judged_once_its_body_has_moved(cabinet):
    trace = Trace([(0.0, HINGE)])
    radius = np.hypot(*HINGE[3:5])  # about z, nearly
    (joint,) = uncertain_joints.uncertain(cabinet.model, cabinet.parameters)
    place = cabinet.model.jnt_qposadr[joint.id]
    for i in range(6):  # the handle's arc is 0, 6, 12 .. mm long
        qpos = cabinet.start().qpos.copy()
        qpos[place] = 0.006 * i / radius
        trace.frames.append(Frame(0.1 * i, qpos, np.zeros(cabinet.model.nv), 1.0))
        right = np.log([0.1 * i + 0.05, 0.95 - 0.1 * i])
        trace.beliefs.append((0.1 * i - 0.03, Belief(np.stack([HINGE, SLIDE]), right)))
    # 24 mm at 0.4 s; the first belief after it is that of 0.47 s. Rounding of a logarithm
    assert compute.share_after_moving(cabinet, trace) == pytest.approx(0.55, abs=ROUNDING)
    still = dataclasses.replace(trace, frames=trace.frames[:4])
    blind = dataclasses.replace(trace, beliefs=[])
    assert compute.share_after_moving(cabinet, still) is None
    assert compute.share_after_moving(cabinet, blind) is None


def test_a_task_without_uncertain_joints_has_no_joint_type(make_task):
    task = make_task('slider')
    trace = Trace([(0.0, np.array([1.0]))], [Frame(0.1, np.array([0.5]), np.zeros(1), 0.0)])
    trace.beliefs.append((0.2, uniform(np.array([[1.0]]))))
    assert compute.share_after_moving(task, trace) is None

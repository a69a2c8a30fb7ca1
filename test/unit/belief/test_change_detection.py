"""A change is detected once, when most of the belief descends from recent jumps."""

import json

import numpy as np
import pytest

from emppi_ros.belief.changes import ChangeDetector, DetectedChange, Jumps
from emppi_ros.journal import snapshot
from emppi_ros.priors import particles
from emppi_ros.priors.particles import Belief

COUNT, DT = 8, 0.1
NOBODY = Jumps(*(np.zeros(0, dtype=np.intp) for _ in range(3)))
MEAN = np.array([0.3, 5.0])


def jumps(rows, column, origins=None):
    rows = np.asarray(rows)
    origins = rows if origins is None else np.asarray(origins)
    return Jumps(rows, origins, np.full(len(rows), column))


@pytest.fixture
def detector():
    """Return a detector whose start is over."""
    made = ChangeDetector(('mass', 'friction'), COUNT)
    for _ in range(21):
        made.jump(NOBODY, DT, MEAN)
    return made


def belief(weight_of_first, value=0.3):
    """Return a belief whose first particle has a weight and a mass; others have 0.3."""
    theta = np.tile(MEAN, (COUNT, 1))
    theta[0, 0] = value
    shares = np.full(COUNT, (1.0 - weight_of_first) / (COUNT - 1))
    shares[0] = weight_of_first
    return Belief(theta, np.log(shares))


def test_a_change_is_detected_once_most_weight_has_jumped(detector):
    detector.jump(jumps([0], 0), DT, MEAN)
    assert detector.update(1.0, belief(0.49, 1.2)) == []
    (change,) = detector.update(1.1, belief(0.51, 1.2))
    assert change[:2] == (1.1, 'mass')
    assert change[2:] == pytest.approx((0.3, 1.2), rel=1e-12)  # rounding
    assert detector.update(1.2, belief(0.9, 1.2)) == []
    assert list(detector.events) == [change] == detector.since(1.0)
    assert detector.since(1.1) == []


def test_a_second_change_is_detected_after_the_first_is_over_and_not_before(detector):
    detector.jump(jumps([0], 0), DT, MEAN)
    assert detector.update(0.0, belief(0.9))
    for probability in (0.3, 0.6, 0.21):  # above a fifth the change is not over
        assert detector.update(0.1, belief(probability)) == []
    assert detector.update(0.2, belief(0.1)) == []
    assert detector.update(0.3, belief(0.6))


def test_a_jump_is_forgotten_after_two_seconds(detector):
    detector.jump(jumps([0], 0), DT, MEAN)
    for _ in range(21):
        detector.jump(NOBODY, DT, MEAN)
    assert detector.update(0.0, belief(1.0 - 1e-9)) == []


def test_jumps_at_the_start_are_no_changes():
    detector = ChangeDetector(('mass', 'friction'), COUNT)
    detector.jump(jumps(range(COUNT), 0), DT, MEAN)
    assert detector.update(0.1, belief(0.9)) == []


def test_jumps_follow_their_particles(detector):
    detector.jump(jumps([5], 1), DT, MEAN)
    detector.resample(np.array([5, 5, 5, 5, 5, 0, 1, 2]))
    uniform = particles.uniform(np.tile(MEAN, (COUNT, 1)))
    assert [one.parameter for one in detector.update(0.0, uniform)] == ['friction']
    detector.jump(jumps(range(5), 0, origins=[5] * 5), DT, MEAN)  # of those that did not
    assert [one.parameter for one in detector.update(0.1, uniform)] == ['mass']


def test_a_value_that_needs_several_jumps_is_one_change_from_the_first_value(detector):
    detector.jump(jumps([0], 0), DT, np.array([0.3, 5.0]))
    detector.jump(jumps([1], 0, origins=[0]), DT, np.array([0.7, 5.0]))
    detector.resample(np.full(COUNT, 1))
    (change,) = detector.update(0.0, belief(0.5, 0.3))
    assert change.before == pytest.approx(0.3, rel=1e-12)  # rounding


def test_it_continues_from_a_snapshot(detector):
    detector.jump(jumps([0], 0), DT, MEAN)
    detector.update(1.0, belief(0.9, 1.2))
    other = ChangeDetector(('mass', 'friction'), COUNT)
    snapshot.restore(other, json.loads(json.dumps(snapshot.dump(detector))))
    assert other.events == detector.events and isinstance(other.events[0], DetectedChange)
    for one in (detector, other):
        one.jump(jumps([3], 1, origins=[1]), DT, MEAN)
        one.resample(np.full(COUNT, 3))
    assert other.update(2.0, belief(0.5)) == detector.update(2.0, belief(0.5))
    assert [one.parameter for one in other.events] == ['mass', 'friction']

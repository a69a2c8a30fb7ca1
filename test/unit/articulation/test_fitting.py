"""Fits of single joints against independent ones, and their stated accuracy."""

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from emppi_ros.articulation import fitting, tracks
from emppi_ros.articulation.joint_models import JointModel
from emppi_ros.core.pose import Poses

from .conftest import AXIS, PIVOT, observe, on_hinge, on_slide, part


def angle(axis):
    return np.arctan2(np.linalg.norm(np.cross(axis, AXIS)), abs(axis @ AXIS))


def circle_fit(points):
    """Return centre, unit normal and radius of the circle nearest to points, by SciPy alone."""
    middle = points.mean(axis=0)
    _, _, rows = np.linalg.svd(points - middle)

    def distances(x):
        centre, normal, radius = x[:3], x[3:6] / np.linalg.norm(x[3:6]), x[6]
        off = points - centre
        height = off @ normal
        flat = np.linalg.norm(off - height[:, None] * normal, axis=1)
        return np.concatenate([height, flat - radius])

    start = np.concatenate([middle + 0.1 * rows[1], rows[2], [0.3]])
    x = least_squares(distances, start, xtol=1e-12, ftol=1e-12).x
    return x[:3], x[3:6] / np.linalg.norm(x[3:6]), x[6]


def test_a_hinge_from_positions_alone_is_the_circle_of_an_independent_fit(rng):
    rotation, position = on_hinge(np.linspace(0.0, 1.5, 80))
    one = part('door', rotation, position, rng, sd=(0.0002, 0.0), oriented=False)
    found = fitting.fit('revolute', observe(one), rng)
    centre, normal, radius = circle_fit(one.poses.position)
    model = found.model
    off = centre - model.frame.position
    # both minimize squared distances to a circle: with a tenth of the given noise, Tukey's weights
    # differ from 1 by less than 1 %; errors themselves are of the order of 1e-4
    assert np.linalg.norm(np.cross(model.axis, normal)) < 1e-5
    assert np.linalg.norm(np.cross(off, model.axis)) < 1e-5
    assert abs(np.hypot(*model.child.position[:2]) - radius) < 1e-5


def test_errors_of_axis_and_pivot_are_as_large_as_their_standard_deviations():
    axes, pivots = [], []
    rotation, position = on_hinge(np.linspace(0.0, 1.0, 40))
    start = fitting.fit(
        'revolute', observe(part('door', rotation, position, np.random.default_rng(99))),
        np.random.default_rng(99),
    ).model  # fmt: skip
    count = 20
    for seed in range(count):
        seen = observe(part('door', rotation, position, np.random.default_rng(seed)))
        found = fitting.evaluate(fitting.refine(start, seen), seen)
        axis_sd, pivot_sd = fitting.uncertainty(found)
        frame = found.model.frame.position
        axes.append(angle(found.model.axis) / axis_sd)
        moved = PIVOT + AXIS * float(AXIS @ (frame - PIVOT)) - frame
        pivots.append(np.linalg.norm(np.cross(moved, found.model.axis)) / pivot_sd)
    # squares have a chi-square distribution with 2 degrees of freedom over 2, or with 1 if one
    # axis of its ellipse is much longer: the mean of 20 then has a standard deviation of 0.32
    for ratio in (axes, pivots):
        assert abs(np.mean(np.square(ratio)) - 1.0) < 3.0 * np.sqrt(2.0 / count)


def test_short_slides_far_from_the_origin_are_fitted_from_wrong_axes():
    rotation, position = on_slide(0.01 * np.linspace(0.0, 1.0, 100))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        shift = np.array([2.0, -1.0, 0.5])
        seen = observe(part('drawer', rotation, position + shift, rng))
        costs = []
        for axis in (AXIS, AXIS + 0.4 * rng.normal(size=3)):  # off by some 20 degrees
            frame = Poses(shift, Rotation.align_vectors([axis], [[0, 0, 1]])[0].as_matrix())
            inner = frame.inverse() @ seen.poses.at(0)
            start = JointModel('prismatic', frame, inner, np.zeros(()))
            found = fitting.evaluate(fitting.refine(start, seen), seen)
            costs.append(found.squares.sum())
        # one minimum: steps end when squares, of some 500, fall by less than 1e-5 of them
        assert abs(costs[1] - costs[0]) < 0.05


def test_the_accuracy_of_an_exchanged_joint_is_that_of_the_exchanged_poses(rng):
    base = part('base', *on_slide(np.zeros(60)), rng)
    door = part('door', *on_hinge(np.linspace(0.0, 1.0, 60)), rng)
    forth, back = (
        fitting.observe(*tracks.pair(*pair)[:2]) for pair in ((base, door), (door, base))
    )
    found = fitting.fit('revolute', forth, rng)
    exchanged = fitting.inverted(found)
    direct = fitting.evaluate(exchanged.model, back)
    # the child's pose replaces the parent's in the weights: differences of the order of the noise
    for one, other in zip(
        fitting.uncertainty(exchanged), fitting.uncertainty(direct), strict=True
    ):
        assert abs(one / other - 1.0) < 0.05
    assert np.median(np.abs(direct.squares / found.squares - 1.0)) < 0.05


def test_outliers_move_the_axis_by_less_than_its_noise(rng):
    rotation, position = on_hinge(np.linspace(0.0, 1.2, 100))
    clean = part('door', rotation, position, rng)
    wrong = rng.random(100) < 0.2
    place = clean.poses.position.copy()
    place[wrong] += rng.uniform(-0.3, 0.3, (int(wrong.sum()), 3))
    shifted = tracks.PartTrack(
        'door', clean.poses._replace(position=place), clean.covariance, clean.seen
    )
    one = fitting.fit('revolute', observe(clean), rng)
    two = fitting.fit('revolute', observe(shifted), rng)
    sd, _ = fitting.uncertainty(one)
    apart = np.linalg.norm(np.cross(one.model.axis, two.model.axis))
    assert apart < 2.0 * sd  # a fifth of the frames is missing
    assert not two.inliers(np.full(100, 6.0))[wrong].any()


def test_the_number_of_parameters_is_that_of_the_joint(rng):
    rotation, position = on_hinge(np.linspace(0.0, 1.2, 80))
    full = observe(part('door', rotation, position, rng))
    flat = observe(part('door', rotation, position, rng, oriented=False))
    counts = {kind: fitting.fit(kind, full, rng).parameters for kind in ('static', 'revolute')}
    assert counts == {'static': 6, 'revolute': 9}  # 4 of the axis, 5 of the child across it
    assert fitting.fit('revolute', flat, rng).parameters == 6  # of a circle in space
    slid = observe(part('drawer', *on_slide(np.linspace(0.0, 0.3, 80)), rng))
    assert fitting.fit('prismatic', slid, rng).parameters == 7


def test_noise_is_estimated_in_units_of_the_given_covariance(rng):
    rotation, position = on_slide(np.linspace(0.0, 0.3, 400))
    seen = observe(part('drawer', rotation, position, rng, sd=(0.006, np.radians(3.0))))
    # the median of 400 squares has a relative standard deviation of 4 %
    assert abs(np.sqrt(fitting.fit('prismatic', seen, rng).scale) - 3.0) < 0.2

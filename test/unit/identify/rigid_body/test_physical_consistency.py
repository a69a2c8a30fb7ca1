"""Projection of rigid-body parameters to the closest physically consistent ones."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body import physical_consistency
from emppi_ros.identify.rigid_body.physical_consistency import (
    BODY_PARAMETERS,
    project,
)


def _possible(rng):
    """Return a random body, of ten point masses, friction and armature."""
    mass, place = rng.uniform(0.1, 1.0, 10), rng.normal(0.2, 0.5, (10, 3))
    square = (mass[:, None] * place).T @ place
    inertia = np.trace(square) * np.eye(3) - square
    return np.array([mass.sum(), *(mass @ place), *inertia[np.triu_indices(3)], *rng.random(2)])


def _impossible(rng):
    """Return parameters with a negative moment of inertia, friction and armature, and a metric."""
    root = rng.standard_normal((BODY_PARAMETERS, BODY_PARAMETERS))
    found = _possible(rng)
    found[[4, 10, 11]] -= [2.0, 1.5, 1.5]
    return found, root @ root.T


def _moments(actual):
    """Return the moments of inertia (3,) at the centre of mass, ascending, by parallel axes."""
    xx, xy, xz, yy, yz, zz = actual[4:10]
    centre = actual[1:4] / actual[0]
    shift = actual[0] * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return np.linalg.eigvalsh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - shift)


def test_pseudo_inertias_convert_back_to_parameters(rng):
    for actual in (_possible(rng), _impossible(rng)[0]):
        full = physical_consistency.pseudo_inertia(actual)
        again = physical_consistency.from_pseudo_inertia(full)
        np.testing.assert_allclose(again, actual[:10], rtol=1e-12, atol=1e-14)  # rounding


def test_the_pseudo_inertia_is_positive_definite_iff_the_triangle_inequality_holds(rng):
    signs = set()
    for _ in range(300):
        actual = _possible(rng)
        actual[4:10] += rng.normal(0.0, 1.0, 6)
        low, middle, high = _moments(actual)
        positive = np.linalg.eigvalsh(physical_consistency.pseudo_inertia(actual))[0] > 0.0
        assert positive == (high < low + middle and low > 0.0)
        signs.add(positive)
    assert signs == {True, False}


def test_the_projection_of_a_body_of_mujoco_is_the_body_itself():
    model = mujoco.MjModel.from_xml_string("""
      <mujoco><worldbody><body><freejoint/>
        <geom type="box" size="0.1 0.2 0.3" pos="0.3 -0.1 0.2" mass="2"/>
        <geom type="capsule" size="0.05 0.2" euler="30 40 50" mass="0.7"/>
      </body></worldbody></mujoco>""")
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, model.body_iquat[1])
    turn = turn.reshape(3, 3)
    mass, centre = model.body_mass[1], model.body_ipos[1]
    inertia = turn @ np.diag(model.body_inertia[1]) @ turn.T
    inertia += mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    actual = np.array([mass, *(mass * centre), *inertia[np.triu_indices(3)], 0.1, 0.2])
    np.testing.assert_allclose(_moments(actual)[::-1], model.body_inertia[1], rtol=1e-10)
    # the start is the solution: rounding of eigenvectors
    np.testing.assert_allclose(
        project(actual, np.eye(BODY_PARAMETERS)), actual, rtol=1e-9, atol=1e-12
    )


def test_the_projection_is_the_closest_consistent_body(rng):
    found, metric = _impossible(rng)
    near = project(found, metric)
    low, middle, high = _moments(near)
    # rounding of numbers of order 1, computed from a root
    assert near[0] > 0.0 and min(near[10:]) >= 0.0
    assert low > -1e-12 and high <= low + middle + 1e-9
    # bodies form a convex set, which lies on one side of the plane through the closest point
    pull = metric @ (near - found)
    size = np.linalg.norm(pull)
    for _ in range(500):
        other = _possible(rng) * rng.uniform(0.0, 10.0)
        # the solver stops at relative changes of 1e-12 of squares: 1e-6 of the root
        assert (other - near) @ pull > -1e-5 * size * np.linalg.norm(other - near)


def test_projecting_twice_equals_projecting_once(rng):
    found, metric = _impossible(rng)
    once = project(found, metric)
    # from the boundary the solver starts 1e-9 inside
    np.testing.assert_allclose(project(once, metric), once, atol=1e-6)


def test_parameters_without_weight_stay_unchanged(rng):
    actual = _possible(rng)
    actual[10] = -0.2
    metric = np.diag([*np.zeros(10), 1.0, 1.0])
    # the other ten have no weight, and are consistent already
    np.testing.assert_allclose(project(actual, metric)[:10], actual[:10], rtol=1e-9)


def test_large_offsets_of_parameters_without_weight_do_not_matter(rng):
    actual, root = _possible(rng), rng.standard_normal((5, BODY_PARAMETERS))
    metric = root.T @ root
    nothing = np.linalg.svd(root)[2][-1]
    near = project(actual + 1e6 * nothing, metric)
    # some body fits exactly; 1e6 times rounding, over a weight of perhaps a hundredth
    np.testing.assert_allclose(root @ near, root @ actual, atol=1e-5)
    assert _moments(near)[0] > 0.0 and near[0] > 0.0


def test_bodies_are_projected_independently_if_the_metric_separates_them(rng):
    first, second = _impossible(rng), _impossible(rng)
    metric = np.zeros((24, 24))
    metric[:12, :12], metric[12:, 12:] = first[1], second[1]
    both = project(np.concatenate([first[0], second[0]]), metric)
    alone = np.concatenate([project(*first), project(*second)])
    # convex: a single solution, as exact as in the test of the closest body
    np.testing.assert_allclose(both, alone, atol=1e-4)


def test_wrong_sizes_and_non_finite_values_are_errors():
    with pytest.raises(
        IdentificationError, match=r'13 parameters .* expected 12 parameters per body'
    ):
        project(np.ones(13), np.eye(13))
    with pytest.raises(IdentificationError, match='not finite'):
        project(np.full(12, np.nan), np.eye(12))

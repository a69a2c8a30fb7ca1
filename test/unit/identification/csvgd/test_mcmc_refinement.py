"""Draws keep the posterior, however few particles there are; windows meet exactly."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from emppi_ros.identification.csvgd import mcmc_refinement
from emppi_ros.identification.csvgd.mcmc_refinement import (
    DensityPoint,
    McmcRefinement,
    eliminate_constraints,
    free_coordinates,
)
from emppi_ros.identification.multiple_shooting.particles import (
    Evaluation,
    MultipleShooting,
    evaluate,
    initial_particles,
)
from emppi_ros.identification.multiple_shooting.training_data import LIMIT


@pytest.mark.parametrize('damping', [0.0, 1.0, 1e5])
def test_draws_of_a_gaussian_are_reversible(damping):
    rng = np.random.default_rng(0)
    root, mean = rng.standard_normal((5, 5)), rng.standard_normal(5)
    precision = root @ root.T

    def at(u):
        score = (mean - u) @ precision
        return DensityPoint(
            u, 0.5 * np.sum((u - mean) * score, axis=1), score, np.tile(precision, (4, 1, 1))
        )

    many = np.full(4, damping)
    here = at(rng.standard_normal((4, 5)))
    there = at(mcmc_refinement.propose(here, many, rng.standard_normal((4, 5))))
    forth = here.log_p + mcmc_refinement.proposal_log_density(here, there.u, many)
    back = there.log_p + mcmc_refinement.proposal_log_density(there, here.u, many)
    # rounding, of matrices with a condition number below 1e4 and damping of up to 1e5
    np.testing.assert_allclose(forth, back, atol=1e-7)


def test_the_density_of_a_mixture_is_that_of_its_normal_distributions():
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((3, 2, 2))
    precisions = roots @ roots.swapaxes(1, 2)
    points = DensityPoint(
        *(rng.standard_normal(shape) for shape in ((3, 2), 3, (3, 2))), precisions
    )
    damped = precisions + 0.7 * np.eye(2)
    inverse = np.linalg.inv(damped)
    means = points.u + np.einsum('kij,kj->ki', inverse, points.score)
    covariances = inverse @ (damped + 0.7 * np.eye(2)) @ inverse
    u = rng.standard_normal((4, 2))
    theirs = sum(multivariate_normal(m, c).pdf(u) for m, c in zip(means, covariances, strict=True))
    ours = mcmc_refinement.mixture_log_density(points, u, 0.7)
    np.testing.assert_allclose(ours - ours[0], np.log(theirs / theirs[0]), atol=1e-10)


def test_jumps_bring_as_many_to_each_mode_as_it_is_likely():
    sd, shares, modes = 0.1, np.array([0.8, 0.2]), np.array([-0.8, 0.8])
    count = 300

    def density(z):
        each = np.log(shares) - 0.5 * ((z - modes) / sd) ** 2
        nearest = modes[each.argmax(axis=1)][:, None]
        curvature = np.full((count, 1, 1), sd**-2.0)
        none = np.zeros((count, 0))
        return Evaluation(each.max(axis=1), (nearest - z) / sd**2, curvature, none, none)

    plan = SimpleNamespace(particles=count, unknown=1, size=1, joined=[])
    z = np.repeat(modes, count // 2)[:, None]
    z += sd * np.random.default_rng(0).standard_normal(z.shape)
    refinement = McmcRefinement(density, lambda z: z, plan, seed=0)
    z, _ = refinement.jump(*refinement.start(z))
    # of equal parts a jump takes three eighths of what is left to right; a share of 300
    # particles is known to 0.024: four times that
    expected = 0.2 + 0.3 * (3.0 / 8.0) ** 3
    assert np.mean(z > 0.0) == pytest.approx(expected, abs=0.095)


def test_windows_that_meet_are_one_in_density_score_and_curvature(swing):
    parts, whole = MultipleShooting(swing, 4, 3, threads=1), MultipleShooting(swing, 4, threads=1)
    z = parts.join(initial_particles(parts))
    joined, alone = evaluate(parts, z), evaluate(whole, z[:, :2])
    np.testing.assert_allclose(joined.defects, 0.0, atol=1e-13)
    np.testing.assert_allclose(joined.log_p, alone.log_p, rtol=1e-9)
    score, curvature = eliminate_constraints(parts, joined)
    # forward differences, with a step of 1e-6, in one or in two places
    np.testing.assert_allclose(score, alone.score, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(curvature, alone.curvature, rtol=1e-4, atol=1e-3)


def test_recordings_of_two_lengths_are_joined_each_by_itself(swing):
    starts = np.array([swing.start, swing.start + [0.2, -0.1]])
    both = dataclasses.replace(swing, start=starts, first_steps=(0, 18))
    shooter = MultipleShooting(both, 3, 4, threads=1)
    z = initial_particles(shooter)
    joined = shooter.join(z)
    np.testing.assert_allclose(evaluate(shooter, joined).defects, 0.0, atol=1e-13)
    fixed = [0, 1, 2, 3, 8, 9]  # parameters, and where the recordings begin
    np.testing.assert_array_equal(joined[:, fixed], z[:, fixed])


@pytest.mark.slow
def test_fewer_particles_than_coordinates_have_the_spread_of_least_squares(swing):
    exact = dataclasses.replace(
        swing, noise=0.02 * swing.noise, start=swing.start[None], first_steps=(0,)
    )
    shooter = MultipleShooting(exact, 3, 3, threads=1)
    chosen = free_coordinates(shooter)
    refinement = McmcRefinement(lambda z: evaluate(shooter, z), shooter.join, shooter, seed=0)
    z, now = refinement.start(initial_particles(shooter))
    damping = np.ones(3)
    for _ in range(25):
        z, now, damping = refinement.ascend(z, now, damping)
    information = eliminate_constraints(shooter, now)[1][0]
    best, normal = z[0, chosen].copy(), []
    root = np.linalg.cholesky(information)
    for turn in range(300):
        z, now = refinement.draw(z, now, turn)
        normal.append((z[:, chosen] - best) @ root)
    assert np.all(np.abs(z[:, :2]) < LIMIT)
    covariance = np.cov(np.concatenate(normal[6:]).T)
    # of 880 draws a variance is known to 5 %; those of a chain hang together: five times that
    np.testing.assert_allclose(covariance, np.eye(4), atol=0.25)

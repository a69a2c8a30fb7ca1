"""Windows are pieces of one trajectory, and derivatives are those of the density."""

import dataclasses
import functools
import importlib

import numpy as np
import pytest

from emppi_ros.core.errors import ClusterError, IdentificationError
from emppi_ros.identification.csvgd import csvgd
from emppi_ros.identification.csvgd.csvgd import CsvgdConfig
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    ParticleSimulation,
    evaluate,
    initial_particles,
    log_likelihood,
)
from emppi_ros.identification.multiple_shooting.training_data import LIMIT
from emppi_ros.model.parameters import Parameter
from emppi_ros.parallel import workers

TRUTH = np.array([1.3, 0.2])  # as in conftest
SETTINGS = CsvgdConfig(particles=5, iterations=10, windows=3)  # on two threads: blocks of 3 and 2


def _particles(shooter, seed=0):
    rng = np.random.default_rng(seed)
    z = initial_particles(shooter)
    z[:, : shooter.unknown] = rng.uniform(-1.2, 1.2, (len(z), shooter.unknown))
    z[:, shooter.unknown :] += 0.1 * rng.standard_normal((len(z), shooter.size - shooter.unknown))
    return z


@pytest.mark.parametrize('windows', [1, 3])
def test_the_score_is_the_derivative_of_the_log_density(swing, windows):
    problem = dataclasses.replace(swing, references=1.02 * swing.references)
    shooter = MultipleShooting(problem, 4, windows, threads=1)
    z = _particles(shooter)
    score = evaluate(shooter, z).score
    step = 1e-5
    for column in range(shooter.size):
        up, down = z.copy(), z.copy()
        up[:, column] += step
        down[:, column] -= step
        slope = log_likelihood(shooter, up) - log_likelihood(shooter, down)
        # forward differences err by their step of 1e-6 times a ratio of derivatives of order
        # ten; central ones of a density of up to 1e4 by rounding, 1e4 * 1e-16 / 1e-5 = 1e-7
        expected = slope / (2.0 * step)
        np.testing.assert_allclose(score[:, column], expected, rtol=1e-3, atol=1e-2)


def test_windows_that_begin_where_others_end_are_one_trajectory(swing):
    whole, parts = MultipleShooting(swing, 4, threads=1), MultipleShooting(swing, 4, 3, threads=1)
    z = _particles(parts)
    states = whole.simulate(z[:, :2]).states[:, 0]
    z[:, 2:] = states[:, [7, 15]].reshape(4, -1)
    there, alone = evaluate(parts, z), evaluate(whole, z[:, :2])
    # starts lose a rounding in their change of unit and back
    np.testing.assert_allclose(there.defects, 0.0, atol=1e-13)
    np.testing.assert_allclose(there.log_p, alone.log_p, rtol=1e-10)


def test_normals_are_the_derivatives_of_defects(swing):
    shooter = MultipleShooting(swing, 3, 3, threads=1)
    z = _particles(shooter)
    now = evaluate(shooter, z)
    step = 1e-4 * np.random.default_rng(2).standard_normal(z.shape)
    change = evaluate(shooter, z + step).defects - now.defects
    linear = np.einsum('ncd,nd->nc', now.normals, step)
    # what is left is of second order: 1e-8 times a curvature below a hundred
    np.testing.assert_allclose(change, linear, atol=1e-6)


def test_beyond_a_limit_only_the_limit_pulls(swing):
    shooter = MultipleShooting(swing, 2, threads=1)
    z = np.array([[LIMIT + 0.5, 0.3], [0.1, -LIMIT - 0.25]])
    now = evaluate(shooter, z)
    np.testing.assert_allclose(now.defects, [[0.5, 0.0], [0.0, -0.25]], atol=1e-12)
    np.testing.assert_array_equal(now.normals, [np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])
    assert now.score[0, 0] == now.score[1, 1] == 0.0
    assert now.score[0, 1] != 0.0 != now.score[1, 0]
    on_it = np.clip(z, -LIMIT, LIMIT)  # the density does not change beyond it
    np.testing.assert_array_equal(now.log_p, evaluate(shooter, on_it).log_p)


def test_curvature_is_that_of_least_squares_at_the_truth(swing):
    shooter = MultipleShooting(swing, 1, threads=1)
    z = swing.coordinates(TRUTH)[None]
    now = evaluate(shooter, z)
    assert now.log_p[0] == pytest.approx(0.0, abs=1e-12)  # data without noise
    step = 1e-4
    for column in range(2):
        moved = z.copy()
        moved[0, column] += step
        change = log_likelihood(shooter, moved)[0]
        # the residual is zero, so that Gauss and Newton's is exact up to the step
        assert change == pytest.approx(-0.5 * step**2 * now.curvature[0, column, column], rel=1e-2)


def test_coordinates_and_parameters_are_one_another(swing):
    inertia = Parameter('inertia', 'body_inertia', 'link', 0, 0.002, 1.0)
    problem = dataclasses.replace(swing, parameters=(*swing.parameters, inertia))
    assert problem.logarithmic.tolist() == [False, False, True]
    np.testing.assert_allclose(problem.coordinates(problem.limits), [[-LIMIT] * 3, [LIMIT] * 3])
    theta = np.random.default_rng(0).uniform(*problem.limits, (20, 3))
    np.testing.assert_allclose(problem.theta(problem.coordinates(theta)), theta, rtol=1e-12)
    far = problem.theta(np.array([[-9.0] * 3, [9.0] * 3]))
    np.testing.assert_allclose(far, problem.limits, rtol=1e-15)
    # never beyond, by no rounding: the registry refuses that
    assert np.all(far[0] >= problem.limits[0]) and np.all(far[1] <= problem.limits[1])


@pytest.mark.parametrize(
    ('change', 'match'),
    [
        ({'noise': np.array([0.1, 0.0])}, 'noise of measurements must be positive'),
        (
            {'parameters': (Parameter('mass', 'body_mass', 'link', lower=0.1),)},
            r'mass: found limits \[0.1, inf\]; both must be finite',
        ),
    ],
)
def test_problems_that_make_no_sense_are_errors(swing, change, match):
    with pytest.raises(IdentificationError, match=match):
        dataclasses.replace(swing, **change)


def test_a_particle_that_diverges_has_no_density_and_moves_nobody(swing):
    shooter = MultipleShooting(swing, 3, 3, threads=1)
    z = _particles(shooter)
    z[1, -1] = np.nan  # the start of a window is nowhere
    now = evaluate(shooter, z)
    assert now.log_p[1] == -np.inf and np.all(np.isfinite(now.log_p[[0, 2]]))
    assert not now.score[1].any() and np.all(np.isfinite(now.normals))
    z[:, -1] = np.nan
    with pytest.raises(IdentificationError, match='all particles diverge'):
        ParticleSimulation(swing, 3, 3, threads=1).density(z)


@pytest.mark.slow
def test_a_cluster_changes_no_bit_and_is_an_error_when_it_dies(cluster, swing, monkeypatch):
    module = importlib.import_module('emppi_ros.parallel.cluster')
    monkeypatch.setattr(module, 'PATIENCE_S', 0.5)
    monkeypatch.setattr(module, 'LOOK_S', 0.1)
    here = csvgd.infer(swing, SETTINGS, 1)
    recipe = functools.partial(ParticleSimulation, swing, SETTINGS.windows)
    with workers.shared(recipe, cluster.address) as share:
        there = csvgd.infer(swing, SETTINGS, 1, share=share)
        for one, other in zip(there, here, strict=True):
            np.testing.assert_array_equal(one, other)
        simulation, z = recipe(5, share=share), here.z.copy()
        z[3:, -1] = np.nan  # all of one block
        np.testing.assert_array_equal(np.isfinite(simulation.density(z).log_p), [1, 1, 1, 0, 0])
        z[:, -1] = np.nan
        with pytest.raises(IdentificationError, match='all particles diverge'):
            simulation.density(z)
    seen = []

    def kill(state, _):
        seen.append(state.iteration)
        if state.iteration == 4:
            cluster.kill('worker')

    def infer():
        with workers.shared(recipe, cluster.address) as share:
            csvgd.infer(swing, SETTINGS, 1, kill, share=share)

    with pytest.raises(ClusterError, match=f'cluster at {cluster.address} went away: '):
        infer()
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize('windows', [1, 3])
def test_a_reference_that_was_only_interpolated_does_not_count(swing, windows):
    seen = np.ones(swing.references.shape, bool)
    seen[1::2, 0] = seen[::3, 1] = False
    sparse = dataclasses.replace(swing, observed=seen)
    shooter = MultipleShooting(sparse, 4, windows, threads=1)
    z = _particles(shooter)
    found = evaluate(shooter, z)
    # the part of the whole density that belongs to what was seen
    left = (shooter.simulate(z).states - shooter.measurements) * swing.scale / swing.noise
    squares = np.sum(left**2, axis=(1, 2, 3), where=seen.reshape(left.shape[1:]))
    np.testing.assert_allclose(found.log_p, -0.5 * squares, rtol=1e-9)

"""A belief that was saved goes on as it was; what was saved before is never lost."""

import numpy as np
import pytest

from emppi_ros.belief import belief_file, particles, prior_binding
from emppi_ros.belief.distributions import Prior
from emppi_ros.belief.particles import Belief
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter
from emppi_ros.session.particle_filter import Filter

MASS = Parameter('mass', 'body_mass', 'b', lower=0.02, upper=2.0, unit='kg')
FRICTION = Parameter('friction', 'geom_friction', 'g', lower=0.1, upper=1.5)
PARAMETERS = (MASS, FRICTION)
OWN = (Prior('fixed', value=0.5), Prior('fixed', value=0.6))


def believed(rng, count=12):
    theta = rng.uniform([0.1, 0.2], [1.9, 1.4], (count, 2))
    return Belief(theta, np.log(rng.dirichlet(np.ones(count))))


def saved(path, belief, ours=False, task='push'):
    return belief_file.save(path, belief_file.to_file(task, PARAMETERS, belief), ours)


def read(path, task='push'):
    return prior_binding.read(str(path), PARAMETERS, OWN, task)


def test_a_saved_belief_goes_on_as_it_was(tmp_path, rng):
    before = believed(rng)
    saved(tmp_path / 'known.yaml', before)
    after = read(tmp_path / 'known.yaml').begin(12, rng)
    assert np.array_equal(after.theta, before.theta)
    # exp and log: an ulp of the weight each, which the logarithm turns into absolute error
    np.testing.assert_allclose(after.log_weights, before.log_weights, atol=1e-14)


def test_more_or_fewer_particles_are_drawn_as_often_as_the_saved_ones_weigh(tmp_path, rng):
    before = believed(rng)
    saved(tmp_path / 'known.yaml', before)
    after = read(tmp_path / 'known.yaml').begin(4800, rng)
    counts = [(after.theta == row).all(axis=1).sum() for row in before.theta]
    # systematic resampling: one off at most
    np.testing.assert_allclose(counts, 4800 * np.exp(before.log_weights), atol=1.0)
    assert np.ptp(after.log_weights) == 0.0


def test_a_filter_goes_on_from_a_file(make_task, tmp_path, rng):
    task = make_task('slider')
    belief = Belief(rng.uniform(0.5, 3.0, (12, 1)), np.log(rng.dirichlet(np.ones(12))))
    path = tmp_path / 'known.yaml'
    belief_file.save(path, belief_file.to_file(task.name, task.parameters, belief))
    found = Filter(task.with_prior(str(path)), np.random.default_rng(0)).belief
    assert np.array_equal(found.theta, belief.theta)
    np.testing.assert_allclose(found.log_weights, belief.log_weights, atol=1e-14)  # as above


def test_another_tasks_file_is_refused_by_name(tmp_path, rng):
    path = tmp_path / 'known.yaml'
    saved(path, believed(rng), task='pull')
    with pytest.raises(ConfigError, match=r"known.yaml: line 2: task: found 'pull', expected"):
        read(path)
    path.write_text(path.read_text().replace('task: pull\n', ''))
    assert read(path).kept == ()  # for all tasks whose parameters it fits


def test_parameters_that_the_task_does_not_have_are_refused_by_name(tmp_path, rng):
    saved(tmp_path / 'known.yaml', believed(rng))
    with pytest.raises(ConfigError, match="friction: unknown parameter 'friction'"):
        prior_binding.read(str(tmp_path / 'known.yaml'), (MASS,), OWN[:1], 'push')


def test_what_was_there_is_kept_unless_it_is_ours(tmp_path, rng):
    path = tmp_path / 'deep' / 'known.yaml'
    first, second, third = (believed(rng) for _ in range(3))
    assert saved(path, first) is None
    assert saved(path, second) == path.with_name('known.1.yaml')
    assert saved(path, third) == path.with_name('known.2.yaml')
    found = [read(p).values for p in (path, *map(path.with_name, NUMBERED))]
    for values, belief in zip(found, (third, first, second), strict=True):
        assert np.array_equal(values, belief.theta)
    assert saved(path, first, ours=True) is None
    assert {p.name for p in path.parent.iterdir()} == {'known.yaml', *NUMBERED}


NUMBERED = ('known.1.yaml', 'known.2.yaml')


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path, rng, monkeypatch):
    path, belief = tmp_path / 'known.yaml', believed(rng)
    saved(path, belief)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(belief_file.os, 'fsync', full)
    with pytest.raises(ConfigError, match=r'known.yaml: cannot be written: .*No space left'):
        saved(path, believed(rng))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_saved_is_named(tmp_path, rng):
    with pytest.raises(ConfigError, match=r'known.json: .*expected a name ending in .yaml'):
        saved(tmp_path / 'known.json', believed(rng))
    with pytest.raises(ConfigError, match="task 'follow' has no parameters"):
        belief_file.to_file('follow', (), particles.uniform(np.empty((3, 0))))
    broken = Belief(np.array([[np.nan, 1.0]]), np.zeros(1))
    with pytest.raises(ConfigError, match=r'values\[0\]: found nan'):
        saved(tmp_path / 'known.yaml', broken)
    assert not list(tmp_path.iterdir())

"""A prior file reads back bit for bit; errors name the key; a saved belief continues."""

import hashlib
import math

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import yaml

from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import particles, prior_file
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.prior_file import DataSource, ParameterPrior, PriorFile

MASS = Parameter('mass', 'body_mass', 'b', lower=0.02, upper=2.0, unit='kg')
FRICTION = Parameter('friction', 'geom_friction', 'g', lower=0.1, upper=1.5)
GAIN = Parameter('gain', 'actuator_gain', 'a', lower=0.0)
PARAMETERS = (MASS, FRICTION, GAIN)
OWN = (Prior('fixed', value=0.5), Prior('fixed', value=0.6), Prior('fixed', value=0.7))
GOOD = {
    'method': 'rigid-body',
    'sources': [{'name': 'run.csv', 'sha256': 'a1' * 32}],
    'parameters': {
        'friction': {'unit': '', 'prior': {'distribution': 'uniform', 'lower': 0.2, 'upper': 1.0}},
        'mass': {'unit': 'kg', 'values': [0.1, 0.2, 0.3]},
    },
    'weights': [1.0, 0.0, 3.0],
    'settings': {'iterations': 100},
}


def _changed(path, value):
    data = yaml.safe_load(yaml.safe_dump(GOOD))
    place = data
    for name in path[:-1]:
        place = place[name]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


def _read(tmp_path, data):
    path = tmp_path / 'known.yaml'
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return prior_file.read(str(path), PARAMETERS, OWN)


def _load(path):
    return config.build(PriorFile, config.load(path, prior_file.MAX_CHARACTERS), str(path))


_finite = st.floats(allow_nan=False, allow_infinity=False)


@given(values=st.lists(_finite, min_size=1, max_size=5), mean=_finite, sd=st.floats(1e-300, 1e300))
def test_every_bit_comes_back(tmp_path_factory, values, mean, sd):
    path = tmp_path_factory.mktemp('round') / 'known.yaml'
    known = {
        'a': ParameterPrior('kg m^2', values=tuple(values)),
        'b': ParameterPrior('', prior=Prior('normal', mean=mean, sd=sd)),
    }
    weights = tuple(np.linspace(0.1, 1.0, len(values)).tolist())
    settings = {'steps': 3, 'rates': [0.1, 1e-9], 'name': 'no', 'nested': {'flag': True}}
    written = PriorFile(
        'm', (DataSource('x', '0' * 64),), known, weights, settings, {'cost': mean}
    )
    prior_file.write(path, written)
    assert _load(path) == written


def test_a_file_becomes_a_prior_in_the_order_of_the_tasks_parameters(tmp_path, rng):
    found = _read(tmp_path, GOOD)
    theta = found.sample(400, rng)
    # one of two particles weighs a quarter, systematic resampling is at most one off
    assert set(theta[:, 0]) == {0.1, 0.3} and abs(np.sum(theta[:, 0] == 0.1) - 100) <= 1
    assert 0.2 < theta[:, 1].min() < theta[:, 1].max() < 1.0
    assert np.all(theta[:, 2] == 0.7) and found.kept == ('gain',)
    assert found.describe().endswith("known.yaml; the task's own for gain")


def test_numbers_of_numpy_are_written_like_others(tmp_path):
    path = tmp_path / 'known.yaml'
    cost = {'cost': np.float64(0.1), 'count': np.int64(3), 'curve': np.array([1.0, 2.0])}
    known = {'mass': ParameterPrior('kg', values=tuple(np.array([0.1, 0.2])))}
    prior_file.write(path, PriorFile('m', (), known, (np.float64(1.0), 1.0), diagnostics=cost))
    assert _load(path).diagnostics == {'cost': 0.1, 'count': 3, 'curve': [1.0, 2.0]}


def test_nothing_is_overwritten_unless_asked_nor_written_if_it_could_not_be_read(tmp_path):
    path = tmp_path / 'known.yaml'
    made = config.build(PriorFile, GOOD, 'good')
    prior_file.write(path, made)
    with pytest.raises(ConfigError, match=r'known.yaml: exists; give another name'):
        prior_file.write(path, made)
    prior_file.write(path, made, overwrite=True)
    wrong = PriorFile('m', (), {'mass': ParameterPrior('kg', values=(math.nan,))}, (1.0,))
    with pytest.raises(ConfigError, match=r'values\[0\]: found nan, expected a finite number'):
        prior_file.write(path, wrong, overwrite=True)
    assert _load(path) == made


def test_the_digest_is_that_of_the_bytes(tmp_path):
    path = tmp_path / 'run.csv'
    path.write_bytes(b'time,q\r\n0.0,1.0\n')
    expected = hashlib.sha256(b'time,q\r\n0.0,1.0\n').hexdigest()
    assert prior_file.hash_file(path) == DataSource('run.csv', expected)
    with pytest.raises(ConfigError, match='missing.csv: cannot be read'):
        prior_file.hash_file(tmp_path / 'missing.csv')


NORMAL = {'distribution': 'normal', 'mean': 90.0, 'sd': 0.1}
BAD = {
    'unknown parameter': (
        ('parameters', 'mas'),
        {'unit': 'kg', 'prior': NORMAL},
        r"line \d+: parameters: mas: unknown parameter 'mas' \(did you mean 'mass'",
    ),
    'no parameter': (('parameters',), {}, r'parameters: found {}, expected at least one'),
    'missing parameters': (('parameters',), None, "missing key 'parameters'"),
    'no unit': (('parameters', 'mass', 'unit'), None, "parameters: mass: missing key 'unit'"),
    'wrong unit': (
        ('parameters', 'mass', 'unit'),
        'g',
        "parameters: mass: unit: found 'g', expected 'kg' as in the task",
    ),
    'out of bounds': (
        ('parameters', 'mass', 'values'),
        [0.1, 2.5, 0.2],
        r'parameters: mass: values\[1\]: found 2.5, .* bounds 0.02 and 2 kg',
    ),
    'on a bound': (
        ('parameters', 'mass', 'values'),
        [0.02, 1.0, 0.2],
        r'values\[0\]: found 0.02, expected a number between the bounds',
    ),
    'a prior out of bounds': (
        ('parameters', 'friction', 'prior'),
        NORMAL,
        "parameters: friction: prior: parameter 'friction': its prior has almost no probability",
    ),
    'both': (
        ('parameters', 'mass', 'prior'),
        {'distribution': 'fixed', 'value': 0.1},
        'parameters: mass: expected either values or prior',
    ),
    'neither': (('parameters', 'mass', 'values'), None, 'mass: expected either values or prior'),
    'too few values': (
        ('parameters', 'mass', 'values'),
        [0.1, 0.2],
        'parameters: mass: values: found 2, expected one per weight: 3',
    ),
    'no weights': (('weights',), None, 'values: found 3, expected one per weight: 0'),
    'a weight that is no number': (('weights', 1), math.nan, r'weights\[1\]: found nan'),
    'a negative weight': (
        ('weights', 1),
        -0.1,
        r'weights\[1\]: found -0.1, expected .*non-negative',
    ),
    'weights without weight': (('weights',), [0.0] * 3, 'weights: they sum to 0, expected more'),
    'nothing to weigh': (
        ('parameters',),
        {'friction': GOOD['parameters']['friction']},
        'weights: given, but no parameter has values',
    ),
    'a hash that is none': (
        ('sources', 0, 'sha256'),
        'a1' * 31,
        r'sources\[0\]: sha256: found .*, expected 64 hexadecimal digits',
    ),
}


@pytest.mark.parametrize(('path', 'value', 'match'), BAD.values(), ids=BAD)
def test_what_is_wrong_is_named_with_file_key_and_what_would_be_right(
    tmp_path, path, value, match
):
    with pytest.raises(ConfigError, match=rf'known.yaml: .*{match}'):
        _read(tmp_path, _changed(path, value))


def test_a_file_that_does_not_exist_is_an_error():
    with pytest.raises(ConfigError, match='no such file: nowhere.yaml'):
        prior_file.read('nowhere.yaml', PARAMETERS, OWN)
    with pytest.raises(ConfigError, match="unknown prior 'nothing'"):
        prior_file.read('nothing', PARAMETERS, OWN)


@pytest.mark.slow
def test_as_many_particles_as_a_file_surely_has_room_for_are_written(rng):
    count = prior_file.max_particles(7)
    columns = {  # the longest numbers that there are
        f'parameter_{i}': ParameterPrior(
            'kg', tuple((-1e-200 * rng.uniform(1.0, 9.0, count)).tolist())
        )
        for i in range(7)
    }
    whole = PriorFile('csvgd', (), columns, (1.0,) * count)
    assert len(prior_file.to_yaml(whole, 'prior.yaml')) <= prior_file.MAX_CHARACTERS


def believed(rng, count=12):
    theta = rng.uniform([0.1, 0.2], [1.9, 1.4], (count, 2))
    return Belief(theta, np.log(rng.dirichlet(np.ones(count))))


def saved(path, belief, ours=False, task='push'):
    return prior_file.save(path, prior_file.from_belief(task, PARAMETERS[:2], belief), ours)


def read(path, task='push'):
    return prior_file.read(str(path), PARAMETERS[:2], OWN[:2], task)


def test_a_saved_belief_goes_on_as_it_was(tmp_path, rng):
    before = believed(rng)
    saved(tmp_path / 'known.yaml', before)
    after = read(tmp_path / 'known.yaml').initial_belief(12, rng)
    assert np.array_equal(after.theta, before.theta)
    # exp and log: an ulp of the weight each, which the logarithm turns into absolute error
    np.testing.assert_allclose(after.log_weights, before.log_weights, atol=1e-14)


def test_more_or_fewer_particles_are_drawn_as_often_as_the_saved_ones_weigh(tmp_path, rng):
    before = believed(rng)
    saved(tmp_path / 'known.yaml', before)
    after = read(tmp_path / 'known.yaml').initial_belief(4800, rng)
    counts = [(after.theta == row).all(axis=1).sum() for row in before.theta]
    # systematic resampling: one off at most
    np.testing.assert_allclose(counts, 4800 * np.exp(before.log_weights), atol=1.0)
    assert np.ptp(after.log_weights) == 0.0


def test_a_filter_goes_on_from_a_file(make_task, tmp_path, rng):
    task = make_task('slider')
    belief = Belief(rng.uniform(0.5, 3.0, (12, 1)), np.log(rng.dirichlet(np.ones(12))))
    path = tmp_path / 'known.yaml'
    prior_file.save(path, prior_file.from_belief(task.name, task.parameters, belief))
    found = ParticleFilter(task.with_prior(str(path)), np.random.default_rng(0)).belief
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
        prior_file.read(str(tmp_path / 'known.yaml'), (MASS,), OWN[:1], 'push')


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

    monkeypatch.setattr(paths.os, 'fsync', full)
    with pytest.raises(ConfigError, match=r'known.yaml: cannot be written: .*No space left'):
        saved(path, believed(rng))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_saved_is_named(tmp_path, rng):
    with pytest.raises(ConfigError, match=r'known.json: expected a name ending in .yaml'):
        saved(tmp_path / 'known.json', believed(rng))
    with pytest.raises(ConfigError, match="task 'follow' has no parameters"):
        prior_file.from_belief('follow', (), particles.uniform(np.empty((3, 0))))
    broken = Belief(np.array([[np.nan, 1.0]]), np.zeros(1))
    with pytest.raises(ConfigError, match=r'values\[0\]: found nan'):
        saved(tmp_path / 'known.yaml', broken)
    assert not list(tmp_path.iterdir())

"""A prior's file: what is written comes back bit by bit; what cannot be is named."""

import hashlib
import math

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import yaml

from emppi_ros.belief import prior_binding, prior_schema
from emppi_ros.belief.distributions import Prior
from emppi_ros.belief.prior_schema import Known, PriorFile, Source
from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter

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
    return prior_binding.read(str(path), PARAMETERS, OWN)


def _load(path):
    return config.build(PriorFile, config.load(path, prior_schema.MOST), str(path))


_finite = st.floats(allow_nan=False, allow_infinity=False)


@given(values=st.lists(_finite, min_size=1, max_size=5), mean=_finite, sd=st.floats(1e-300, 1e300))
def test_every_bit_comes_back(tmp_path_factory, values, mean, sd):
    path = tmp_path_factory.mktemp('round') / 'known.yaml'
    known = {
        'a': Known('kg m^2', values=tuple(values)),
        'b': Known('', prior=Prior('normal', mean=mean, sd=sd)),
    }
    weights = tuple(np.linspace(0.1, 1.0, len(values)).tolist())
    settings = {'steps': 3, 'rates': [0.1, 1e-9], 'name': 'no', 'nested': {'flag': True}}
    written = PriorFile('m', (Source('x', '0' * 64),), known, weights, settings, {'cost': mean})
    prior_schema.write(path, written)
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
    known = {'mass': Known('kg', values=tuple(np.array([0.1, 0.2])))}
    prior_schema.write(path, PriorFile('m', (), known, (np.float64(1.0), 1.0), diagnostics=cost))
    assert _load(path).diagnostics == {'cost': 0.1, 'count': 3, 'curve': [1.0, 2.0]}


def test_nothing_is_overwritten_unless_asked_nor_written_if_it_could_not_be_read(tmp_path):
    path = tmp_path / 'known.yaml'
    made = config.build(PriorFile, GOOD, 'good')
    prior_schema.write(path, made)
    with pytest.raises(ConfigError, match=r'known.yaml: exists'):
        prior_schema.write(path, made)
    prior_schema.write(path, made, overwrite=True)
    wrong = PriorFile('m', (), {'mass': Known('kg', values=(math.nan,))}, (1.0,))
    with pytest.raises(ConfigError, match=r'values\[0\]: found nan, expected a finite number'):
        prior_schema.write(path, wrong, overwrite=True)
    assert _load(path) == made


def test_the_digest_is_that_of_the_bytes(tmp_path):
    path = tmp_path / 'run.csv'
    path.write_bytes(b'time,q\r\n0.0,1.0\n')
    expected = hashlib.sha256(b'time,q\r\n0.0,1.0\n').hexdigest()
    assert prior_schema.digest(path) == Source('run.csv', expected)
    with pytest.raises(ConfigError, match='missing.csv: cannot be read'):
        prior_schema.digest(tmp_path / 'missing.csv')


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
        "parameters: friction: prior: parameter 'friction': its prior has next to no mass",
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
        'parameters: mass: values: found 2, expected as many as there are weights: 3',
    ),
    'no weights': (('weights',), None, 'values: found 3, expected as many .* weights: 0'),
    'a weight that is no number': (('weights', 1), math.nan, r'weights\[1\]: found nan'),
    'a negative weight': (('weights', 1), -0.1, r'weights\[1\]: found -0.1, expected .* from 0'),
    'weights without weight': (('weights',), [0.0] * 3, 'weights: they sum to 0, expected more'),
    'nothing to weigh': (
        ('parameters',),
        {'friction': GOOD['parameters']['friction']},
        'weights: found some, but no parameter has values',
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
        prior_binding.read('nowhere.yaml', PARAMETERS, OWN)
    with pytest.raises(ConfigError, match="unknown prior 'nothing'"):
        prior_binding.read('nothing', PARAMETERS, OWN)


def test_as_many_particles_as_a_file_surely_has_room_for_are_written(rng):
    count = prior_schema.most_particles(7)
    columns = {  # the longest numbers that there are
        f'parameter_{i}': Known('kg', tuple((-1e-200 * rng.uniform(1.0, 9.0, count)).tolist()))
        for i in range(7)
    }
    whole = PriorFile('csvgd', (), columns, (1.0,) * count)
    assert len(prior_schema.to_text(whole, 'prior.yaml')) <= prior_schema.MOST

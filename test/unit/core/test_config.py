"""YAML becomes frozen, checked objects, or a ConfigError that names file, key and choice."""

from collections.abc import Mapping
import dataclasses
from dataclasses import dataclass
import typing

from hypothesis import given
from hypothesis import strategies as st
import pytest

from emppi_ros.bridge.commander import BridgeConfig
from emppi_ros.core import config, yaml_loader
from emppi_ros.core.config import build, fraction, key, load, one_of, parse, positive
from emppi_ros.core.errors import ConfigError
from emppi_ros.priors.distributions import Prior
from emppi_ros.robots.robot import Robot
from emppi_ros.tasks.residuals import RESIDUALS
from emppi_ros.tasks.schema import ParameterConfig, TaskFile, TrackedObjectConfig


@dataclass(frozen=True)
class Inner:
    gain: float = positive()


@dataclass(frozen=True)
class Outer:
    size: int = positive()
    share: float = fraction(0.5)
    kind: str = one_of('a', 'b', default='a')
    flag: bool = False
    rows: tuple[float, ...] = ()
    inner: Inner | None = None
    named: Mapping[str, float] = key({})
    limit: float | None = positive(None)

    def __post_init__(self) -> None:
        if self.flag and self.limit is None:
            raise ConfigError('limit: needed where flag is true')


def test_a_full_mapping_becomes_a_frozen_object():
    data = parse(
        'size: 3\nshare: 1\nkind: b\nflag: true\nrows: [1, 2.5, 1e-4]\ninner: {gain: 2}\n'
        'named: {x: 1}\nlimit: 1e3\n',
        'f',
    )
    built = build(Outer, data, 'f')
    assert built == Outer(3, 1.0, 'b', True, (1.0, 2.5, 1e-4), Inner(2.0), {'x': 1.0}, 1000.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        built.size = 4


def test_an_optional_section_can_be_none_and_nothing_else_is_a_section():
    for absent in (None, 'none'):
        assert build(Outer, {'size': 1, 'inner': absent}, 'f').inner is None
    with pytest.raises(ConfigError, match="f: inner: found 'no', expected a mapping of .* none"):
        build(Outer, {'size': 1, 'inner': 'no'}, 'f')


def test_what_is_left_out_has_its_default_and_no_two_objects_share_one():
    first, second = build(Outer, {'size': 1}, 'f'), build(Outer, {'size': 1}, 'f')
    assert first == Outer(1)
    assert first.named == second.named == {}


@pytest.mark.parametrize(
    ('data', 'match'),
    [
        ({}, r"f: missing key 'size' \(an integer\)"),
        ({'size': 1, 'sise': 2}, "f: unknown key 'sise' .did you mean 'size'.*available: .*share"),
        ({'size': 1.0}, 'f: size: found 1.0, expected an integer'),
        ({'size': True}, 'f: size: found True, expected an integer'),
        ({'size': 0}, 'f: size: found 0, expected a number above 0'),
        ({'size': '1'}, "f: size: found '1', expected an integer"),
        ({'size': 10**400}, 'f: size: found an integer of 1329 bits, expected an integer'),
        ({'size': None}, 'f: size: found None, expected an integer'),
        ({'size': 1, 'share': 1.5}, r'f: share: found 1.5, expected in \(0, 1\]'),
        ({'size': 1, 'share': float('nan')}, 'f: share: found nan, expected a finite number'),
        ({'size': 1, 'share': float('inf')}, 'f: share: found inf, expected a finite number'),
        (
            {'size': 1, 'share': 10**400},
            'f: share: found .* 1329 bits, expected a finite number',
        ),
        ({'size': 1, 'share': True}, 'f: share: found True, expected a number'),
        ({'size': 1, 'kind': 'c'}, "f: kind: found 'c', expected one of a, b"),
        ({'size': 1, 'kind': 1}, 'f: kind: found 1, expected a string'),
        ({'size': 1, 'flag': 1}, 'f: flag: found 1, expected true or false'),
        ({'size': 1, 'rows': 1}, 'f: rows: found 1, expected a list, each a number'),
        ({'size': 1, 'rows': [1, 'x']}, r"f: rows\[1\]: found 'x', expected a number"),
        ({'size': 1, 'inner': {}}, "f: inner: missing key 'gain'"),
        ({'size': 1, 'inner': 3}, 'f: inner: expected a mapping of keys, found 3'),
        ({'size': 1, 'inner': {'gain': -1}}, 'f: inner: gain: found -1, expected a number above'),
        ({'size': 1, 'named': {'x': 'y'}}, "f: named: x: found 'y', expected a number"),
        ({'size': 1, 'named': []}, r'f: named: found \[\], expected a mapping of keys'),
        ({'size': 1, 'limit': 0}, 'f: limit: found 0, expected a number above 0'),
        ({'size': 1, 'limit': 'x'}, "f: limit: found 'x', expected a number"),
        ({'size': 1, 'flag': True}, 'f: limit: needed where flag is true'),
        ([], r'f: expected a mapping of keys, found \[\]'),
        (None, 'f: expected a mapping of keys, found None'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_mapping_is_an_error_that_names_the_key_and_what_is_allowed(data, match):
    with pytest.raises(ConfigError, match=f'^{match}'):
        build(Outer, data, 'f')


@pytest.mark.parametrize(
    ('text', 'match'),
    [
        ('a: 1\na: 2\n', "f: line 2: key 'a' given twice"),
        ('b: {c: 1, c: 2}\n', "f: line 1: key 'c' given twice"),
        ('1: 2\n', 'f: line 1: key 1 is not a string'),
        ('? [a]\n: 1\n', 'f: line 1: key is not a string, but a list'),
        ('yes: 1\n', "f: line 1: key yes is not a string: quote it: 'yes'"),
        ('a: {b: 0,02}\n', 'f: line 1: key 02 is not a string: write decimals with a point'),
        ('- 1\n', 'f: expected a mapping of keys, found list'),
        ('', 'f: expected a mapping of keys, found NoneType'),
        ('a: [1\n', 'f: line 2: not valid YAML'),
        ('a: \tb: 1\n', 'f: line 1: not valid YAML: .*; indent with spaces'),
        (
            'a: !!python/object/apply:os.system [ls]\n',
            "f: line 1: unknown tag '!!python/.*degrees",
        ),
        ('a: !!int ""\n', 'f: not valid YAML'),
        ('a: !!float ""\n', 'f: not valid YAML'),
        ('a: !!bool x\n', 'f: not valid YAML'),
        ('a: ' + '[' * 5000, 'f: line 1: nested more than 32 levels deep'),
        ('a: ' + '9' * 5000, 'f: not valid YAML'),
        ('a: "\x00"\n', 'f: not valid YAML'),
        ('a: 1\n---\nb: 2\n', 'f: line 2: not valid YAML: expected a single document'),
        ('# ' + 'x' * yaml_loader.MAX_CHARACTERS, 'f: more than 32768 characters'),
    ],
    ids=lambda value: value[:24],
)
def test_a_text_that_is_no_plain_mapping_is_an_error(text, match):
    with pytest.raises(ConfigError, match=match):
        parse(text, 'f')


@given(st.text(alphabet='abc:-?!&*{}[]"\'#|>%@`,~<=0123.e \n\t', max_size=40))
def test_any_text_is_a_mapping_or_a_config_error(text):
    try:
        assert isinstance(parse(text, 'f'), dict)
    except ConfigError as error:
        assert str(error).startswith('f: ')


@pytest.mark.parametrize(
    ('text', 'value'),
    [('1e-4', 1e-4), ('-2E+3', -2e3), ('1.5e3', 1500.0), ('1e5', 1e5), ('7', 7), ('.5', 0.5)],
)
def test_numbers_are_numbers_however_they_are_written(text, value):
    found = parse(f'a: {text}', 'f')['a']
    assert found == value and type(found) is type(value)


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ConfigError, match=r'missing.yaml: cannot be read'):
        load(tmp_path / 'missing.yaml')
    (tmp_path / 'binary.yaml').write_bytes(b'\xff\xfe\x00')
    with pytest.raises(ConfigError, match=r'binary.yaml: cannot be read'):
        load(tmp_path / 'binary.yaml')
    with pytest.raises(ConfigError, match='cannot be read'):
        load(tmp_path)


def _all_configs():
    todo = [TaskFile, Robot, ParameterConfig, TrackedObjectConfig, Prior, BridgeConfig]
    todo += RESIDUALS.values()
    seen = []
    while todo:
        cls = todo.pop()
        seen.append(cls)
        for hint in typing.get_type_hints(cls).values():
            for part in (hint, *typing.get_args(hint)):
                if dataclasses.is_dataclass(part) and part not in seen:
                    todo.append(part)
    return sorted(set(seen), key=lambda cls: cls.__name__)


@pytest.mark.parametrize('cls', _all_configs())
def test_every_annotation_is_one_that_the_loader_understands(cls):
    for name, hint in typing.get_type_hints(cls).items():
        inner = [a for a in typing.get_args(hint) if a not in (type(None), ...)]
        if typing.get_origin(hint) not in (tuple, Mapping, dict, None):
            assert len(inner) == 1, f'{name}: a union of several kinds cannot be read'
        with pytest.raises(ConfigError, match='here: (found|expected)'):
            config._convert(object(), hint, 'here') if hint is not typing.Any else None


@pytest.mark.parametrize('cls', _all_configs())
def test_every_config_is_frozen_and_every_check_says_what_is_allowed(cls):
    assert cls.__dataclass_params__.frozen
    for field in dataclasses.fields(cls):
        if field.metadata.get('check'):
            assert field.metadata['allowed'], field.name

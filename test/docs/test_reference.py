"""The documentation of keys, topics, faults, messages and code agrees with the code."""

import ast
import dataclasses
import importlib
import re
import typing

from emppi_docs import graph, keys
from emppi_docs.generated import MAKERS, PART, find, update
from pages import PAGES, ROOT, spans
import pytest

from emppi_ros.bridge import faults
from emppi_ros.core import config, paths
from emppi_ros.robots.robot import load_robot
from emppi_ros.tasks.residuals import RESIDUALS
from emppi_ros.tasks.task import load_task

REFERENCE = [page for page in PAGES if PART.search(page.read_text())]
USED = [part['words'] for page in REFERENCE for part in PART.finditer(page.read_text())]
FREE = {'settings', 'diagnostics', 'commands', 'wrong'}  # mappings of any names to plain values


def reachable(cls):
    """Return a class of keys, and those within it."""
    classes = {cls}
    for hint in typing.get_type_hints(cls).values():
        for inner in keys.classes(hint):
            if inner not in classes:
                classes |= reachable(inner)
    return classes


DOCUMENTED = set(RESIDUALS.values()).union(
    *(reachable(find(words.split()[1])) for words in USED if words.startswith('keys '))
)


@pytest.mark.parametrize('cls', sorted(DOCUMENTED, key=str), ids=lambda c: c.__name__)
def test_every_key_is_described_where_it_is_declared(cls):
    missing = [f.name for f in dataclasses.fields(cls) if not f.metadata.get('doc')]
    assert not missing, f'{cls.__module__}: {cls.__name__}: give {missing} a `doc`'


@pytest.mark.parametrize('cls', sorted(DOCUMENTED, key=str), ids=lambda c: c.__name__)
def test_every_mapping_says_what_it_holds(cls):
    hints = typing.get_type_hints(cls)
    open_ones = {n for n, hint in hints.items() if typing.Any in typing.get_args(hint)} - FREE
    assert open_ones == {name for owner, name in keys.OF_NAMES if owner == cls.__name__}


def test_whatever_is_read_from_shipped_files_is_in_the_reference(monkeypatch):
    built, inner = set(), config._build
    monkeypatch.setattr(config, '_build', lambda cls, *rest: built.add(cls) or inner(cls, *rest))
    for name in paths.available('robots'):
        load_robot(name)
    for name in ('panda_push', 'panda_drawer', 'cartpole_swingup', 'fr3_pickup', 'ur5e_reach'):
        load_task(name)
    assert built <= DOCUMENTED


@pytest.mark.parametrize('page', REFERENCE, ids=lambda p: p.stem)
def test_the_reference_is_that_of_the_code(page):
    pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
    text = page.read_text()
    assert update(text) == text, 'run `make reference`'


def test_every_part_of_the_reference_is_used():
    assert {words.split()[0] for words in USED} == set(MAKERS)


@pytest.mark.parametrize(('kind', 'uses'), [
    ('topics', ('publish', 'subscribe')), ('services', ('serve', 'call')),
    ('actions', ('execute', 'send goals')),
])  # fmt: skip
def test_topics_services_and_actions_are_those_that_the_policy_allows(kind, uses):
    allowed = set().union(*(graph.used(use) for use in uses))
    described = graph.described()[kind]
    optional = {name for name, entry in described.items() if entry.get('optional')}
    assert allowed - set(described) == set(), 'describe them in docs/reference/graph.yaml'
    assert set(described) - allowed == optional


def test_every_fault_is_told_what_to_do_about():
    codes = {v for n, v in vars(faults).items() if n.isupper() and isinstance(v, str)}
    assert codes == set(faults.MEANINGS)
    text = (ROOT / 'docs' / 'troubleshooting.md').read_text()
    assert not [code for code in codes if f'\n| `{code}` |' not in text]


def strings():
    """Return all string constants of the package."""
    texts = []
    for path in (ROOT / 'emppi_ros').rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


def test_messages_that_are_explained_are_those_of_the_code():
    text = (ROOT / 'docs' / 'troubleshooting.md').read_text()
    table = text[text.index('| message |') : text.index('## Setup and performance')]
    messages = re.findall(r'^\| `(.+?)` ', table, re.M)
    pieces = {p.strip() for m in messages[:] for p in m.split('…') if len(p.strip()) > 2}
    code = '\n'.join(strings())
    assert len(messages) > 15
    assert not [piece for piece in pieces if piece not in code]


@pytest.mark.parametrize('path', PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_code_that_a_page_points_to_exists(path):
    for span in spans(path):
        if match := re.fullmatch(r'([\w/]+\.py)(?::(\w+))?', span):
            place = next(
                (p for p in (ROOT / 'emppi_ros' / match[1], ROOT / match[1]) if p.is_file()), None
            )
            assert place, f'{span} does not exist'
            names = {getattr(n, 'name', '') for n in ast.walk(ast.parse(place.read_text()))}
            assert match[2] is None or match[2] in names, f'{span} does not exist'


@pytest.mark.parametrize('place', MAKERS.values())
def test_parts_of_the_reference_are_made_by_functions_that_exist(place):
    module, _, function = place.partition(':')
    if module == 'emppi_docs.parameters':
        pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
    assert callable(getattr(importlib.import_module(module), function))

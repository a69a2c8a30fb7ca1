"""Class names are unique, and unit tests lie where their module is."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, TESTS = ROOT / 'emppi_ros', ROOT / 'test' / 'unit'
CORE = (
    'core', 'model', 'robots', 'priors', 'tasks', 'state', 'journal', 'belief', 'planning', 'app',
)  # fmt: skip


def test_no_class_name_is_defined_twice() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip('_')].append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_folders_of_unit_tests_mirror_those_of_the_package() -> None:
    folders = {p.parent.relative_to(TESTS) for p in TESTS.rglob('test_*.py')} - {Path()}
    assert {folder for folder in folders if not (PACKAGE / folder).is_dir()} == set()


@pytest.mark.parametrize('folder', CORE)
def test_unit_tests_of_the_core_are_named_like_their_module(folder: str) -> None:
    modules = {path.stem for path in (PACKAGE / folder).glob('*.py')}
    for path in (TESTS / folder).glob('test_*.py'):  # of a module, or of one of its topics
        name = path.stem.removeprefix('test_')
        assert any(f'{name}_'.startswith(f'{module}_') for module in modules), path.name

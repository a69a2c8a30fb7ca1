"""`import emppi_ros` is light, needs no ROS, and offers what it lists."""

import ast
import subprocess
import sys

import pytest

import emppi_ros as emppi


def test_importing_the_package_loads_nothing_else():
    code = (
        'import sys; before = set(sys.modules); import emppi_ros; '
        'print(*sorted(name.split(".")[0] for name in set(sys.modules) - before))'
    )
    loaded = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(loaded) <= {'emppi_ros', *sys.stdlib_module_names}


@pytest.mark.slow
def test_every_public_name_loads_without_ros():
    code = (
        'import sys, emppi_ros as e; [getattr(e, n) for n in e.__all__]; '
        'print([n for n in sys.modules if n.startswith("rclpy")])'
    )
    run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == '[]'


@pytest.mark.parametrize('name', emppi.__all__)
def test_a_public_name_is_listed_and_documented(name):
    assert name in dir(emppi)
    assert getattr(emppi, name).__doc__


def test_editors_see_the_same_names_as_the_interpreter():
    with open(emppi.__file__, encoding='utf-8') as file:
        tree = ast.parse(file.read())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: item.module.removeprefix('emppi_ros.')
        for item in block.body
        for alias in item.names
    }
    assert seen == emppi._MODULES
    assert sorted(seen) == emppi.__all__ == sorted(emppi.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'emppi_ros' has no attribute 'Robot'"):
        emppi.Robot  # noqa: B018

"""Errors have one base class and list what exists."""

import inspect

from emppi_ros.core import errors
from emppi_ros.core.errors import EmppiError, unknown


def test_every_error_has_one_base_and_says_what_it_means():
    members = inspect.getmembers(errors, inspect.isclass)
    classes = [cls for _, cls in members if cls.__module__ == errors.__name__]
    assert len(classes) > 5
    for cls in classes:
        assert issubclass(cls, EmppiError) and cls.__doc__


def test_unknown_names_list_what_exists_and_the_closest():
    assert unknown('task', 'pnada', ['panda', 'cart']) == (
        "unknown task 'pnada' (did you mean 'panda'?); available: cart, panda"
    )
    assert unknown('task', 'x', []) == "unknown task 'x'; available: none"
    assert unknown('task', None, ['a']) == 'unknown task None; available: a'

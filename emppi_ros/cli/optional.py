"""Modules of ours that need more than the core: found, or it is said how to get that."""

import importlib
from types import ModuleType

from emppi_ros.core.errors import ConfigError


def load(name: str, otherwise: str) -> ModuleType:
    """Return a module of ours; ConfigError, with what is missing at `{}`, where it cannot run."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith('emppi_ros'):
            raise
        raise ConfigError(otherwise.format(error)) from None

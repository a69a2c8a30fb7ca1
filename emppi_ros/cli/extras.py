"""Import of modules that need an optional dependency; an error says how to install it."""

import importlib
from types import ModuleType

from emppi_ros.core.errors import ConfigError


def load(name: str, missing: str) -> ModuleType:
    """Import a module of this package; ConfigError with `missing`, the error at its `{}`."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith('emppi_ros'):
            raise
        raise ConfigError(missing.format(error)) from None


def load_node_module(name: str) -> ModuleType:
    """Import a module of `emppi_ros.nodes`; ConfigError where ROS 2 is not installed."""
    return load(
        f'emppi_ros.nodes.{name}',
        "ROS 2 is not installed ({}): source an installation, or `pip install 'emppi_ros[ros]'`",
    )


def load_web_module(name: str) -> ModuleType:
    """Import a module of `emppi_ros.viz.web`; ConfigError where viser is not installed."""
    return load(
        f'emppi_ros.viz.web.{name}',
        "the web page needs more packages ({}): pip install 'emppi_ros[view]'",
    )

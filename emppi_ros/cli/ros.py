"""What commands that need ROS 2 share: finding it, or saying how to get it."""

import importlib
from types import ModuleType

from emppi_ros.errors import ConfigError


def module(name: str) -> ModuleType:
    """Return a module of `emppi_ros.nodes`; ConfigError where ROS 2 is not installed."""
    try:
        return importlib.import_module(f'emppi_ros.nodes.{name}')
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith('emppi_ros'):
            raise
        raise ConfigError(
            f'ROS 2 is not to be found ({error}): source an installation, or `pip install '
            "'emppi_ros[ros]'`"
        ) from None

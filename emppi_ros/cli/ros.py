"""What commands that need ROS 2 share: finding it, or saying how to get it."""

from types import ModuleType

from emppi_ros.cli import optional


def module(name: str) -> ModuleType:
    """Return a module of `emppi_ros.nodes`; ConfigError where ROS 2 is not installed."""
    return optional.load(
        f'emppi_ros.nodes.{name}',
        "ROS 2 is not to be found ({}): source an installation, or `pip install 'emppi_ros[ros]'`",
    )

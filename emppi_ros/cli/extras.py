"""Import of modules that need an optional dependency; an error says how to install it."""

from types import ModuleType

from emppi_ros.core.errors import import_optional


def load_node_module(name: str) -> ModuleType:
    """Import a module of `emppi_ros.nodes`; ConfigError where ROS 2 is not installed."""
    return import_optional(
        f'emppi_ros.nodes.{name}',
        lambda error: (
            f'ROS 2 is not installed ({error}): source an installation, or '
            "`pip install 'emppi_ros[ros]'`"
        ),
    )


def load_web_module(name: str) -> ModuleType:
    """Import a module of `emppi_ros.viz.web`; ConfigError where viser is not installed."""
    return import_optional(
        f'emppi_ros.viz.web.{name}',
        lambda error: f"the web page needs more packages ({error}): pip install 'emppi_ros[view]'",
    )

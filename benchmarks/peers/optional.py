"""Import the packages that are compared, which `make peers` installs."""

from types import ModuleType

from emppi_ros.core.errors import BenchError, import_optional


def load(module: str) -> ModuleType:
    """Import a module; BenchError if it, or what it needs, is not installed."""
    return import_optional(
        module,
        lambda error: (
            f'bench peers: Python package {error.name!r} is not installed; `make peers` makes an '
            'environment with all that is compared, and runs the benchmark there'
        ),
        BenchError,
    )

"""Options that several benchmarks have."""

from collections.abc import Collection, Iterable

from emppi_ros.core.errors import ConfigError, unknown


def check_names(option: str, what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise ConfigError if an option has a name that is not known; `what` is its kind."""
    for name in names:
        if name not in known:
            raise ConfigError(f'{option}: {unknown(what, name, known)}')

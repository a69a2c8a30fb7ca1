"""Fields of the option classes of identification methods, which become command-line flags."""

from typing import Any

from emppi_ros.core.config import key, positive


def count(default: int, doc: str) -> Any:
    """Return a field for a number of things, at least one."""
    return key(default, check=lambda value: value >= 1, allowed='a positive integer', doc=doc)


def spread() -> Any:
    """Return the field `spread`, for methods whose posterior is linearised."""
    return positive(3.0, 'factor on the linearised standard deviations, which are too small')


def particles(default: int) -> Any:
    """Return the field `particles`, for methods that return particles."""
    return count(default, 'number of particles')


def window() -> Any:
    """Return the field `window`, for methods that simulate a recording in parallel windows."""
    return positive(0.5, 'length in s of the windows that are simulated in parallel')


def noise() -> Any:
    """Return the field `noise`, for methods that weigh residuals by the measurement noise."""
    return key(
        {},
        doc='standard deviations of measurements, such as position/hinge=0.001 (default: '
        'estimated by smoothing)',
    )

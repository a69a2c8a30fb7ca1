"""Values that are given by name, in a parameter of a node."""

from collections.abc import Mapping, Sequence

from emppi_ros.core.errors import ParameterError


def named_values(texts: Sequence[str]) -> Mapping[str, float]:
    """Return {name: value} of texts like `block_mass=0.3`; empty texts count for nothing."""
    values = {}
    for text in filter(None, texts):
        name, equals, value = text.partition('=')
        try:
            values[name.strip()] = float(value)
        except ValueError:
            equals = ''
        if not equals:
            raise ParameterError(f'truth: found {text!r}, expected name=value such as mass=0.3')
    return values

"""Measured joints, by name."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import JointStateError

Array = npt.NDArray[np.float64]
_LARGEST = 1e6  # rad, m, rad/s, m/s, N m or N: no robot measures more


def select_joints(
    wanted: Sequence[str], names: Sequence[str], values: Mapping[str, Sequence[float]]
) -> dict[str, Array]:
    """
    Return the wanted joints' values, mapped by name from a joint state in any order.

    Parameters
    ----------
    wanted : sequence of str
        The joints that are needed.
    names : sequence of str
        The joints that a message holds; further ones are left out.
    values : mapping
        Quantity (such as `position`) to one value per name.

    Raises
    ------
    JointStateError
        If a joint is missing or given twice, a quantity is missing, or a value is not finite.

    """
    where = {name: i for i, name in enumerate(names)}
    missing = [name for name in wanted if name not in where]
    if missing:
        raise JointStateError(
            f'missing joints: {", ".join(missing)}; the joint state has: {", ".join(names)}'
        )
    twice = (
        [name for name in wanted if list(names).count(name) > 1] if len(where) < len(names) else []
    )
    if twice:
        raise JointStateError(f'joints given twice: {", ".join(twice)}')
    out = {}
    for quantity, row in values.items():
        if len(row) != len(names):
            raise JointStateError(
                f'{quantity}: {len(row)} values for {len(names)} joints'
                + ('; this robot needs it' if len(row) == 0 else '')
            )
        out[quantity] = np.array([row[where[name]] for name in wanted], dtype=np.float64)
        bad = ~(np.abs(out[quantity]) <= _LARGEST)
        if bad.any():
            which = [name for name, b in zip(wanted, bad, strict=True) if b]
            raise JointStateError(
                f'{quantity} of {", ".join(which)} is not finite, or beyond {_LARGEST:g}'
            )
    return out

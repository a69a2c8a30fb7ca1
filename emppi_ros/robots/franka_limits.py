"""
Published limits of Franka's arms, at which the robots stop on their own.

Where published tables disagree, the tightest value is used. Sources: the CSV files of joint
limits in Franka's documentation (docs, `source/control-parameters-joint-*.csv`), the
`joint_limits.yaml` of franka_description, and libfranka's `rate_limiting.h` and
`joint_velocity_limits.cpp`.
"""

from collections.abc import Iterator, Mapping, Sequence
import functools
import re
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError

Row = tuple[float, ...]
NONE = 'none'
_EPSILON = 1e-3  # rad/s: margin of libfranka's own limiter (kLimitEps)
_ROUNDING = 1e-9  # relative, of numbers with 5 digits


class Envelope(NamedTuple):
    """
    Joint velocity allowed at a position (libfranka, `joint_velocity_limits.cpp`).

    It is min(dq_max, max(0, -offset + sqrt(max(0, 2 deceleration (q_max - q))))) upwards, and
    its mirror image downwards.
    """

    lower: Array  # (joints,) rad
    upper: Array  # (joints,) rad
    offset: Array  # (joints,) rad/s
    deceleration: Array  # (joints,) rad/s^2


class Table(NamedTuple):
    """Limits of joints 1 to 7."""

    lower: Row  # rad
    upper: Row  # rad
    velocity: Row  # rad/s
    acceleration: Row  # rad/s^2
    jerk: Row  # rad/s^3
    effort: Row  # N m
    envelopes: tuple[Envelope, ...] = ()


# Franka Emika Panda: docs `control-parameters-joint-fer.csv`, the same in franka_description
# `robots/fer/joint_limits.yaml`
FER = Table(
    (-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
    (2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973),
    (2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    (15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
    (7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0),
    (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0),
)
_DECELERATION = np.array([6.0, 2.585, 3.5, 4.0, 17.0, 5.5, 17.0])
# Franka Research 3. Positions: docs of 2025-08 and franka_description `robots/fr3`, inside of
# libfranka's and of those for system 5.9.0 and newer. The two envelopes cross: both apply.
FR3 = Table(
    (-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159),
    (2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159),
    (2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26),
    (10.0,) * 7,
    (5000.0,) * 7,
    (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0),
    (
        Envelope(  # libfranka `rate_limiting.h`, 0.21.2
            np.array([-2.7501, -1.7918, -2.9065, -3.0481, -2.8101, 0.54092, -3.0196]),
            np.array([2.7501, 1.7918, 2.9065, -0.1458, 2.8101, 4.5205, 3.0196]),
            np.array([0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35]),
            _DECELERATION,
        ),
        Envelope(  # docs of 2026-05, system 5.9.0 and newer
            np.array([-2.9007, -1.8361, -2.9007, -3.0770, -2.8763, 0.4398, -3.0508]),
            np.array([2.9007, 1.8361, 2.9007, -0.1169, 2.8763, 4.6216, 3.0508]),
            np.array([0.6599, 0.2517, 0.2000, 0.3533, 0.5757, 0.4878, 0.4628]),
            _DECELERATION,
        ),
    ),
)
TABLES: Mapping[str, Table] = {'fer': FER, 'fr3': FR3}


def rows_of(model: str, joints: Sequence[str]) -> list[int]:
    """Return the table row of each joint, from the number at the end of its name."""
    rows = []
    for name in joints:
        match = re.search(r'joint([1-7])$', name)
        if match is None:
            raise ConfigError(
                f'published: {model}: unknown joint {name!r}; names must end in joint1 to joint7'
            )
        rows.append(int(match[1]) - 1)
    return rows


def excesses(model: str, joints: Sequence[str], limits: Mapping[str, Row]) -> Iterator[str]:
    """Yield a sentence for each of the `limits`, rows by quantity, looser than those published."""
    rows = rows_of(model, joints)
    for quantity, values in limits.items():
        table = getattr(TABLES[model], quantity)
        sign = -1.0 if quantity == 'lower' else 1.0
        words = {'lower': 'lower position', 'upper': 'upper position'}.get(quantity, quantity)
        for name, row, value in zip(joints, rows, values, strict=True):
            if sign * (value - table[row]) > _ROUNDING * abs(table[row]):
                yield f'{words} of {name}: {value:g} is looser than the published {table[row]:g}'


@functools.cache  # used for every command, with the same few names
def envelopes(model: str, joints: tuple[str, ...]) -> tuple[Envelope, ...]:
    """Return the velocity envelopes of a model; empty if it has none."""
    if model == NONE or not TABLES[model].envelopes:
        return ()
    rows = rows_of(model, joints)
    return tuple(Envelope(*np.array(e)[:, rows]) for e in TABLES[model].envelopes)


def velocity_envelope(model: str, joints: tuple[str, ...], position: Array) -> tuple[Array, Array]:
    """Return the lowest and highest velocity (..., joints) that a model allows at positions."""
    up = np.zeros_like(position) + np.array(TABLES[model].velocity)[rows_of(model, joints)]
    down = up.copy()
    for envelope in envelopes(model, joints):
        for speed, room in ((up, envelope.upper - position), (down, position - envelope.lower)):
            braking = np.sqrt(2.0 * envelope.deceleration * np.maximum(room, 0.0))
            np.minimum(speed, np.maximum(braking - envelope.offset, 0.0), out=speed)
    return -np.maximum(down - _EPSILON, 0.0), np.maximum(up - _EPSILON, 0.0)

"""
Published recordings of real mechanisms, as tables that `emppi identify` reads.

To add one, write a function that yields its recordings, and add a line to DATASETS; `emppi bench
real --datasets NAME` then offers it. The data themselves are not part of this package.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
import yaml

from emppi_ros.core.errors import BenchError

Array = npt.NDArray[np.float64]
Quantities = Callable[[mujoco.MjModel], Mapping[str, float]]
PENDULUM_RATE_HZ = 400.0  # of the camera, as its authors say
PENDULUM_LENGTH_M = 0.091  # of the upper link, as its authors say
_PENDULUM_ROWS = slice(400, 3400)  # after the release, before friction has taken most energy


@dataclass(frozen=True)
class RealRecording:
    """
    One recording: a table in the columns of `emppi identify`, and what its authors publish.

    Attributes
    ----------
    name : str
        Shown to users.
    columns : mapping
        Column name -> samples (n,).
    published : mapping
        Quantity -> value, as far as there is one.

    """

    name: str
    columns: Mapping[str, Array]
    published: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """Recordings of one kind of mechanism, and how to model it."""

    description: str
    folder: str
    source: str
    model: str  # model file among the assets of the package
    read: Callable[[Path], Iterator[RealRecording]]
    quantities: Quantities  # what is compared, from a model with the estimated parameters
    units: Mapping[str, str]
    together: tuple[str, ...] = ()  # quantities that must agree in all recordings
    unsuitable: tuple[str, ...] = ()  # methods that need what was not recorded


def _free_pendulum(folder: Path) -> Iterator[RealRecording]:
    """Yield the runs of a double pendulum that was filmed: pixels of its pivot, elbow and tip."""
    for path in _files(folder, '*.csv.gz'):
        pixels = _load(path, 6)[_PENDULUM_ROWS]
        upper, lower = pixels[:, 2:4] - pixels[:, 0:2], pixels[:, 4:6] - pixels[:, 2:4]
        angles = [np.unwrap(np.arctan2(link[:, 1], link[:, 0])) for link in (upper, lower)]
        yield RealRecording(
            path.name,
            {
                'time_s': np.arange(len(pixels)) / PENDULUM_RATE_HZ,
                'position/shoulder [rad]': angles[0],
                'position/elbow [rad]': angles[1] - angles[0],
            },
            {'length': PENDULUM_LENGTH_M},
        )


def _of_free_pendulum(model: mujoco.MjModel) -> Mapping[str, float]:
    """
    Return the length of the upper link, and the camera's rate with which it is the published one.

    With gravity known, a length is proportional to the square of the unit of time.
    """
    length = float(model.body('lower').pos[0])
    return {
        'length': length,
        'rate for the published length': PENDULUM_RATE_HZ * np.sqrt(length / PENDULUM_LENGTH_M),
    }


def _driven_pendulum(folder: Path) -> Iterator[RealRecording]:
    """Yield the runs of a pendulum with a motor, with and without a load of 1 kg."""
    for path in _files(folder, '*energy*.csv.gz'):
        time, position, _, torque = _load(path, 4, skip=1).T
        yield RealRecording(
            path.name,
            {
                'time_s': time,
                'position/hinge [rad]': position,
                'command/hinge [N m]': torque,
            },
        )


def _of_driven_pendulum(model: mujoco.MjModel) -> Mapping[str, float]:
    """Return first moment and moment of inertia about the hinge, and friction."""
    body, joint = model.body('pendulum'), model.joint('hinge')
    moment = float(body.mass[0] * body.ipos[0])
    return {
        'first moment': moment,
        'moment of inertia': float(body.inertia[2] + body.ipos[0] * moment),
        'damping': float(joint.damping[0]),
        'dry friction': float(joint.frictionloss[0]),
    }


def _arm(folder: Path) -> Iterator[RealRecording]:
    """Yield the run of the arm with links of 0.3 and 0.2 m, and what its authors identified."""
    for path in _files(folder, 'design_A*.csv.gz'):
        model = folder / f'{path.name[:10]}_model_1.0.yml'
        try:
            given: dict[str, Any] = yaml.safe_load(model.read_text(encoding='utf-8'))
        except OSError as error:
            raise BenchError(f'{model}: cannot be read: {error.strerror}') from None
        time, *motion = _load(path, 7, skip=1).T
        names = ('position/shoulder [rad]', 'position/elbow [rad]')
        torques = ('command/shoulder [N m]', 'command/elbow [N m]')
        rotor = given['gr'] ** 2 * given['Ir']
        yield RealRecording(
            path.name,
            {
                'time_s': time,
                **dict(zip(names, motion[:2], strict=True)),
                **dict(zip(torques, motion[4:6], strict=True)),
            },
            {
                'upper first moment': given['m1'] * given['r1'] + given['m2'] * given['l1'],
                'upper moment of inertia': given['I1'] + given['m2'] * given['l1'] ** 2 + rotor,
                'lower first moment': given['m2'] * given['r2'],
                'lower moment of inertia': given['I2'] + rotor,
            },
        )


def _of_arm(model: mujoco.MjModel) -> Mapping[str, float]:
    """Return first moments and moments of inertia about the joints, and friction."""
    upper, lower = model.body('upper'), model.body('lower')
    reach = float(lower.pos[0])
    moment = float(lower.mass[0] * lower.ipos[0])
    found = {
        'upper first moment': float(upper.mass[0] * upper.ipos[0] + lower.mass[0] * reach),
        'upper moment of inertia': float(
            upper.inertia[2] + upper.mass[0] * upper.ipos[0] ** 2 + lower.mass[0] * reach**2
        ),
        'lower first moment': moment,
        'lower moment of inertia': float(lower.inertia[2] + lower.ipos[0] * moment),
    }
    for name in ('shoulder', 'elbow'):
        found[f'{name} damping'] = float(model.joint(name).damping[0])
        found[f'{name} dry friction'] = float(model.joint(name).frictionloss[0])
    return found


def _files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a data set in order; BenchError if there are none."""
    found = sorted(folder.glob(pattern), key=lambda path: (len(path.name), path.name))
    if not found:
        raise BenchError(f'{folder}: found no {pattern}')
    return found


def _load(path: Path, columns: int, skip: int = 0) -> Array:
    """Return the rows (n, columns) of a table of numbers."""
    try:
        rows: Array = np.loadtxt(path, delimiter=',', skiprows=skip, ndmin=2)
    except (OSError, ValueError) as error:
        raise BenchError(f'{path}: cannot be read: {error}') from None
    if rows.shape[1] != columns:
        raise BenchError(f'{path}: found {rows.shape[1]} columns, expected {columns}')
    return rows


_INERTIAL = {'first moment': 'kg m', 'moment of inertia': 'kg m^2'}
DATASETS: dict[str, Dataset] = {
    'free-pendulum': Dataset(
        'a double pendulum that swings freely, filmed',
        'ibm_double_pendulum',
        'IBM double-pendulum-chaotic-dataset, CDLA-Sharing 1.0',
        'real_double_pendulum.yaml',
        _free_pendulum,
        _of_free_pendulum,
        {'length': 'm', 'rate for the published length': 'Hz'},
        ('length',),
        ('rigid-body',),
    ),
    'driven-pendulum': Dataset(
        'a pendulum with a motor, with and without a load of 1 kg at 0.5 m',
        'dfki_simple_pendulum',
        'DFKI underactuated lab, torque-limited simple pendulum, BSD-3',
        'real_pendulum.yaml',
        _driven_pendulum,
        _of_driven_pendulum,
        {**_INERTIAL, 'damping': 'N m s/rad', 'dry friction': 'N m'},
    ),
    'arm': Dataset(
        'an arm of two links with motors at both joints',
        'dfki_double_pendulum',
        'DFKI underactuated lab, double pendulum, BSD-3',
        'real_arm.yaml',
        _arm,
        _of_arm,
        {
            **{f'{link} {name}': unit for link in ('upper', 'lower')
               for name, unit in _INERTIAL.items()},
            **{f'{joint} {name}': unit for joint in ('shoulder', 'elbow')
               for name, unit in (('damping', 'N m s/rad'), ('dry friction', 'N m'))},
        },
    ),
}  # fmt: skip

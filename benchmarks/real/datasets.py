"""
Published recordings of real mechanisms, as tables that `emppi identify` reads, and runs on them.

To add one, write a function that yields its recordings, and add a line to DATASETS; `emppi bench
real --datasets NAME` then offers it. The data themselves are not part of this package.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import yaml

from benchmarks.real import marker_calibration, tosses
from benchmarks.real.marker_calibration import MarkerOffsets
from benchmarks.real.tosses import HALF_WIDTH_M, Tosses
from benchmarks.study import Computed, Run
from emppi_ros.calibration import statistics
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import BenchError

Quantities = Callable[[mujoco.MjModel], Mapping[str, float]]
BELIEFS = ('belief', 'belief-constant')
PENDULUM_RATE_HZ = 400.0  # of the camera, as its authors say
PENDULUM_LENGTH_M = 0.091  # of the upper link, as its authors say
_CALIBRATED = 0.7  # share of a run by which markers are calibrated: what is learned from
# the authors' own, in experiment.json of their repository, DAIRLab/contact-nets; rigid contact
_CUBE_INERTIA = 0.2950002913583124 * HALF_WIDTH_M**2
_CUBE_RESTITUTION = 0.125
_PUBLISHED_CUBE = {
    'friction': 0.18,
    'time_constant': 0.0034,  # the stiffest contact for these physics steps
    'table_height': 0.0,
    'inertia': _CUBE_INERTIA,
}
_DEFAULT_CUBE = {
    'friction': 1.0,
    'time_constant': 0.02,
    'damping_ratio': 1.0,
    'table_height': 0.0,
    'inertia': 2.0 / 3.0 * 0.37 * HALF_WIDTH_M**2,  # of a solid cube
}
_PENDULUM_ROWS = slice(400, 3400)  # after the release, before friction has taken most energy


@dataclass(frozen=True)
class RealRecording:
    """One recording: a table in the columns of `emppi identify`, and what its authors publish."""

    name: str  # shown to users
    columns: Mapping[str, Array]  # column name -> samples (n,)
    # quantity -> value, as far as there is one
    published: Mapping[str, float] = field(default_factory=dict)
    # name of another model to forecast with -> its parameters, those of `Dataset.published`
    models: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # joint -> recorded velocities (n,), for the online belief; empty: not recorded
    velocities: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """Recordings of one kind of mechanism, and how to model it."""

    description: str
    folder: str
    source: str
    model: str  # model file in benchmarks/assets
    read: Callable[[Path], Iterator[RealRecording]]
    quantities: Quantities  # what is compared, from a model with the estimated parameters
    units: Mapping[str, str]
    methods: tuple[str, ...]  # without those that need what was not recorded
    together: tuple[str, ...] = ()  # quantities that must agree in all recordings
    published: str = ''  # model file with the parameters of published models


def _filmed_pendulum(folder: Path, calibrated: bool) -> Iterator[RealRecording]:
    """Yield the runs of a double pendulum that was filmed: pixels of its pivot, elbow and tip."""
    for path in _files(folder, '*.csv.gz'):
        pixels = _load(path, 6)[_PENDULUM_ROWS]
        offsets = MarkerOffsets(0j, 0j, 0j)
        if calibrated:
            offsets = marker_calibration.find_offsets(
                pixels[: math.ceil(_CALIBRATED * len(pixels))]
            )
        upper, lower = marker_calibration.link_angles(pixels, offsets)
        yield RealRecording(
            path.name,
            {
                'time_s': np.arange(len(upper)) / PENDULUM_RATE_HZ,
                'position/shoulder [rad]': upper,
                'position/elbow [rad]': lower - upper,
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
        time, position, velocity, torque = _load(path, 4, skip=1).T
        yield RealRecording(
            path.name,
            {
                'time_s': time,
                'position/hinge [rad]': position,
                'command/hinge [N m]': torque,
            },
            velocities={'hinge': velocity},
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


def _arm(
    folder: Path, design: str, torque: int, versions: Sequence[str]
) -> Iterator[RealRecording]:
    """Yield the run of an arm, and its authors' models; `torque` is the first column of it."""
    for path in _files(folder, f'{design}*.csv.gz'):
        given = _read_yaml(folder / f'{path.name[:10]}_model_1.0.yml')
        models = {
            f'published {version}': _parameters_of_arm(
                _read_yaml(folder / f'{path.name[:10]}_model_{version}.yml')
            )
            for version in versions
        }
        time, *motion = _load(path, torque + 2, skip=1).T
        names = ('position/shoulder [rad]', 'position/elbow [rad]')
        torques = ('command/shoulder [N m]', 'command/elbow [N m]')
        rotor = given['gr'] ** 2 * given['Ir']
        yield RealRecording(
            path.name,
            {
                'time_s': time,
                **dict(zip(names, motion[:2], strict=True)),
                **dict(zip(torques, motion[torque - 1 :], strict=True)),
            },
            {
                'upper first moment': given['m1'] * given['r1'] + given['m2'] * given['l1'],
                'upper moment of inertia': given['I1'] + given['m2'] * given['l1'] ** 2 + rotor,
                'lower first moment': given['m2'] * given['r2'],
                'lower moment of inertia': given['I2'] + rotor,
            },
            models,
            dict(zip(('shoulder', 'elbow'), motion[2:4], strict=True)),
        )


def _parameters_of_arm(given: Mapping[str, float]) -> dict[str, float]:
    """
    Return the parameters of a published model: moments of inertia are about the joints.

    Rotors turn with their joints only; their coupling through the structure is left out.
    """
    parameters: dict[str, float] = {}
    for link, joint, i in (('upper', 'shoulder', '1'), ('lower', 'elbow', '2')):
        mass, centre = given[f'm{i}'], given[f'r{i}']
        parameters |= {
            f'{link}_mass': mass,
            f'{link}_centre': centre,
            f'{link}_inertia': given[f'I{i}'] - mass * centre**2,
            f'{joint}_armature': given['gr'] ** 2 * given['Ir'],
            f'{joint}_damping': given[f'b{i}'],
            f'{joint}_friction': given[f'cf{i}'],
        }
    return parameters


def _read_yaml(path: Path) -> Mapping[str, float]:
    """Return the numbers in a YAML file."""
    try:
        numbers: dict[str, Any] = yaml.safe_load(path.read_text(encoding='utf-8'))
    except OSError as error:
        raise BenchError(f'{path}: cannot be read: {error.strerror}') from None
    return numbers


def _of_arm(model: mujoco.MjModel) -> Mapping[str, float]:
    """Return first moments and moments of inertia about the joints, and friction."""
    upper, lower = model.body('upper'), model.body('lower')
    reach = float(lower.pos[0])
    moment = float(lower.mass[0] * lower.ipos[0])
    quantities = {
        'upper first moment': float(upper.mass[0] * upper.ipos[0] + lower.mass[0] * reach),
        'upper moment of inertia': float(
            upper.inertia[2] + upper.mass[0] * upper.ipos[0] ** 2 + lower.mass[0] * reach**2
        ),
        'lower first moment': moment,
        'lower moment of inertia': float(lower.inertia[2] + lower.ipos[0] * moment),
    }
    for name in ('shoulder', 'elbow'):
        quantities[f'{name} damping'] = float(model.joint(name).damping[0])
        quantities[f'{name} dry friction'] = float(model.joint(name).frictionloss[0])
    return quantities


def _cube(folder: Path) -> Iterator[RealRecording]:
    """Yield tosses of a cube twice: each time, every other one is held out."""
    rows = [_load(path, 13, skip=1) for path in _files(folder, '*.csv.gz')]
    table = np.concatenate(rows)
    toss = np.repeat(np.arange(len(rows)), list(map(len, rows)))
    ratio = tosses.damping_ratio(_CUBE_RESTITUTION)
    table[:, [0, 1, 2, 7, 8, 9]] *= HALF_WIDTH_M
    for half in (0, 1):
        yield RealRecording(
            f'half {half + 1}',
            {
                'toss': toss.astype(float),
                'held out': (toss % 2 != half).astype(float),
                **{f'state {i}': column for i, column in enumerate(table.T)},
            },
            {
                'friction': _PUBLISHED_CUBE['friction'],
                'restitution': _CUBE_RESTITUTION,
                'moment of inertia': _CUBE_INERTIA,
            },
            {
                'published': {**_PUBLISHED_CUBE, 'damping_ratio': ratio},
                "MuJoCo's defaults": _DEFAULT_CUBE,
            },
        )


def tosses_of(recording: RealRecording) -> tuple[Tosses, Tosses]:
    """Return the tosses to learn from, and those held out."""
    toss, held = recording.columns['toss'], recording.columns['held out'] > 0.0
    rows = np.column_stack([recording.columns[f'state {i}'] for i in range(13)])
    learned, later = (
        tosses.from_rows(toss[part], rows[part, :7], rows[part, 7:]) for part in (~held, held)
    )
    return learned, later


def _of_cube(model: mujoco.MjModel) -> Mapping[str, float]:
    """Return the contact properties of cube and table, and the inertia."""
    geom = model.geom('cube')
    return {
        'friction': float(geom.friction[0]),
        'restitution': tosses.restitution(float(geom.solref[1])),
        'time constant': float(geom.solref[0]),
        'height of the table': float(model.body('table').pos[2]),
        'moment of inertia': float(model.body('cube').inertia[0]),
    }


def _files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a data set in order; BenchError if there are none."""
    files = sorted(folder.glob(pattern), key=lambda path: (len(path.name), path.name))
    if not files:
        raise BenchError(f'{folder}: found no {pattern}')
    return files


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
_OF_ARM = {
    **{f'{link} {name}': unit for link in ('upper', 'lower')
       for name, unit in _INERTIAL.items()},
    **{f'{joint} {name}': unit for joint in ('shoulder', 'elbow')
       for name, unit in (('damping', 'N m s/rad'), ('dry friction', 'N m'))},
}  # fmt: skip
DATASETS: dict[str, Dataset] = {
    'free-pendulum': Dataset(
        'a double pendulum that swings freely, filmed',
        'ibm_double_pendulum',
        'IBM double-pendulum-chaotic-dataset, CDLA-Sharing 1.0',
        'real_double_pendulum.yaml',
        partial(_filmed_pendulum, calibrated=False),
        _of_free_pendulum,
        {'length': 'm', 'rate for the published length': 'Hz'},
        ('shooting', 'states', 'sysid', 'csvgd', *BELIEFS),
        ('length',),
    ),
    'calibrated-pendulum': Dataset(
        'the same recordings, with markers that need not be on the axes: their offsets are found '
        'from the distances between them, which must be constant. The model has centres of mass '
        'beside the links, and dry friction of the elbow',
        'ibm_double_pendulum',
        'IBM double-pendulum-chaotic-dataset, CDLA-Sharing 1.0',
        'real_double_pendulum_offsets.yaml',
        partial(_filmed_pendulum, calibrated=True),
        _of_free_pendulum,
        {'length': 'm', 'rate for the published length': 'Hz'},
        ('shooting',),
        ('length',),
    ),
    'driven-pendulum': Dataset(
        'a pendulum with a motor, with and without a load of 1 kg at 0.5 m',
        'dfki_simple_pendulum',
        'DFKI underactuated lab, torque-limited simple pendulum, BSD-3',
        'real_pendulum.yaml',
        _driven_pendulum,
        _of_driven_pendulum,
        {**_INERTIAL, 'damping': 'N m s/rad', 'dry friction': 'N m'},
        ('shooting', 'states', 'rigid-body', 'sysid', *BELIEFS),
    ),
    'arm': Dataset(
        'an arm of two links with motors at both joints',
        'dfki_double_pendulum',
        'DFKI underactuated lab, double pendulum, BSD-3',
        'real_arm.yaml',
        partial(_arm, design='design_A', torque=5, versions=('1.0', '2.0')),
        _of_arm,
        _OF_ARM,
        ('shooting', 'states', 'rigid-body', 'sysid', *BELIEFS, 'published'),
        published='real_arm_published.yaml',
    ),
    'long-arm': Dataset(
        'an arm of two links with motors at both joints, of which the lower is longer',
        'dfki_double_pendulum',
        'DFKI underactuated lab, double pendulum, BSD-3',
        'real_long_arm.yaml',
        partial(_arm, design='design_C', torque=13, versions=('1.0',)),
        _of_arm,
        _OF_ARM,
        ('shooting', 'states', 'rigid-body', 'sysid', *BELIEFS, 'published'),
        published='real_long_arm_published.yaml',
    ),
    'cube': Dataset(
        'a cube that is tossed on a table',
        'cube_tosses',
        'DAIRLab, ContactNets (Pfrommer, Halm, Posa 2020), BSD-3',
        'real_cube.yaml',
        _cube,
        _of_cube,
        {
            'friction': '-', 'restitution': '-', 'time constant': 's',
            'height of the table': 'm', 'moment of inertia': 'kg m^2',
        },
        ('rollouts', 'published'),
        ('friction',),
        'real_cube.yaml',
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """One quantity of a mechanism."""

    value: float
    low: float  # 5 % quantile
    high: float  # 95 %
    published: float | None = None

    @property
    def inside(self) -> bool | None:
        """Whether the 90 % interval holds the published value."""
        return None if self.published is None else self.low <= self.published <= self.high


@dataclass(frozen=True)
class ForecastError:
    """The forecasts of one joint over half a second."""

    rms: float  # of the median, rad
    median: float  # of the absolute errors of the median, rad
    inside: float  # share of measurements in the 90 % band
    inside_noisy: float | None = None  # with random torques; None: not computed


@dataclass(frozen=True)
class Score:
    """A measure of quality, with its 95 % interval where there is one; None: there is none."""

    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None


def score_share(hits: Bools) -> Score:
    """Return the share [%] of true values."""
    share = statistics.share(hits.tolist())
    return Score(100.0 * share.rate, '%', 100.0 * share.low, 100.0 * share.high)


@dataclass(frozen=True)
class RealRun(Run):
    """A method on a recording."""

    dataset: str
    recording: str
    method: str


@dataclass(frozen=True)
class RealCell(RealRun):
    """A run to compute."""

    data: RealRecording
    digest: str  # of recording and model


@dataclass(frozen=True)
class RealRow(RealRun, Computed):
    """The result of one method on one recording."""

    refused: str = ''  # why there is no estimate; '' if there is one
    quantities: Mapping[str, Estimate] = field(default_factory=dict)
    # by joint; empty if a simulation diverges
    forecasts: Mapping[str, ForecastError] = field(default_factory=dict)
    scores: Mapping[str, Score] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # what the monitor of a belief complains of
    identify_s: float | None = None  # time of identification alone
    steps: int | None = None  # of physics in it; 0 if a method needs none

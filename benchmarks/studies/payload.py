"""`emppi bench payload`: the payload of a simulated FR3, from noisy joint torques."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
import functools
import time
from typing import ClassVar, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from benchmarks import runner
from benchmarks.identify import arm_experiment
from benchmarks.identify.arm_experiment import PERIOD_S
from benchmarks.study import Axis, Cells, Page, Results, Run, Selection, Study
from emppi_ros.calibration import hardware, report
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import ASSETS
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.rigid_body import arm, excitation_trajectory, inference
from emppi_ros.identification.rigid_body import recordings as arm_recordings
from emppi_ros.identification.rigid_body import report as rigid_body_report
from emppi_ros.model import scene
from emppi_ros.recordings.recordings import Recording
from emppi_ros.recordings.signals import Signal

Array = npt.NDArray[np.float64]
TRUTH = {'mass': 0.73, 'x': 0.01, 'y': -0.02, 'z': 0.05, 'moment': 1.1e-3, 'friction': 0.1}
_INERTIA = TRUTH['moment'], 0.9e-3, 0.6e-3
_EVALUATED = 'mass', 'x', 'y', 'z', 'friction'  # the moment is hardly excited
LEVELS = (1e-4, 0.5), (1e-3, 2.0)  # rad, N m
_PHYSICS_S, _STEPS_PER_SAMPLE = 5e-4, 2  # physics steps per sample


class PayloadVariant(NamedTuple):
    """What the scene lacks besides the payload and viscous friction."""

    dry: float = 0.0  # dry friction of each joint in N m
    offset: float = 0.0  # offset of each torque sensor in N m
    late: int = 0  # lag of torques in samples
    links: bool = True  # whether links are known


VARIANTS = {
    'plain': PayloadVariant(),
    'dry friction, offsets': PayloadVariant(dry=0.5, offset=0.3),
    'links unknown': PayloadVariant(links=False),
    'torques 5 ms late': PayloadVariant(late=5),
}


@dataclass(frozen=True)
class EstimatedParameter:
    """An estimate of `emppi identify`."""

    value: float
    sd: float


@dataclass(frozen=True)
class PayloadResult:
    """What is identified from a recording; `error` says why nothing is."""

    variant: str
    noise_rad: float
    noise_nm: float
    error: str = ''
    off_in_sd: float | None = (
        None  # error of mass, centre and friction in standard deviations, rms
    )
    torque_lag_s: float | None = None
    cpu_s: float | None = None
    parameters: Mapping[str, EstimatedParameter] = field(default_factory=dict)


@dataclass(frozen=True)
class PayloadRun(Run):
    """A motion of the arm, drawn at random or chosen for its information."""

    excitation: str
    seed: int


@dataclass(frozen=True)
class PayloadCell(PayloadRun):
    """A motion to record and to identify from."""

    digest: str = ''


@dataclass(frozen=True)
class PayloadRow(PayloadRun):
    """The results of a motion, by variant and noise."""

    digest: str
    results: tuple[PayloadResult, ...]
    compute_s: float
    made_by: str


class PayloadStudy(Study[PayloadCell, PayloadRow]):
    """The payload of a simulated FR3, by `emppi identify --method rigid-body`."""

    name = 'payload'
    help = 'identify the payload of a simulated FR3 from joint torques'
    description = """
Simulate an FR3 with a payload along motions, and identify it from noisy positions and torques.
"""
    row = PayloadRow
    axes: ClassVar[Mapping[str, Axis]] = {
        'excitation': Axis(
            'motion', ('chosen', 'drawn'), ('chosen',), 'for its information, or at random'
        )
    }
    seeds = range(2)
    quick = 'one motion'
    outdated_by = 'keys'

    def cells(self, selection: Selection) -> Cells:
        """Return a cell for each motion."""
        names = selection.names['excitation']
        return Cells([PayloadCell(name, seed) for seed in selection.seeds for name in names])

    def compute(self, cell: PayloadCell) -> PayloadRow:
        """Return the results of a motion."""
        began = time.perf_counter()
        return PayloadRow(
            **cell.identity,
            digest=cell.digest,
            results=tuple(measure(cell.excitation, cell.seed)),
            compute_s=time.perf_counter() - began,
            made_by=hardware.label(),
        )

    def page(self, results: Results) -> Page:
        """Return a table of all recordings."""
        rows: Sequence[PayloadRow] = results.rows
        lines = [[row.seed, row.excitation, *_line(one)] for row in rows for one in row.results]
        values = {'truth': f'{TRUTH["mass"]:g}', 'recordings': report.table(_HEADER, lines)}
        shown = ('  '.join(map(str, line)) for line in lines)
        data = {'truth': TRUTH, 'rows': [asdict(row) for row in rows]}
        return Page(values, {}, (), shown, data)


_HEADER = (
    'seed',
    'motion',
    'variant',
    'rad',
    'N m',
    'mass [kg]',
    'error / sd',
    'lag [ms]',
    'cpu [s]',
)


def _line(of: PayloadResult) -> list[object]:
    head: list[object] = [of.variant, f'{of.noise_rad:.0e}', of.noise_nm]
    if of.off_in_sd is None or of.torque_lag_s is None or of.cpu_s is None:
        return [*head, of.error, '-', '-', '-']
    mass = of.parameters['mass']
    numbers = f'{of.off_in_sd:.2f}', f'{1e3 * of.torque_lag_s:.2f}', f'{of.cpu_s:.1f}'
    return [*head, f'{mass.value:.4f} +- {mass.sd:.4f}', *numbers]


def measure(excitation: str, seed: int) -> Iterator[PayloadResult]:
    """Yield the result of each variant and noise level, of the same motion."""
    plant = Plant.from_file(ASSETS / 'fr3_payload.yaml')
    limits, names = arm_experiment.limits_of('fr3'), scene.names(true_arm(0.0), 'joint')
    if excitation == 'chosen':
        model = arm.load(ASSETS / 'fr3_follow.xml', joints=names)
        motion = arm_experiment.optimized_motion(model, limits, seed)
    else:
        rng = np.random.default_rng([seed, 1])
        motion = excitation_trajectory.random_motion(limits, PERIOD_S, rng)
    times = np.arange(0.0, PERIOD_S, _PHYSICS_S)
    wanted = excitation_trajectory.evaluate_motion(motion, times)
    done = {dry: simulate(true_arm(dry), wanted) for dry in {v.dry for v in VARIANTS.values()}}
    for name, variant in VARIANTS.items():
        for level in LEVELS:
            rng = np.random.default_rng([seed, 2])
            samples = done[variant.dry][:, ::_STEPS_PER_SAMPLE]
            recording = record_sensors(samples, names, variant, level, rng)
            yield identify(PayloadResult(name, *level), plant, recording, variant.links, seed)


def true_arm(dry: float) -> mujoco.MjModel:
    """Return the FR3 with its payload and without rotors, so that torques are those at links."""
    spec = arm.load_spec(ASSETS / 'fr3_follow.xml', joints=['fr3_joint1'])
    for body in spec.bodies:
        body.gravcomp = 0.0
    held = spec.body('payload')
    held.mass, held.ipos, held.inertia = TRUTH['mass'], [TRUTH[axis] for axis in 'xyz'], _INERTIA
    model = spec.compile()
    model.dof_armature[:], model.dof_damping[:] = 0.0, TRUTH['friction']
    model.dof_frictionloss[:] = dry
    model.opt.timestep = _PHYSICS_S
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT.value
    return model


def simulate(model: mujoco.MjModel, wanted: Array) -> Array:
    """Return positions and torques (2, n, nv) of physics steps along a motion (3, n, nv)."""
    data, scratch = mujoco.MjData(model), mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = wanted[0, 0], wanted[1, 0]
    rows = np.empty((2, *wanted.shape[1:]))
    for k, (place, rate, rise) in enumerate(np.swapaxes(wanted, 0, 1)):
        scratch.qpos[:], scratch.qvel[:] = data.qpos, data.qvel
        feedback, slow = place - data.qpos, rate - data.qvel
        scratch.qacc[:] = rise + (
            arm_experiment.STIFFNESS * feedback + arm_experiment.DAMPING * slow
        )
        mujoco.mj_inverse(model, scratch)
        data.qfrc_applied[:] = scratch.qfrc_inverse
        rows[:, k] = data.qpos, data.qfrc_applied
        mujoco.mj_step(model, data)
    return rows


def record_sensors(
    rows: Array, names: list[str], variant: PayloadVariant, level: tuple[float, float],
    rng: np.random.Generator,
) -> Recording:  # fmt: skip
    """Return the sensor readings of positions and torques (2, n, nv)."""
    position, torque = rows + np.array(level)[:, None, None] * rng.standard_normal(rows.shape)
    readings = {
        'position': ('rad', position[variant.late :]),
        'effort': ('N m', torque[: len(torque) - variant.late] + variant.offset),
    }
    counter = np.arange(len(torque) - variant.late, dtype=np.float64)
    clock = _STEPS_PER_SAMPLE * _PHYSICS_S * counter
    signals = {
        (kind, name): Signal(kind, name, unit, clock, column, f'{kind}/{name}')
        for kind, (unit, values) in readings.items()
        for name, column in zip(names, values.T, strict=True)
    }
    return Recording(signals, ())


def identify(
    of: PayloadResult, plant: Plant, recording: Recording, links: bool, seed: int
) -> PayloadResult:
    """Return the estimates of `emppi identify`, their errors in sds, and the cost."""
    began = time.process_time()
    try:
        recorded = arm_recordings.read(plant, recording)
        estimate = inference.identify_bodies(plant, recorded, links)
        draws = rigid_body_report.draw(estimate, 1.0, posterior_samples.PRIOR_SAMPLES, seed)
    except IdentificationError as error:
        return replace(of, error=str(error))
    summary = rigid_body_report.summarize(plant, estimate, draws)
    rows = summary['parameters']
    errors = [(rows[name]['value'] - TRUTH[name]) / rows[name]['sd'] for name in _EVALUATED]
    (recorded_in,) = summary['recordings'].values()
    return replace(
        of,
        off_in_sd=float(np.sqrt(np.mean(np.square(errors)))),
        torque_lag_s=recorded_in['torque_lag_s'],
        cpu_s=time.process_time() - began,
        parameters={n: EstimatedParameter(row['value'], row['sd']) for n, row in rows.items()},
    )


STUDY = PayloadStudy()
add_command = functools.partial(runner.add_command, STUDY)

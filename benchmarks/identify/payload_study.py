"""Case `payload` of the study `rigid-body`: the payload of a simulated FR3."""

from collections.abc import Callable, Iterator
import time
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from benchmarks.identify import arm_experiment
from benchmarks.identify.arm_experiment import PERIOD_S, ArmStudySetup
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import ASSETS
from emppi_ros.identify.common import posterior_samples
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.rigid_body import arm, excitation_trajectory, inference, report
from emppi_ros.identify.rigid_body import recordings as arm_recordings
from emppi_ros.model import scene
from emppi_ros.recordings.recordings import Recording
from emppi_ros.recordings.signals import Signal

Array = npt.NDArray[np.float64]
TRUTH = {'mass': 0.73, 'x': 0.01, 'y': -0.02, 'z': 0.05, 'moment': 1.1e-3, 'friction': 0.1}
_INERTIA = TRUTH['moment'], 0.9e-3, 0.6e-3
_EVALUATED = 'mass', 'x', 'y', 'z', 'friction'  # the moment is hardly excited
LEVELS = (1e-4, 0.5), (1e-3, 2.0)  # rad, N m
MOTIONS = 2
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


def measure(setup: ArmStudySetup, advance: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Yield a row for each motion, variant and noise level; `advance` is called after each."""
    plant = Plant.from_file(ASSETS / 'fr3_payload.yaml')
    limits, names = arm_experiment.limits_of('fr3'), scene.names(true_arm(0.0), 'joint')
    for seed in range(setup.seed, setup.seed + setup.trials):
        if setup.excitation == 'chosen':
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
                of = {'seed': seed, 'variant': name, 'noise_rad': level[0], 'noise_nm': level[1]}
                yield of | identify(plant, recording, variant.links, seed)
                advance()


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


def identify(plant: Plant, recording: Recording, links: bool, seed: int) -> dict[str, Any]:
    """Return the estimates of `emppi identify`, their errors in sds, and the cost."""
    began = time.process_time()
    try:
        recorded = arm_recordings.read(plant, recording)
        estimate = inference.identify_bodies(plant, recorded, links)
        draws = report.draw(estimate, 1.0, posterior_samples.PRIOR_SAMPLES, seed)
    except IdentificationError as error:
        return {'error': str(error)}
    summary = report.summarize(plant, estimate, draws)
    rows = summary['parameters']
    errors = [(rows[name]['value'] - TRUTH[name]) / rows[name]['sd'] for name in _EVALUATED]
    (own,) = summary.pop('recordings').values()
    return {
        'mass': rows['mass']['value'],
        'mass_sd': rows['mass']['sd'],
        'off_in_sd': float(np.sqrt(np.mean(np.square(errors)))),
        **own,
        'cpu_s': time.process_time() - began,
        **summary,
    }

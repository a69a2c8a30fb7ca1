"""Convert recordings to motions of an arm and torques of its links."""

from collections.abc import Callable, Sequence
import functools
import math
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.interpolate import CubicSpline

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import SceneFile
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.rigid_body import arm, composite_bodies, motion_samples
from emppi_ros.identification.rigid_body.composite_bodies import CompositePart
from emppi_ros.identification.rigid_body.motion_samples import DifferentiatedMotion, SampledSignals
from emppi_ros.model import scene
from emppi_ros.recordings import matching
from emppi_ros.recordings.noise import rounding_noise, uneven_difference_noise
from emppi_ros.recordings.recordings import (
    Recording,
    check_same_joints,
    named_errors,
    recording_names,
)
from emppi_ros.recordings.signals import Signal, box_average, common_clock

_MISSING = 1.5  # usual periods: a longer one lacks a sample


class JointDrive(NamedTuple):
    """Recorded signals that drive a joint: measured torques, or commands of motors."""

    commands: tuple[tuple[Signal, float], ...]  # commands of motors with their gains
    measured: tuple[Signal, ...]
    scene_rotor: float  # kg m^2 or kg

    def torque(self, time: Array, step: float) -> Array:
        """Return the torque at times (n,); commands are averaged over a step about each."""
        total = np.zeros(len(time))
        for signal in self.measured:
            total += np.interp(time, signal.time, signal.values)
        for signal, gain in self.commands:
            total += gain * box_average(signal, time, step)
        return total

    def deviation(self, time: Array) -> float:
        """Return the standard deviation of the torque noise over `time` (n,)."""
        shares = [*((signal, 1.0) for signal in self.measured), *self.commands]
        return math.hypot(*(gain * noise_while(signal, time) for signal, gain in shares))

    @property
    def rotor(self) -> float:
        """The rotor inertia of the scene, as far as the torque is that of motors."""
        return self.scene_rotor if self.commands else 0.0

    @classmethod
    def of(cls, model: mujoco.MjModel, recording: Recording, name: str) -> 'JointDrive':
        """Return the drive of a joint; IdentificationError if its torque was not recorded."""
        if ('position', name) not in recording.signals:
            raise IdentificationError(
                f'position of joint {name!r} was not recorded; recorded: '
                f'{recording.listed("position")}'
            )
        given = [recording.signals.get((kind, name)) for kind in ('effort', 'torque')]
        measured = tuple(signal for signal in given if signal is not None)
        joint = scene.find(model, 'joint', name)
        rotor = float(np.ravel(model.dof_armature[model.jnt_dofadr[joint]])[0])
        if given[0] is not None:
            return cls((), measured, rotor)
        driving = scene.actuators_of(model, joint)
        servos = [a for a in driving if not _is_motor(model, a)]
        if servos and measured:
            return cls((), measured, rotor)  # `torque`, which can only be the drive's
        if servos:
            servo = scene.names(model, 'actuator')[servos[0]]
            raise IdentificationError(
                f'joint {name!r}: no torque was recorded, and commands of the servo {servo!r} '
                f'are not torques: record effort/{name}, the torque at the link, gravity included'
            )
        motors = {
            matching.find_actuator(model, s): s
            for (kind, _), s in recording.signals.items()
            if kind == 'command'
        }
        if any(a not in motors for a in driving) or not (driving or measured):
            raise IdentificationError(
                f'joint {name!r}: no torque was recorded: record effort/{name}, the torque at '
                f'the link, gravity included; recorded efforts: {recording.listed("effort")}'
            )
        gains = model.actuator_gainprm[:, 0] * model.actuator_gear[:, 0]
        held = tuple((_clip_to_range(model, a, motors[a]), float(gains[a])) for a in driving)
        return cls(held, measured, rotor)


def noise_while(signal: Signal, time: Array) -> float:
    """Return the standard deviation of a signal's noise over `time` (n,), rounding included."""
    here = (signal.time >= time[0]) & (signal.time <= time[-1])
    noise = uneven_difference_noise(signal.time[here], signal.values[here])
    return max(noise, rounding_noise(signal.values[here]))


def interpolate(signal: Signal, time: Array) -> Array:
    """Return positions at times (n,): linear between samples, cubic if some are missing."""
    if np.max(np.diff(signal.time)) < _MISSING * signal.period:
        return np.interp(time, signal.time, signal.values)
    return np.asarray(CubicSpline(signal.time, signal.values)(time), dtype=np.float64)


def _clip_to_range(model: mujoco.MjModel, actuator: int, command: Signal) -> Signal:
    """Return a command clipped to the control range of its actuator."""
    if not model.actuator_ctrllimited[actuator]:
        return command
    return command._replace(values=np.clip(command.values, *model.actuator_ctrlrange[actuator]))


def _is_motor(model: mujoco.MjModel, actuator: int) -> bool:
    return (
        model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED.value
        and model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE.value
    )


def commanded_joints(model: mujoco.MjModel, recording: Recording) -> set[str]:
    """Return the names of joints whose actuator commands were recorded."""
    of = [
        matching.find_actuator(model, signal)
        for (kind, _), signal in recording.signals.items()
        if kind == 'command'
    ]
    names = scene.names(model, 'joint')
    return {name for j, name in enumerate(names) if set(scene.actuators_of(model, j)) & set(of)}


class ArmRecording(NamedTuple):
    """One recording: training part and held-out part."""

    name: str  # of its files
    training: DifferentiatedMotion
    held_out: DifferentiatedMotion | None
    resample: Callable[[Array | float], 'ArmRecording']  # with a tolerance, of `split_samples`


class RecordedArm(NamedTuple):
    """Model of the recorded arm, its parts, and all recordings."""

    model: mujoco.MjModel  # one body per joint
    parts: Sequence[CompositePart]
    recordings: tuple[ArmRecording, ...]
    rotors: Array  # (nv,) rotor inertia of the scene, kg m^2 or kg


def read(
    plant: Plant, *recordings: Recording, held_out: float = 0.0, armature: bool = True
) -> RecordedArm:
    """
    Return the arm whose joints were recorded, with its motions and torques.

    The last share `held_out` of each recording is held out. Torques are recorded efforts, which
    include gravity; without efforts, commands of motors. External forces and model springs are
    added. Unless the inertia of rotors (`armature`) is unknown, the scene's is subtracted from
    commands, and efforts are taken for those at the links. IdentificationError if something is
    missing or inconsistent.
    """
    file, names = scene_file_of(plant), recording_names(recordings)
    moving = [_recorded_joints(plant, *pair) for pair in zip(names, recordings, strict=True)]
    check_same_joints(names, moving)
    model, loose = (arm.load(file.path, file.root, moving[0], fuse) for fuse in (True, False))
    joints = scene.names(model, 'joint')
    read_recordings, weightless = list[ArmRecording](), list[bool]()
    for name, recording in zip(names, recordings, strict=True):
        with named_errors(name):
            drives = [JointDrive.of(plant.model, recording, joint) for joint in joints]
            weightless.append(_is_gravity_compensated(plant.model, model, drives))
            rotors = np.array([0.0 if armature else drive.rotor for drive in drives])
            sample = _sampler(recording, joints, drives)
            read_recordings.append(_convert(name, model, rotors, sample, held_out, 1.0))
    if any(weightless):
        if not all(weightless):
            without, having = (names[weightless.index(is_one)] for is_one in (True, False))
            raise IdentificationError(
                f'torques of {having} include gravity, those of {without} do not '
                '(commands with gravcomp): record all in the same way'
            )
        model.opt.gravity[:] = 0.0
    for springs in _springs(model):
        springs[:] = 0.0  # their torques are included in the recorded ones
    scene_rotors = np.array([drive.scene_rotor for drive in drives])
    parts = composite_bodies.composite_parts(loose)
    return RecordedArm(model, parts, tuple(read_recordings), scene_rotors)


def _recorded_joints(plant: Plant, name: str, recording: Recording) -> set[str]:
    """Return the joints whose motion or torques were recorded."""
    with named_errors(name):
        for signal in recording.signals.values():
            if signal.kind == 'command':
                matching.find_actuator(plant.model, signal)
            elif signal.kind != 'pose':
                matching.check_unit(signal, plant.model)
        kinds = 'position', 'effort', 'torque'
        joints = {of for kind, of in recording.signals if kind in kinds}
        joints |= commanded_joints(plant.model, recording)
        if not joints:
            raise IdentificationError(
                "no joint's position and torque was recorded: record position and effort of "
                'every joint of an arm'
            )
    return joints


def _to_link_torques(
    model: mujoco.MjModel, rotors: Array, derived: DifferentiatedMotion
) -> DifferentiatedMotion:
    """Return link torques: springs added, torque of rotor inertia (nv,) subtracted."""
    states, torque = derived.samples
    data, springs = mujoco.MjData(model), np.zeros_like(torque)
    sprung = any(stiffness.any() for stiffness in _springs(model))
    for data.qpos[:], row in zip(states[0], springs, strict=True) if sprung else ():
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_passive(model, data)
        row[:] = data.qfrc_spring
    links = torque - rotors * states[2] + springs
    return derived._replace(samples=motion_samples.MotionSamples(states, links))


def _springs(model: mujoco.MjModel) -> tuple[Array, ...]:
    """Return the stiffness arrays of joints and tendons of a model."""
    return (
        model.jnt_stiffness,
        model.tendon_stiffness,
        model.jnt_stiffnesspoly,
        model.tendon_stiffnesspoly,
    )


def scene_file_of(plant: Plant) -> SceneFile:
    """Return the file of a plant's scene; IdentificationError if it has none."""
    if plant.scene is None:
        raise IdentificationError('the model does not come from a scene file')
    return plant.scene


def _is_gravity_compensated(
    whole: mujoco.MjModel, model: mujoco.MjModel, drives: Sequence[JointDrive]
) -> bool:
    """Return whether commands exclude gravity (gravcomp): for all bodies or none."""
    joints = [scene.find(whole, 'joint', name) for name in scene.names(model, 'joint')]
    roots = whole.body_rootid[whole.jnt_bodyid[joints]]
    moving = (whole.body_weldid > 0) & np.isin(whole.body_rootid, roots) & (whole.body_mass > 0.0)
    share = whole.body_gravcomp[moving]
    if not share.any() or not any(drive.commands for drive in drives):
        return False
    if not (np.all(share == 1.0) and all(drive.commands for drive in drives)):
        raise IdentificationError(
            'the model compensates gravity for some bodies only, or not all joints are driven by '
            'commands: record the effort of every joint, gravity included'
        )
    return True


class _Sampler(NamedTuple):
    """Samples of a recording at the period of its slowest signal."""

    sample: Callable[[slice], SampledSignals]
    length: int
    step: float


def _convert(
    name: str, model: mujoco.MjModel, rotors: Array, sampler: _Sampler, held_out: float,
    tolerance: Array | float,
) -> ArmRecording:  # fmt: skip
    """Return the recording with a window of this tolerance."""
    training, later = motion_samples.split_samples(*sampler, held_out, tolerance)
    held = None if later is None else _to_link_torques(model, rotors, later)
    convert = functools.partial(_convert, name, model, rotors, sampler, held_out)
    return ArmRecording(name, _to_link_torques(model, rotors, training), held, convert)


def _sampler(recording: Recording, names: Sequence[str], drives: Sequence[JointDrive]) -> _Sampler:
    """Return the samples of motion and torque; IdentificationError if one never changes."""
    positions = [recording.signals['position', name] for name in names]
    forces = [[*drive.measured, *(signal for signal, _ in drive.commands)] for drive in drives]
    every = [*positions, *(signal for of in forces for signal in of)]
    for position in positions:
        matching.check_motion(recording, position)
    for of in forces:
        if all(np.ptp(signal.values) == 0.0 for signal in of):
            raise IdentificationError(
                f'{of[0].where}: never changes: does the driver measure torques?'
            )
    step = max(signal.period for signal in every)
    time = common_clock(every, step, 'samples')

    def sample(rows: slice) -> SampledSignals:
        when = time[rows]
        columns = [interpolate(signal, when) for signal in positions]
        torque = [drive.torque(when, step) for drive in drives]
        sd = [noise_while(signal, when) for signal in positions]
        torque_sd = [drive.deviation(when) for drive in drives]
        return SampledSignals(
            np.stack(columns, axis=1),
            np.stack(torque, axis=1),
            (np.array(sd), np.array(torque_sd)),
        )

    return _Sampler(sample, len(time), step)

"""Convert recordings to motions of an arm and torques of its links."""

from collections.abc import Callable, Mapping, Sequence
import copy
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
from emppi_ros.recordings.noise import filtered_noise, rounding_noise, white_level
from emppi_ros.recordings.recordings import (
    Recording,
    check_same_joints,
    named_errors,
    recording_names,
)
from emppi_ros.recordings.signals import Signal, box_average, common_clock

_MISSING = 1.5  # usual periods: a longer one lacks a sample


class JointDrive(NamedTuple):
    """Recorded signals that drive a joint, with their gains: torques, or commands of motors."""

    signals: tuple[tuple[Signal, float], ...]
    scene_rotor: float  # kg m^2 or kg

    def torque(self, time: Array, step: float) -> Array:
        """Return the torque at times (n,); commands are averaged over a step about each."""
        total = np.zeros(len(time))
        for signal, gain in self.signals:
            if signal.kind == 'command':
                total += gain * box_average(signal, time, step)
            else:
                total += np.interp(time, signal.time, signal.values)
        return total

    @property
    def commanded(self) -> bool:
        """Whether the torque is that of motors."""
        return any(signal.kind == 'command' for signal, _ in self.signals)

    @classmethod
    def of(cls, model: mujoco.MjModel, recording: Recording, name: str) -> 'JointDrive':
        """Return the drive of a joint; IdentificationError if its torque was not recorded."""
        if ('position', name) not in recording.signals:
            raise IdentificationError(
                f'position of joint {name!r} was not recorded; recorded: '
                f'{recording.listed("position")}'
            )
        effort, external = (recording.signals.get((kind, name)) for kind in ('effort', 'torque'))
        measured = tuple((signal, 1.0) for signal in (effort, external) if signal is not None)
        joint = scene.find(model, 'joint', name)
        rotor = float(np.ravel(model.dof_armature[model.jnt_dofadr[joint]])[0])
        driving = scene.actuators_of(model, joint)
        servos = [
            a
            for a in driving
            if model.actuator_gaintype[a] != mujoco.mjtGain.mjGAIN_FIXED.value
            or model.actuator_biastype[a] != mujoco.mjtBias.mjBIAS_NONE.value
        ]
        if effort is not None or (servos and measured):  # `torque` can only be the drive's
            return cls(measured, rotor)
        if servos:
            servo = scene.names(model, 'actuator')[servos[0]]
            raise IdentificationError(
                f'joint {name!r}: no torque was recorded, and commands of the servo {servo!r} '
                f'are not torques: record effort/{name}, the torque at the link, gravity included'
            )
        motors = _commands(model, recording)
        if any(a not in motors for a in driving) or not (driving or measured):
            raise IdentificationError(
                f'joint {name!r}: no torque was recorded: record effort/{name}, the torque at '
                f'the link, gravity included; recorded efforts: {recording.listed("effort")}'
            )
        gains = model.actuator_gainprm[:, 0] * model.actuator_gear[:, 0]
        return cls((*measured, *((motors[a], float(gains[a])) for a in driving)), rotor)


def _commands(model: mujoco.MjModel, recording: Recording) -> dict[int, Signal]:
    """Return the recorded commands by actuator, clipped to its control range."""
    signals = (signal for signal in recording.signals.values() if signal.kind == 'command')
    commands = {matching.find_actuator(model, signal): signal for signal in signals}
    for actuator, signal in commands.items():
        if model.actuator_ctrllimited[actuator]:
            values = np.clip(signal.values, *model.actuator_ctrlrange[actuator])
            commands[actuator] = signal._replace(values=values)
    return commands


def noise_while(signal: Signal, time: Array, band_hz: float = math.inf) -> float:
    """
    Return the standard deviation of a signal's noise over `time` (n,), rounding included.

    Noise that a low-pass filter cut counts as white noise of the same density. Where the spectrum
    does not show it, as of torques, the band is that of other signals.
    """
    here = (signal.time >= time[0]) & (signal.time <= time[-1])
    time, values = signal.time[here], signal.values[here]
    level, own_hz = white_level(time, values)
    if signal.kind != 'position' or band_hz < own_hz:
        level = filtered_noise(time, values, band_hz)
    return max(level, rounding_noise(values))


def interpolate(signal: Signal, time: Array) -> Array:
    """Return positions at times (n,): linear between samples, cubic if some are missing."""
    if np.max(np.diff(signal.time)) < _MISSING * signal.period:
        return np.interp(time, signal.time, signal.values)
    return np.asarray(CubicSpline(signal.time, signal.values)(time), dtype=np.float64)


class ArmRecording(NamedTuple):
    """One recording: training part and held-out part."""

    name: str  # of its files
    training: DifferentiatedMotion
    held_out: DifferentiatedMotion | None
    resample: Callable[[Array | float], 'ArmRecording']  # with a tolerance, of `split_samples`
    band_hz: float  # up to which noise of positions is white
    note: str  # on a low-pass filter, '' without one


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
    sprung = copy.copy(model)
    joints = scene.names(model, 'joint')
    read_recordings, weightless = list[ArmRecording](), list[bool]()
    for name, recording in zip(names, recordings, strict=True):
        with named_errors(name):
            drives = {joint: JointDrive.of(plant.model, recording, joint) for joint in joints}
            weightless.append(_is_gravity_compensated(plant.model, drives))
            rotors = [
                drive.scene_rotor if drive.commanded and not armature else 0.0
                for drive in drives.values()
            ]
            to_links = functools.partial(_to_link_torques, sprung, np.array(rotors))
            read_recordings.append(_read_recording(name, recording, drives, held_out, to_links))
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
    scene_rotors = np.array([drive.scene_rotor for drive in drives.values()])
    parts = composite_bodies.composite_parts(loose)
    return RecordedArm(model, parts, tuple(read_recordings), scene_rotors)


def scene_file_of(plant: Plant) -> SceneFile:
    """Return the file of a plant's scene; IdentificationError if it has none."""
    if plant.scene is None:
        raise IdentificationError('the model does not come from a scene file')
    return plant.scene


def _recorded_joints(plant: Plant, name: str, recording: Recording) -> set[str]:
    """Return the joints whose motion or torques were recorded."""
    model, kinds = plant.model, ('position', 'effort', 'torque')
    with named_errors(name):
        for signal in recording.signals.values():
            if signal.kind not in ('command', 'pose'):
                matching.check_unit(signal, model)
        joints = {of for kind, of in recording.signals if kind in kinds}
        commands = _commands(model, recording).keys()
        for joint, of in enumerate(scene.names(model, 'joint')):
            if commands & scene.actuators_of(model, joint):
                joints.add(of)
        if not joints:
            raise IdentificationError(
                "no joint's position and torque was recorded: record position and effort of "
                'every joint of an arm'
            )
    return joints


def _is_gravity_compensated(whole: mujoco.MjModel, drives: Mapping[str, JointDrive]) -> bool:
    """Return whether commands exclude gravity (gravcomp): for all bodies or none."""
    joints = [scene.find(whole, 'joint', name) for name in drives]
    roots = whole.body_rootid[whole.jnt_bodyid[joints]]
    moving = (whole.body_weldid > 0) & np.isin(whole.body_rootid, roots) & (whole.body_mass > 0.0)
    share = whole.body_gravcomp[moving]
    commanded = [drive.commanded for drive in drives.values()]
    if not share.any() or not any(commanded):
        return False
    if not (np.all(share == 1.0) and all(commanded)):
        raise IdentificationError(
            'the model compensates gravity for some bodies only, or not all joints are driven by '
            'commands: record the effort of every joint, gravity included'
        )
    return True


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


def _read_recording(
    name: str, recording: Recording, drives: Mapping[str, JointDrive], held_out: float,
    to_links: Callable[[DifferentiatedMotion], DifferentiatedMotion],
) -> ArmRecording:  # fmt: skip
    """Return motion and torques of a recording; IdentificationError if a signal never changes."""
    positions = [recording.signals['position', joint] for joint in drives]
    forces = [[signal for signal, _ in drive.signals] for drive in drives.values()]
    for position in positions:
        matching.check_motion(recording, position)
    for of in forces:
        if all(np.ptp(signal.values) == 0.0 for signal in of):
            raise IdentificationError(
                f'{of[0].where}: never changes: does the driver measure torques?'
            )
    every = [*positions, *(signal for of in forces for signal in of)]
    step = max(signal.period for signal in every)
    time = common_clock(every, step, 'samples')

    bands = [white_level(signal.time, signal.values)[1] for signal in positions]
    lowest = int(np.argmin(bands))
    filtered, note, band_hz = positions[lowest], '', math.inf
    if bands[lowest] < 0.4 / filtered.period:
        band_hz = bands[lowest]
        note = (
            f'{filtered.kind}/{filtered.of}: a low-pass filter left noise up to about '
            f'{band_hz:.2g} Hz: it counts by its density there, not as noise of independent '
            'samples'
        )

    def sample(rows: slice) -> SampledSignals:
        when = time[rows]
        torque_sd = [
            math.hypot(*(gain * noise_while(s, when, band_hz) for s, gain in drive.signals))
            for drive in drives.values()
        ]
        return SampledSignals(
            np.stack([interpolate(signal, when) for signal in positions], axis=1),
            np.stack([drive.torque(when, step) for drive in drives.values()], axis=1),
            (np.array([noise_while(s, when, band_hz) for s in positions]), np.array(torque_sd)),
        )

    def resample(tolerance: Array | float) -> ArmRecording:
        training, later = motion_samples.split_samples(
            sample, len(time), step, held_out, tolerance
        )
        held = None if later is None else to_links(later)
        return ArmRecording(name, to_links(training), held, resample, band_hz, note)

    return resample(1.0)

"""From recorded runs to motions of an arm, and the torques that its links needed."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import SceneFile
from emppi_ros.identify.common import matching
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import (
    Recording,
    check_same_joints,
    named_errors,
    recording_names,
)
from emppi_ros.identify.common.signals import common_clock
from emppi_ros.identify.rigid_body import arm, samples, welded
from emppi_ros.identify.rigid_body import recording as arm_recording
from emppi_ros.identify.rigid_body.derivatives import Derived
from emppi_ros.identify.rigid_body.drives import Drive, commanded, noise_while
from emppi_ros.identify.rigid_body.samples import Samples
from emppi_ros.identify.rigid_body.welded import Part
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]


class Motion(NamedTuple):
    """One recording."""

    name: str  # of its files
    known: Derived
    later: Derived | None  # what was held out


class Arm(NamedTuple):
    """What was recorded, of what."""

    model: mujoco.MjModel  # one body a joint
    parts: Sequence[Part]
    motions: tuple[Motion, ...]


def read(plant: Plant, *recordings: Recording, held_out: float = 0.0) -> Arm:
    """
    Return the arm whose joints were recorded, its motions and its torques.

    Of each recording a share is `held_out`, its end.

    Torques are efforts, which are those at the links with gravity in them; where there are none,
    commands of motors, less what the model's rotors take. Forces from elsewhere, and those of the
    model's springs, are added. IdentificationError if something is missing, or does not fit.
    """
    file, names = file_of(plant), recording_names(recordings)
    moving = [_joints(plant, *pair) for pair in zip(names, recordings, strict=True)]
    check_same_joints(names, moving)
    model, loose = (arm.load(file.path, file.root, moving[0], fuse) for fuse in (True, False))
    joints, motions, weightless = scene.names(model, 'joint'), list[Motion](), list[bool]()
    for name, recording in zip(names, recordings, strict=True):
        with named_errors(name):
            inputs = [Drive.of(plant.model, recording, joint) for joint in joints]
            weightless.append(_is_weightless(plant.model, model, inputs))
            known, later = _sample(recording, joints, inputs, held_out)
            rotors = np.array([used.rotor for used in inputs])
            held = None if later is None else _less(model, rotors, later)
            motions.append(Motion(name, _less(model, rotors, known), held))
    if any(weightless):
        if not all(weightless):
            without, having = (names[weightless.index(is_one)] for is_one in (True, False))
            raise IdentificationError(
                f'torques of {having} have gravity in them, and of {without} not, for they are '
                'commands beside it (gravcomp): record all alike'
            )
        model.opt.gravity[:] = 0.0
    for springs in _springs(model):
        springs[:] = 0.0  # what these exert is in the torques now
    return Arm(model, welded.parts(loose), tuple(motions))


def _joints(plant: Plant, name: str, recording: Recording) -> set[str]:
    """Return the joints whose motion or torques were recorded."""
    with named_errors(name):
        for signal in recording.signals.values():
            if signal.kind == 'command':
                matching.find_actuator(plant.model, signal)
            elif signal.kind != 'pose':
                matching.check_unit(signal, plant.model)
        kinds = 'position', 'effort', 'torque'
        joints = {of for kind, of in recording.signals if kind in kinds}
        joints |= commanded(plant.model, recording)
        if not joints:
            raise IdentificationError(
                "no joint's position and torque was recorded: record position and effort of "
                'every joint of an arm'
            )
    return joints


def _less(model: mujoco.MjModel, rotors: Array, derived: Derived) -> Derived:
    """Return torques of links, in place of those without springs and with rotors (nv,)."""
    states, torque = derived.recording
    data, springs = mujoco.MjData(model), np.zeros_like(torque)
    sprung = any(stiffness.any() for stiffness in _springs(model))
    for data.qpos[:], row in zip(states[0], springs, strict=True) if sprung else ():
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_passive(model, data)
        row[:] = data.qfrc_spring
    links = torque - rotors * states[2] + springs
    return derived._replace(recording=arm_recording.Recording(states, links))


def _springs(model: mujoco.MjModel) -> tuple[Array, ...]:
    """Return what makes springs of joints and tendons, as the model has it."""
    return (
        model.jnt_stiffness,
        model.tendon_stiffness,
        model.jnt_stiffnesspoly,
        model.tendon_stiffnesspoly,
    )


def file_of(plant: Plant) -> SceneFile:
    """Return the file of a plant's scene; IdentificationError if it is from none."""
    if plant.scene is None:
        raise IdentificationError('the model is from no scene: expected one')
    return plant.scene


def _is_weightless(whole: mujoco.MjModel, model: mujoco.MjModel, inputs: Sequence[Drive]) -> bool:
    """Return whether commands are torques beside gravity (gravcomp); all or nothing."""
    joints = [scene.find(whole, 'joint', name) for name in scene.names(model, 'joint')]
    roots = whole.body_rootid[whole.jnt_bodyid[joints]]
    moving = (whole.body_weldid > 0) & np.isin(whole.body_rootid, roots) & (whole.body_mass > 0.0)
    share = whole.body_gravcomp[moving]
    if not share.any() or not any(used.held for used in inputs):
        return False
    if not (np.all(share == 1.0) and all(used.held for used in inputs)):
        raise IdentificationError(
            "the model holds the weight of some of its bodies (gravcomp), and not all joints' "
            'torques are commands: record effort of every joint, with gravity in it'
        )
    return True


def _sample(
    recording: Recording, names: Sequence[str], inputs: Sequence[Drive], held_out: float
) -> tuple[Derived, Derived | None]:
    """Return what is learned from, and what is held out, as often as the slowest signal comes."""
    positions = [recording.signals['position', name] for name in names]
    forces = [[*used.measured, *(signal for signal, _ in used.held)] for used in inputs]
    every = [*positions, *(signal for of in forces for signal in of)]
    for position in positions:
        matching.check_motion(recording, position)
    for of in forces:
        if all(np.ptp(signal.values) == 0.0 for signal in of):
            raise IdentificationError(f'{of[0].where}: never changes: does the driver measure it?')
    step = max(signal.period for signal in every)
    time = common_clock(every, step, 'samples')

    def sample(rows: slice) -> Samples:
        when = time[rows]
        columns = [np.interp(when, signal.time, signal.values) for signal in positions]
        torque = [used.torque(when, step) for used in inputs]
        sd = [noise_while(signal, when) for signal in positions]
        own = [used.deviation(when) for used in inputs]
        return Samples(
            np.stack(columns, axis=1), np.stack(torque, axis=1), (np.array(sd), np.array(own))
        )

    return samples.split(sample, len(time), step, held_out)

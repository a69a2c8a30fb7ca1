"""What of a recording are the torques of a joint: efforts, or a motor's commands."""

import math
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common import matching
from emppi_ros.identify.common.noise import uneven_difference_noise
from emppi_ros.identify.common.recordings import Recording
from emppi_ros.identify.common.signals import Signal, box_average
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]


class Drive(NamedTuple):
    """What of a recording drives a joint."""

    held: tuple[tuple[Signal, float], ...]  # commands, and what they are times to be torques
    measured: tuple[Signal, ...]
    rotor: float

    def torque(self, time: Array, step: float) -> Array:
        """Return it at times (n,), of commands the mean over a step about each."""
        total = np.zeros(len(time))
        for signal in self.measured:
            total += np.interp(time, signal.time, signal.values)
        for signal, gain in self.held:
            total += gain * box_average(signal, time, step)
        return total

    def deviation(self, time: Array) -> float:
        """Return the standard deviation of its noise while `time` (n,) lasts."""
        shares = [*((signal, 1.0) for signal in self.measured), *self.held]
        return math.hypot(*(gain * noise_while(signal, time) for signal, gain in shares))

    @classmethod
    def of(cls, model: mujoco.MjModel, recording: Recording, name: str) -> 'Drive':
        """Return what drives the joint of a name."""
        if ('position', name) not in recording.signals:
            raise IdentificationError(
                f'the model has a joint {name!r}, whose position was not recorded; recorded: '
                + (', '.join(recording.names('position')) or 'none')
            )
        given = [recording.signals.get((kind, name)) for kind in ('effort', 'torque')]
        measured = tuple(signal for signal in given if signal is not None)
        if given[0] is not None:
            return cls((), measured, 0.0)
        joint = scene.find(model, 'joint', name)
        servos = [a for a in matching.actuators_of(model, joint) if not _is_motor(model, a)]
        if servos:
            servo = scene.names(model, 'actuator')[servos[0]]
            raise IdentificationError(
                f'joint {name!r}: no torque was recorded, and commands of {servo!r} are none, for '
                f'it is a servo: record effort/{name}, the torque at the link, gravity included'
            )
        motors = {
            matching.find_actuator(model, s): s
            for (kind, _), s in recording.signals.items()
            if kind == 'command'
        }
        driving = matching.actuators_of(model, joint)
        if any(a not in motors for a in driving) or not (driving or measured):
            raise IdentificationError(
                f'joint {name!r}: no torque was recorded: record effort/{name}, the torque at '
                'the link, gravity included; recorded efforts: '
                + (', '.join(recording.names('effort')) or 'none')
            )
        gains = model.actuator_gainprm[:, 0] * model.actuator_gear[:, 0]
        dof = model.jnt_dofadr[joint]
        held = tuple((_within(model, a, motors[a]), float(gains[a])) for a in driving)
        return cls(held, measured, float(np.ravel(model.dof_armature[dof])[0]))


def noise_while(signal: Signal, time: Array) -> float:
    """Return the standard deviation of a signal's noise while `time` (n,) lasts."""
    here = (signal.time >= time[0]) & (signal.time <= time[-1])
    return uneven_difference_noise(signal.time[here], signal.values[here])


def _within(model: mujoco.MjModel, actuator: int, command: Signal) -> Signal:
    """Return what an actuator makes of commands beyond its range."""
    if not model.actuator_ctrllimited[actuator]:
        return command
    return command._replace(values=np.clip(command.values, *model.actuator_ctrlrange[actuator]))


def _is_motor(model: mujoco.MjModel, actuator: int) -> bool:
    return (
        model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED.value
        and model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE.value
    )


def commanded(model: mujoco.MjModel, recording: Recording) -> set[str]:
    """Return the joints whose actuators' commands were recorded."""
    of = [
        matching.find_actuator(model, signal)
        for (kind, _), signal in recording.signals.items()
        if kind == 'command'
    ]
    names = scene.names(model, 'joint')
    return {name for j, name in enumerate(names) if set(matching.actuators_of(model, j)) & set(of)}

"""
The bridge's states: inactive -> armed -> moving -> stopping -> held, and who may change them.

Motion begins only after an operator armed the bridge. A fault brakes it to rest and holds it:
nothing but the operator's acknowledgement, which is disarming, ends that, and only then can it
be armed again. Pure functions of a frozen state; nothing here knows time or plans.
"""

import enum
from typing import NamedTuple

from emppi_ros.bridge.faults import Fault
from emppi_ros.core.errors import ArmError


class Phase(enum.Enum):
    """What the bridge is doing."""

    INACTIVE = 'inactive'  # not armed, at rest
    ARMED = 'armed'  # at rest, ready to follow plans
    MOVING = 'moving'  # following a plan
    STOPPING = 'stopping'  # braking: to be at rest, and then whatever comes after
    HELD = 'held'  # at rest after a fault, until it is acknowledged


class Machine(NamedTuple):
    """A state of the bridge, with what was wanted and what went wrong."""

    phase: Phase = Phase.INACTIVE
    armed: bool = False
    paused: bool = False
    swapping: bool = False  # at rest for the planner, which goes over to another task
    fault: Fault | None = None

    @property
    def engaged(self) -> bool:
        """Whether plans are to be followed."""
        waiting = self.paused or self.swapping or self.fault is not None
        return self.armed and not waiting


def arm(machine: Machine) -> Machine:
    """Return the machine armed by an operator; ArmError while a fault is not acknowledged."""
    if machine.fault is not None:
        raise ArmError(f'{machine.fault.text}. Disarm to acknowledge this, then arm again')
    phase = Phase.ARMED if machine.phase is Phase.INACTIVE else machine.phase
    return machine._replace(phase=phase, armed=True)


def disarm(machine: Machine) -> Machine:
    """Return the machine disarmed, and its fault acknowledged; if it moves it is stopping."""
    at_rest = machine.phase in (Phase.INACTIVE, Phase.ARMED, Phase.HELD)
    return machine._replace(
        phase=Phase.INACTIVE if at_rest else Phase.STOPPING, armed=False, fault=None
    )


def pause(machine: Machine, paused: bool) -> Machine:
    """Return the machine paused, or not; a pause is no disarming, and acknowledges nothing."""
    return machine._replace(paused=paused)


def swap(machine: Machine, swapping: bool) -> Machine:
    """Return the machine that rests for another task, or no longer; a pause stays a pause."""
    return machine._replace(swapping=swapping)


def trip(machine: Machine, fault: Fault) -> Machine:
    """Return the machine with a fault. The first one counts; a disarmed bridge has none."""
    if not machine.armed or machine.fault is not None:
        return machine
    phase = Phase.HELD if machine.phase is Phase.ARMED else Phase.STOPPING
    return machine._replace(phase=phase, fault=fault)


def advance(machine: Machine, following: bool, resting: bool) -> Machine:
    """Return the machine after a command that follows a plan, or does not, and may rest."""
    if following:
        return machine._replace(phase=Phase.MOVING)
    if not resting:
        return machine._replace(phase=Phase.STOPPING)
    if machine.fault is not None:
        return machine._replace(phase=Phase.HELD)
    return machine._replace(phase=Phase.ARMED if machine.armed else Phase.INACTIVE)

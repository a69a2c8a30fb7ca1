"""
The state machine of the bridge: inactive -> armed -> moving -> stopping -> held.

Motion begins only after an operator has armed the bridge. A fault brakes the robot to rest and
holds it until the operator acknowledges the fault by disarming; then it can be armed again.
"""

import enum
from typing import NamedTuple

from emppi_ros.bridge.faults import Fault
from emppi_ros.core.errors import ArmError


class Phase(enum.Enum):
    """A phase of the bridge."""

    INACTIVE = 'inactive'  # not armed, at rest
    ARMED = 'armed'  # at rest, ready to follow plans
    MOVING = 'moving'  # following a plan
    STOPPING = 'stopping'  # braking to rest
    HELD = 'held'  # at rest after a fault, until it is acknowledged


class Machine(NamedTuple):
    """State of the bridge: its phase, the operator's requests, and the fault."""

    phase: Phase = Phase.INACTIVE
    armed: bool = False
    paused: bool = False
    swapping: bool = False  # at rest while the planner switches tasks
    fault: Fault | None = None

    @property
    def engaged(self) -> bool:
        """Whether plans are followed."""
        waiting = self.paused or self.swapping or self.fault is not None
        return self.armed and not waiting


def arm(machine: Machine) -> Machine:
    """Return the machine armed; ArmError while a fault is not acknowledged."""
    if machine.fault is not None:
        raise ArmError(f'{machine.fault.text}. Disarm to acknowledge this, then arm again')
    phase = Phase.ARMED if machine.phase is Phase.INACTIVE else machine.phase
    return machine._replace(phase=phase, armed=True)


def disarm(machine: Machine) -> Machine:
    """Return the machine disarmed and its fault acknowledged; a moving robot stops."""
    at_rest = machine.phase in (Phase.INACTIVE, Phase.ARMED, Phase.HELD)
    return machine._replace(
        phase=Phase.INACTIVE if at_rest else Phase.STOPPING, armed=False, fault=None
    )


def trip(machine: Machine, fault: Fault) -> Machine:
    """Return the machine with a fault; later faults, and those while disarmed, are ignored."""
    if not machine.armed or machine.fault is not None:
        return machine
    phase = Phase.HELD if machine.phase is Phase.ARMED else Phase.STOPPING
    return machine._replace(phase=phase, fault=fault)


def advance(machine: Machine, following: bool, resting: bool) -> Machine:
    """Return the machine after a command that follows a plan or not, and is at rest or not."""
    if following:
        return machine._replace(phase=Phase.MOVING)
    if not resting:
        return machine._replace(phase=Phase.STOPPING)
    if machine.fault is not None:
        return machine._replace(phase=Phase.HELD)
    return machine._replace(phase=Phase.ARMED if machine.armed else Phase.INACTIVE)

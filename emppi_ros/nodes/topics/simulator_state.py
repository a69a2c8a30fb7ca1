"""
The topic `simulator/state`: the true state of the simulation, for its camera only.

The numbers are the time [s], the configuration (nq,) and the true parameters (P,).
"""

from array import array
from typing import NamedTuple

import numpy as np
from std_msgs.msg import Float64MultiArray

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import JointStateError
from emppi_ros.tasks.task import Task

STATE = 'simulator/state'


class SimulatorState(NamedTuple):
    """What the simulator knows at a time."""

    stamp: float  # s
    qpos: Array  # (nq,)
    truth: Array  # (P,) true parameters


def write_state(state: SimulatorState) -> Float64MultiArray:
    """Return the message of a state."""
    values = np.concatenate([[state.stamp], state.qpos, state.truth])
    return Float64MultiArray(data=array('d', values.tobytes()))


def read_state(task: Task, message: Float64MultiArray) -> SimulatorState:
    """Return a state; JointStateError if it is of another task."""
    values, count = np.array(message.data, np.float64), task.model.nq
    expected = 1 + count + len(task.parameters)
    if len(values) != expected:
        raise JointStateError(f'{STATE}: {len(values)} values; expected {expected}')
    return SimulatorState(float(values[0]), values[1 : 1 + count], values[1 + count :])

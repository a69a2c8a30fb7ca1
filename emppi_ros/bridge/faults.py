"""Faults: the bridge stops and holds until an operator acknowledges the fault."""

from typing import NamedTuple

PLAN_LATE = 'plan-late'
PLANNER_SLOW = 'planner-slow'
STATE_LATE = 'state-late'
STATE_FROZEN = 'state-frozen'
STATE_JUMP = 'state-jump'
STATE_RANGE = 'state-range'
RESIDUAL = 'residual'
SECOND_PUBLISHER = 'second-publisher'
EXTERNAL_TORQUE = 'external-torque'
SWAP_LOST = 'swap-lost'
ENABLE_LOST = 'enable-lost'
ROBOT = 'robot'

MEANINGS = {  # for the operator
    PLAN_LATE: 'no valid plan for too long',
    PLANNER_SLOW: 'plans came late too often',
    STATE_LATE: 'no usable joint state for too long',
    STATE_FROZEN: 'joint states do not change although the arm should move',
    STATE_JUMP: 'joint states jump further than the arm can move',
    STATE_RANGE: "joint states outside of the robot's limits",
    RESIDUAL: 'the arm does not move as commanded',
    SECOND_PUBLISHER: 'another node commands the same robot',
    EXTERNAL_TORQUE: 'an external torque acts on the arm',
    SWAP_LOST: 'the planner did not end a task switch in time',
    ENABLE_LOST: 'the operator released the enabling switch',
    ROBOT: 'the robot stopped on its own: reflex, user stop, lost connection',
}

OVERLOAD = frozenset({PLAN_LATE, PLANNER_SLOW, STATE_LATE})  # what a busy machine causes


class Fault(NamedTuple):
    """The reason of a stop: one of the codes above, and a sentence for the operator."""

    code: str
    text: str

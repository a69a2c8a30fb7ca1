"""What makes the bridge stop for good, until an operator says otherwise."""

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

MEANINGS = {  # for people
    PLAN_LATE: 'no valid plan for too long',
    PLANNER_SLOW: 'plans came late too often',
    STATE_LATE: 'no usable joint state for too long',
    STATE_FROZEN: 'joint states that do not change although the arm is to move',
    STATE_JUMP: 'joint states that no motion explains',
    STATE_RANGE: "a joint where this robot's cannot be",
    RESIDUAL: 'the arm does not move as commanded',
    SECOND_PUBLISHER: 'somebody else commands the same robot',
    EXTERNAL_TORQUE: 'the arm is pushed, or pushes',
    SWAP_LOST: 'the planner asked for rest to swap tasks, and never came back',
    ENABLE_LOST: 'the operator let go of the enabling switch',
    ROBOT: 'the robot stopped by itself: reflex, user stop, lost connection',
}


class Fault(NamedTuple):
    """Why the bridge stops: one of the codes above, and a sentence for people."""

    code: str
    text: str

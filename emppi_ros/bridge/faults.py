"""What makes the bridge stop for good, until an operator says otherwise."""

from typing import NamedTuple

PLAN_LATE = 'plan-late'  # no valid plan for too long
PLANNER_SLOW = 'planner-slow'  # plans came late too often
STATE_LATE = 'state-late'  # no usable joint state for too long
STATE_FROZEN = 'state-frozen'  # joint states that do not change although the arm is to move
STATE_JUMP = 'state-jump'  # joint states that no motion explains
STATE_RANGE = 'state-range'  # a joint where this robot's cannot be
RESIDUAL = 'residual'  # the arm does not move as commanded
SECOND_PUBLISHER = 'second-publisher'  # somebody else commands the same robot
EXTERNAL_TORQUE = 'external-torque'  # the arm is pushed, or pushes
SWAP_LOST = 'swap-lost'  # the planner asked for rest to swap tasks, and never came back
ENABLE_LOST = 'enable-lost'  # the operator let go of the enabling switch
ROBOT = 'robot'  # the robot stopped by itself: reflex, user stop, lost connection


class Fault(NamedTuple):
    """Why the bridge stops: one of the codes above, and a sentence for people."""

    code: str
    text: str

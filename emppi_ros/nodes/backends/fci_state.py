"""What a state of a Franka robot says, by its own names, as franky hands it out."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_WELL = ('Idle', 'Move')  # modes of a robot that takes commands
_MODES = {
    'UserStopped': 'the user stop is pressed: release it',
    'Guiding': 'the robot is being guided by hand',
    'Reflex': 'a reflex stopped the robot',
    'AutomaticErrorRecovery': 'the robot is recovering from an error',
    'Other': 'the robot takes no commands: unlock its brakes and activate FCI',
}


class Reading(NamedTuple):
    """What the robot said last."""

    stamp: float  # s, the clock that stamps messages
    position: Array  # (7,) rad
    velocity: Array  # (7,) rad/s
    torque: Array  # (7,) N m, external, as the robot estimates it
    following: Array  # (7,) rad/s, the velocity that it follows


def read(state: Any, stamp: float) -> Reading:
    """Return a state as arrays."""
    return Reading(
        stamp,
        np.array(state.q),
        np.array(state.dq),
        np.array(state.tau_ext_hat_filtered),
        np.array(state.dq_d) if moves(state) else np.zeros(len(state.q)),
    )


def moves(state: Any) -> bool:
    """Return whether the robot follows commands just now."""
    return state.robot_mode.name == 'Move'


def errors(state: Any) -> str:
    """Return the robot's own names of what is wrong now, or else of what ended its motion."""
    for found in (state.current_errors, state.last_motion_errors):
        names = [n for n in dir(found) if n[0] != '_' and getattr(found, n) is True]
        if names:
            return ', '.join(names)
    return ''


def obstacle(state: Any) -> str:
    """Return why a robot in this state takes no commands, in words; '' if it does."""
    mode = state.robot_mode.name
    named = errors(state)
    if mode in _WELL and not any(
        getattr(state.current_errors, n) is True for n in dir(state.current_errors)
    ):
        return ''
    words = _MODES.get(mode, f'the robot is in mode {mode}')
    return f'{words}: {named}' if named and mode != 'UserStopped' else words

"""Settings of the backend `franky`, and what is unusual about them."""

from dataclasses import dataclass

from emppi_ros.core.config import key, one_of, positive

_SHORTEST_S, _LONGEST_S = 0.02, 0.1
_USUAL_TORQUE, _USUAL_FORCE = 20.0, 20.0  # N m and N, of Franka's own examples


@dataclass(frozen=True)
class FrankyConfig:
    """Settings of the backend `franky`."""

    fci_address: str = key('', doc='backend franky: network address of the robot')
    realtime: str = one_of(
        'enforce',
        'ignore',
        default='enforce',
        doc='backend franky: whether Linux must be PREEMPT_RT',
    )
    motion_duration_s: float = key(
        _LONGEST_S,
        check=lambda value: _SHORTEST_S <= value <= _LONGEST_S,
        allowed=f'from {_SHORTEST_S:g} to {_LONGEST_S:g}',
        doc='backend franky: how long a velocity is held without a new command',
    )
    move_rate_hz: float = positive(125.0, doc='backend franky: motions per second')
    collision_torque_nm: float = positive(
        _USUAL_TORQUE, doc='backend franky: torque at a joint at which the robot stops by reflex'
    )
    collision_force_n: float = positive(
        _USUAL_FORCE, doc='backend franky: force at the hand at which the robot stops by reflex'
    )
    external_torque_nm: float = positive(
        10.0, doc='backend franky: torque at a joint at which the bridge stops the arm'
    )


def doubts(config: FrankyConfig) -> list[str]:
    """Return what an operator should know about settings that are not the usual ones."""
    found = []
    if config.collision_torque_nm > _USUAL_TORQUE or config.collision_force_n > _USUAL_FORCE:
        found.append(
            f'collision thresholds of {config.collision_torque_nm:g} N m and '
            f'{config.collision_force_n:g} N: the usual are {_USUAL_TORQUE:g} and '
            f'{_USUAL_FORCE:g}'
        )
    if config.realtime == 'ignore':
        found.append('realtime: ignore is for simulated robots; a real one stops on late packets')
    return found

"""How the bridge is to talk to the robot, and what it must promise where that is a real one."""

from dataclasses import dataclass

from emppi_ros.bridge.commander import BridgeConfig
from emppi_ros.core.config import key
from emppi_ros.core.errors import ConfigError

_LONGEST = {'plan_timeout_s': 0.2, 'plan_lost_s': 0.25, 'state_timeout_s': 0.1}  # on hardware


@dataclass(frozen=True)
class Way:
    """Parameters that say how the bridge talks to the robot."""

    backend: str = key('', doc="way to the robot; the robot's own if empty")
    hardware: bool = key(False, doc='whether a real robot moves')
    forward_on_hardware: bool = key(False, doc='let backend forward drive hardware, nonetheless')


def check_timeouts(config: BridgeConfig) -> None:
    """Raise ConfigError if a real robot would go on for too long without plans or measurements."""
    for name, longest in _LONGEST.items():
        if (found := getattr(config, name)) > longest:
            raise ConfigError(f'{name}: {found:g} s; on hardware at most {longest:g} s')

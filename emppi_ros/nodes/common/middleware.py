"""Settings of the middleware that keep processes apart, and to their own host."""

from collections.abc import Mapping
import os

from rclpy.utilities import get_rmw_implementation_identifier

from emppi_ros.core import paths

RANGE, TRANSPORTS = 'ROS_AUTOMATIC_DISCOVERY_RANGE', 'FASTDDS_BUILTIN_TRANSPORTS'
PROFILES = 'FASTDDS_DEFAULT_PROFILES_FILE'
CHOICES = (RANGE, 'ROS_STATIC_PEERS', PROFILES, 'FASTRTPS_DEFAULT_PROFILES_FILE')


def settings(given: Mapping[str, str]) -> dict[str, str]:
    """
    Return environment variables to add to the ones given.

    ROS 2 by itself looks for others on the whole subnet, and Fast DDS shares memory between
    processes, with locks in it: a planner that hangs while it holds one lets the bridge hang, in
    the middle of a command. So Fast DDS gets config/fastdds.xml, where the user chose nothing
    else: sockets on the loopback interface. Discovery on LOCALHOST alone would share memory.
    """
    chosen = {RANGE: 'LOCALHOST', TRANSPORTS: 'UDPv4'}
    fast = get_rmw_implementation_identifier().startswith('rmw_fastrtps')
    if fast and not any(name in given for name in CHOICES):
        profiles = paths.share() / 'config' / 'fastdds.xml'
        chosen |= {RANGE: 'SYSTEM_DEFAULT', PROFILES: str(profiles)}
    return {name: value for name, value in chosen.items() if name not in given}


def set_up() -> None:
    """Set them for this process and those that it starts."""
    os.environ.update(settings(os.environ))

"""Middleware settings that isolate processes and limit discovery to the local host."""

from collections.abc import Mapping
import os

from rclpy.utilities import get_rmw_implementation_identifier

from emppi_ros.core import paths

RANGE, TRANSPORTS = 'ROS_AUTOMATIC_DISCOVERY_RANGE', 'FASTDDS_BUILTIN_TRANSPORTS'
PROFILES = 'FASTDDS_DEFAULT_PROFILES_FILE'
CHOICES = (RANGE, 'ROS_STATIC_PEERS', PROFILES, 'FASTRTPS_DEFAULT_PROFILES_FILE')


def settings(given: Mapping[str, str]) -> dict[str, str]:
    """
    Return environment variables to add to the given ones.

    Fast DDS with shared memory has locks: a planner that hangs while it holds one would block
    the bridge. Therefore it gets config/fastdds.xml, with sockets on the loopback interface only,
    unless the environment configures discovery. LOCALHOST alone would use shared memory.
    """
    chosen = {RANGE: 'LOCALHOST', TRANSPORTS: 'UDPv4'}
    fast = get_rmw_implementation_identifier().startswith('rmw_fastrtps')
    if fast and not any(name in given for name in CHOICES):
        profiles = paths.share() / 'config' / 'fastdds.xml'
        chosen |= {RANGE: 'SYSTEM_DEFAULT', PROFILES: str(profiles)}
    return {name: value for name, value in chosen.items() if name not in given}


def configure() -> None:
    """Set these variables for this process and its children."""
    os.environ.update(settings(os.environ))

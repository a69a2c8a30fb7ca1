"""What planners and robots need, imported once before they are forked."""

import diagnostic_msgs.msg
import numpy
import rclpy.node
import sensor_msgs.msg
import std_msgs.msg
import trajectory_msgs.msg

from emppi_ros.bridge import plan
from emppi_ros.nodes import convert, polling, qos
from emppi_ros.sim import follower
from faultlab import actors, witness

# messages load their type support at the first publisher: in the child
__all__ = [
    'actors', 'convert', 'diagnostic_msgs', 'follower', 'numpy', 'plan', 'polling', 'qos',
    'rclpy', 'sensor_msgs', 'std_msgs', 'trajectory_msgs', 'witness',
]  # fmt: skip

"""What planners and robots need, imported once before they are forked."""

import action_msgs.msg
import diagnostic_msgs.msg
import numpy
import rclpy.node
import sensor_msgs.msg
import std_msgs.msg
import trajectory_msgs.msg

from emppi_ros.nodes.backends import controller_monitor
from emppi_ros.nodes.common import convert, polling, process, qos
from emppi_ros.robots import plan
from emppi_ros.sim import trajectory_controller
from faultlab import actors, witness

# messages load their type support at the first publisher: in the child
__all__ = [
    'action_msgs', 'actors', 'controller_monitor', 'convert', 'diagnostic_msgs', 'numpy', 'plan',
    'polling', 'process', 'qos', 'rclpy', 'sensor_msgs', 'std_msgs', 'trajectory_controller',
    'trajectory_msgs', 'witness',
]  # fmt: skip

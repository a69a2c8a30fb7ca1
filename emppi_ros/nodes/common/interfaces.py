"""Interfaces of packages that may be missing: `emppi_msgs`, `control_msgs` and `tf2_msgs`."""

MISSING = (
    'emppi_msgs is not built: README.md, "On ROS 2", has the colcon command; without a ROS 2 '
    'installation use `make msgs`'
)

try:
    from emppi_msgs.action import RunTask
    from emppi_msgs.msg import Belief, ParameterEstimate, Status
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

try:
    from control_msgs.msg import JointTrajectoryControllerState
except ImportError:
    JointTrajectoryControllerState = None

try:
    from tf2_msgs.msg import TFMessage  # not among the wheels of rclpy
except ImportError:
    TFMessage = None

__all__ = [
    'AVAILABLE', 'MISSING', 'Belief', 'JointTrajectoryControllerState', 'ParameterEstimate',
    'RunTask', 'Status', 'TFMessage',
]  # fmt: skip

"""Interfaces of packages that are optional: `emppi_msgs`, and `control_msgs` of ros2_control."""

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

__all__ = [
    'AVAILABLE', 'MISSING', 'Belief', 'JointTrajectoryControllerState', 'ParameterEstimate',
    'RunTask', 'Status',
]  # fmt: skip

"""The interfaces of the package `emppi_msgs`, which is optional."""

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

__all__ = ['AVAILABLE', 'MISSING', 'Belief', 'ParameterEstimate', 'RunTask', 'Status']

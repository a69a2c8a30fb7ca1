"""Ways from the bridge to the robot, one file each, and which one it is to be."""

from rclpy.node import Node

from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.backends.dry_run import DryRunBackend
from emppi_ros.nodes.backends.forward import ForwardBackend
from emppi_ros.nodes.backends.franky import FrankyBackend
from emppi_ros.nodes.backends.interface import Backend
from emppi_ros.nodes.backends.trajectory import TrajectoryBackend
from emppi_ros.robots.robot import Robot

BACKENDS: dict[str, type[Backend]] = {
    'dry-run': DryRunBackend,
    'forward': ForwardBackend,
    'franky': FrankyBackend,
    'trajectory': TrajectoryBackend,
}


def connect(node: Node, robot: Robot, name: str, hardware: bool, insist: bool) -> Backend:
    """
    Return the backend `name`, or the robot's own where that is empty.

    An unsafe one refuses hardware with a ConfigError, unless `insist`.
    """
    name = name or robot.backend
    cls = BACKENDS[name]
    if hardware and cls.unsafe:
        if not insist:
            raise ConfigError(
                f'backend {name!r} refuses to drive hardware: {cls.unsafe}. Use '
                f'{_others(name)}; or, at your own risk, set {name}_on_hardware:=true'
            )
        node.get_logger().warning(f'backend {name!r} drives hardware, as told: {cls.unsafe}')
    return cls(node, robot)


def _others(name: str) -> str:
    safe = [f'backend:={n}' for n, cls in BACKENDS.items() if n != name and not cls.unsafe]
    return ' or '.join(safe)

"""The nodes of the ROS graph and their parameters, for the launch file and the demo."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PACKAGE = 'emppi_ros'
# poses of objects: from the simulator or your tracker, or from depth images by the node `tracker`
TRUTH, DEPTH = TRACKING = ('truth', 'depth')


@dataclass(frozen=True)
class NodeSpec:
    """A node that runs in its own process."""

    name: str  # of the node, and of its folder in emppi_ros.nodes
    parameters: Mapping[str, Any] = field(default_factory=dict)
    simulated_only: bool = False  # replaced by the real robot and tracker


def describe(
    task: Any,
    robot: Any,
    seed: Any,
    backend: Any = '',
    hardware: Any = False,
    prior: Any = '',
    save_to: Any = '',
    real_time_factor: Any = 1.0,
    tracking: str = TRUTH,
) -> list[NodeSpec]:
    """Return the nodes; arguments are plain values or substitutions of a launch file."""
    depth = tracking == DEPTH
    images = [NodeSpec('depth_camera', {'seed': seed}, simulated_only=True), NodeSpec('tracker')]
    return [
        NodeSpec('planner', {'task': task, 'robot': robot, 'seed': seed}),
        NodeSpec('belief', {'seed': seed, 'prior': prior, 'save_to': save_to}),
        NodeSpec('bridge', {'backend': backend, 'hardware': hardware}),
        NodeSpec(
            'simulator',
            {
                'seed': seed,
                'real_time_factor': real_time_factor,
                **({'tracked_poses': False} if depth else {}),
            },
            simulated_only=True,
        ),
        *(images if depth else ()),
    ]


def articulation(prior: Any) -> NodeSpec:
    """Return the node that writes the belief's prior file; the robot does not need it."""
    return NodeSpec('articulation', {'prior': prior})


MARKERS = NodeSpec('markers')  # for display only; the robot does not need it
# the action `emppi/run_task`, where emppi_msgs is built; the robot does not need it
TASK_SERVER = NodeSpec('task_server')

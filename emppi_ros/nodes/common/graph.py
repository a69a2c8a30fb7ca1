"""The graph: which nodes there are, and with which parameters. For launch and for the demo."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PACKAGE = 'emppi_ros'


@dataclass(frozen=True)
class NodeSpec:
    """One node, in a process of its own."""

    name: str  # of the node, and of its module in emppi_ros.nodes
    parameters: Mapping[str, Any] = field(default_factory=dict)
    simulated_only: bool = False  # a real robot and tracker take its place

    @property
    def executable(self) -> str:
        """The installed executable, for launch and `ros2 run`."""
        return f'emppi_{self.name}'

    @property
    def module(self) -> str:
        """What `python -m` runs where nothing is installed."""
        return f'{PACKAGE}.nodes.{self.name}.node'


def describe(
    task: Any,
    robot: Any,
    seed: Any,
    backend: Any = '',
    hardware: Any = False,
    prior: Any = '',
    save_to: Any = '',
) -> list[NodeSpec]:
    """
    Return the nodes; arguments are plain values, or substitutions of a launch file.

    `hardware` says whether a real robot takes the simulator's place. The planner alone is told
    the task: it publishes it, and all others follow.
    """
    return [
        NodeSpec('planner', {'task': task, 'robot': robot, 'seed': seed}),
        NodeSpec('belief', {'seed': seed, 'prior': prior, 'save_to': save_to}),
        NodeSpec('bridge', {'backend': backend, 'hardware': hardware}),
        NodeSpec('simulator', {'seed': seed}, simulated_only=True),
    ]


MARKERS = NodeSpec('markers')  # for whoever looks: the robot needs it for nothing

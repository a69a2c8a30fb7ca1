"""Declare node parameters from frozen dataclasses, like those of the YAML files."""

import dataclasses
from typing import TypeVar

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node

from emppi_ros.core import config

T = TypeVar('T')


def declare(node: Node, name: str, default: object, description: str) -> object:
    """Declare a read-only parameter and return its value."""
    descriptor = ParameterDescriptor(description=description, read_only=True, dynamic_typing=True)
    return node.declare_parameter(name, default, descriptor).value


def declare_all(node: Node, cls: type[T]) -> T:
    """
    Declare a parameter per field of a dataclass; return the validated dataclass.

    An earlier configuration of the node may have declared some of them already.
    """
    values = {
        field.name: node.get_parameter(field.name).value
        if node.has_parameter(field.name)
        else declare(node, field.name, field.default, field.metadata.get('doc', ''))
        for field in dataclasses.fields(cls)
    }
    return config.build(cls, values, f'parameters of node {node.get_name()!r}')


@dataclasses.dataclass(frozen=True)
class SeedParameters:
    """Parameters of a node that uses random numbers."""

    seed: int = config.key(0, doc='seed of the random numbers')


@dataclasses.dataclass(frozen=True)
class BeliefParameters(SeedParameters):
    """Parameters of the node `belief`."""

    prior: str = config.key(
        '',
        doc="prior in config/priors, or a path with {task} for its name; '': the task's own",
    )
    save_to: str = config.key(
        '', doc='file to save the belief to on request, at a task switch, and at shutdown'
    )


@dataclasses.dataclass(frozen=True)
class PlannerParameters(SeedParameters):
    """Parameters of the node `planner`."""

    task: str = config.key('panda_push', doc='name or path of the task')
    robot: str = config.key('', doc="robot that replaces the task's own")
    input_timeout_s: float = config.positive(0.25, 'maximum age of the measurements for a plan')
    belief_timeout_s: float = config.positive(1.0, 'maximum age of the belief for a plan')

"""Node parameters from the same frozen dataclasses that describe YAML files."""

import dataclasses
from typing import TypeVar

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node

from emppi_ros.core import config

T = TypeVar('T')


def declare(node: Node, name: str, default: object, description: str) -> object:
    """Declare one parameter, fixed at start, and return its value."""
    descriptor = ParameterDescriptor(description=description, read_only=True, dynamic_typing=True)
    return node.declare_parameter(name, default, descriptor).value


def declare_all(node: Node, cls: type[T]) -> T:
    """Declare a parameter per field of a dataclass, and return it filled in and checked."""
    values = {
        field.name: declare(node, field.name, field.default, field.metadata.get('doc', ''))
        for field in dataclasses.fields(cls)
    }
    return config.build(cls, values, f'parameters of node {node.get_name()!r}')


def declare_again(node: Node, cls: type[T]) -> T:
    """Declare what a node may have declared before, when it was configured the last time."""
    values = {
        field.name: node.get_parameter(field.name).value
        if node.has_parameter(field.name)
        else declare(node, field.name, field.default, field.metadata.get('doc', ''))
        for field in dataclasses.fields(cls)
    }
    return config.build(cls, values, f'parameters of node {node.get_name()!r}')


@dataclasses.dataclass(frozen=True)
class SeedParameters:
    """Parameters of a node that draws random numbers."""

    seed: int = config.key(0, doc='where random numbers start')


@dataclasses.dataclass(frozen=True)
class BeliefParameters(SeedParameters):
    """Parameters of the node `belief`."""

    prior: str = config.key(
        '', doc="file in config/priors, or a path, {task} is its name; the task's own if empty"
    )
    save_to: str = config.key(
        '', doc='where the belief is saved: on request, at a swap, and at the end; empty: nowhere'
    )


@dataclasses.dataclass(frozen=True)
class PlannerParameters(SeedParameters):
    """Parameters of the node `planner`."""

    task: str = config.key('panda_push', doc='name or path of the task')
    robot: str = config.key('', doc="robot in place of the task's own")
    input_timeout_s: float = config.positive(0.25, 'no plan from older measurements')
    belief_timeout_s: float = config.positive(1.0, 'nor from a belief not said for so long')

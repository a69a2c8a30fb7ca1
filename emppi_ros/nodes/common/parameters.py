"""Declare node parameters from frozen dataclasses, like those of the YAML files."""

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
from typing import Any, TypeVar

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from emppi_ros.core import config
from emppi_ros.core.errors import EmppiError

T = TypeVar('T', bound=Any)  # a dataclass


def declare(
    node: Node, name: str, default: object, description: str, read_only: bool = True
) -> object:
    """Declare a parameter and return its value."""
    descriptor = ParameterDescriptor(
        description=description, read_only=read_only, dynamic_typing=True
    )
    return node.declare_parameter(name, default, descriptor).value


def declare_all(node: Node, cls: type[T], settable: Collection[str] = ()) -> T:
    """
    Declare a parameter per field of a dataclass; return the validated dataclass.

    An earlier configuration of the node may have declared some of them already. All are read-only
    except for those in `settable`: see `on_change`.
    """
    values = {
        field.name: node.get_parameter(field.name).value
        if node.has_parameter(field.name)
        else declare(
            node,
            field.name,
            field.default,
            field.metadata.get('doc', ''),
            field.name not in settable,
        )
        for field in dataclasses.fields(cls)
    }
    return _build(node, cls, values)


def changed(node: Node, settings: T, values: Mapping[str, Any]) -> T:
    """Return the validated dataclass with other values; ConfigError if one is invalid."""
    return _build(node, type(settings), {**dataclasses.asdict(settings), **values})


def on_change(node: Node, names: Collection[str], apply: Callable[[dict[str, Any]], None]) -> None:
    """
    Call `apply` with the values of those named parameters that are set from now on.

    Parameters that are set together are applied together. `apply` may raise an EmppiError, which
    rejects the change.
    """

    def callback(parameters: Sequence['Parameter[Any]']) -> SetParametersResult:
        values = {p.name: p.value for p in parameters if p.name in names}
        try:
            if values:
                apply(values)
        except EmppiError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(callback)


def _build(node: Node, cls: type[T], values: Mapping[str, Any]) -> T:
    given = {
        name: list(value) if isinstance(value, (tuple, array, bytes)) else value
        for name, value in values.items()
    }
    return config.build(cls, given, f'parameters of node {node.get_name()!r}')


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

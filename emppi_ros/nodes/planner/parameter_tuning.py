"""Tunable values of the running task as ROS parameters of the planner."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from rclpy.node import Node
from rclpy.parameter import Parameter

from emppi_ros.nodes.common import parameters
from emppi_ros.tasks import tuning
from emppi_ros.tasks.tuning import TunableParameter, Value


class ParameterTuning:
    """A parameter per tunable value, which `show` declares; setting some changes the task."""

    def __init__(self, node: Node, apply: Callable[[dict[str, Any]], None]) -> None:
        """Call `apply` with the task's YAML after changes, as `parameters.on_change` does."""
        self._node, self._apply = node, apply
        self._data: Mapping[str, Any] = {}
        self._tunables: dict[str, TunableParameter] = {}
        self._ours = False  # whether this class itself sets parameters
        parameters.on_change(node, self._tunables, self._set)

    def at_startup(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return a task's YAML with the numbers that the node was started with, or ConfigError."""
        given: dict[str, Value] = {}
        self._ours = True
        for name, tunable in tuning.tunable_parameters(data).items():
            # declared with its type and range by `show`
            value = parameters.declare(self._node, name, None, '', read_only=False)
            self._node.undeclare_parameter(name)
            if value is not None and (number := tuning.number(name, value)) != tunable.value:
                given[name] = number
        self._ours = False
        return tuning.tune(data, given)

    def show(self, data: Mapping[str, Any]) -> None:
        """Declare the parameters of a task's YAML, with their values."""
        tunables, before = tuning.tunable_parameters(data), dict(self._tunables)
        self._ours = True
        for name in before.keys() - tunables.keys():
            self._node.undeclare_parameter(name)
        for name, tunable in tunables.items():
            if name in before and _describe(tunable) != _describe(before[name]):
                self._node.undeclare_parameter(name)
            if not self._node.has_parameter(name):
                self._node.declare_parameter(name, _value(tunable), _describe(tunable), True)
            elif tunable != before[name]:
                self._node.set_parameters([Parameter(name, value=_value(tunable))])
        self._ours = False
        self._keep(data)

    def clear(self) -> None:
        """Remove all parameters."""
        for name in self._tunables:
            self._node.undeclare_parameter(name)
        self._tunables.clear()

    def _keep(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._tunables.clear()
        self._tunables.update(tuning.tunable_parameters(data))

    def _set(self, values: dict[str, Any]) -> None:
        if not self._ours:
            data = tuning.tune(self._data, values)
            self._apply(data)
            self._keep(data)


def _value(tunable: TunableParameter) -> Any:
    return list(tunable.value) if isinstance(tunable.value, Sequence) else float(tunable.value)


def _describe(tunable: TunableParameter) -> ParameterDescriptor:
    text = f'{tunable.doc}; from {tunable.low:g} to {tunable.high:g}'
    if isinstance(tunable.value, Sequence):  # ROS 2 has no ranges for arrays
        return ParameterDescriptor(description=text)
    range_ = FloatingPointRange(from_value=tunable.low, to_value=tunable.high)
    return ParameterDescriptor(description=text, floating_point_range=[range_])

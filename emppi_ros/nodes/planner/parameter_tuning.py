"""The numbers of the running task as parameters of the planner: seen, and set between cycles."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from emppi_ros.core.errors import EmppiError
from emppi_ros.tasks import tuning
from emppi_ros.tasks.tuning import TunableParameter


class ParameterTuning:
    """
    Has a parameter per number; `apply` gets the YAML with those that somebody set.

    All that are set together are taken together, or none is. `apply` may raise an EmppiError.
    """

    def __init__(self, node: Node, apply: Callable[[dict[str, Any]], None]) -> None:
        """Wait for a task."""
        self._node, self._apply = node, apply
        self._data: Mapping[str, Any] | None = None
        self._knobs: Mapping[str, TunableParameter] = {}
        self._ours = False  # whether it is we who set
        node.add_on_set_parameters_callback(self._set)

    def show(self, data: Mapping[str, Any]) -> None:
        """Have a parameter for whatever may be tuned in a task's YAML, with its value there."""
        knobs, before, self._data = tuning.tunable_parameters(data), self._knobs, data
        self._ours = True
        for name in before.keys() - knobs.keys():
            self._node.undeclare_parameter(name)
        for name, knob in knobs.items():
            if name in before and _describe(knob) != _describe(before[name]):
                self._node.undeclare_parameter(name)
            if not self._node.has_parameter(name):
                self._node.declare_parameter(name, _value(knob), _describe(knob), True)
            elif knob != before[name]:
                self._node.set_parameters([Parameter(name, value=_value(knob))])
        self._knobs, self._ours = knobs, False

    def forget(self) -> None:
        """Have no task."""
        for name in self._knobs:
            self._node.undeclare_parameter(name)
        self._knobs, self._data = {}, None

    def _set(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        values = {p.name: p.value for p in parameters if p.name in self._knobs}
        if self._ours or not values:
            return SetParametersResult(successful=True)
        try:
            changed = tuning.tune(self._data, values)
            self._apply(changed)
        except EmppiError as error:
            return SetParametersResult(successful=False, reason=str(error))
        self._data, self._knobs = changed, tuning.tunable_parameters(changed)
        return SetParametersResult(successful=True)


def _value(knob: TunableParameter) -> Any:
    return list(knob.value) if isinstance(knob.value, Sequence) else float(knob.value)


def _describe(knob: TunableParameter) -> ParameterDescriptor:
    words = f'{knob.doc}; from {knob.low:g} to {knob.high:g}'
    if isinstance(knob.value, Sequence):  # ROS 2 knows no ranges of lists
        return ParameterDescriptor(description=words)
    span = FloatingPointRange(from_value=knob.low, to_value=knob.high)
    return ParameterDescriptor(description=words, floating_point_range=[span])

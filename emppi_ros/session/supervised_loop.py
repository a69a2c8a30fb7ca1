"""A closed loop that an operator arms, pauses and tunes."""

from collections.abc import Mapping
import json

from emppi_ros.bridge import state_machine, watchdog
from emppi_ros.bridge.state_machine import Machine
from emppi_ros.session.closed_loop import ClosedLoop
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task


class SupervisedLoop(ClosedLoop):
    """A closed loop that starts disarmed, like the ROS bridge."""

    def __init__(
        self, task: Task, seed: int = 0, truth: Mapping[str, float] | None = None
    ) -> None:
        """Start at rest, disarmed."""
        super().__init__(task, seed, truth=truth)
        self._change(state_machine.disarm(self.machine))

    @property
    def machine(self) -> Machine:
        """The bridge's state."""
        return self._bridge.machine

    def arm(self, armed: bool) -> None:
        """Arm to execute plans, or disarm and acknowledge a fault; ArmError if refused."""
        self._change((state_machine.arm if armed else state_machine.disarm)(self.machine))

    def pause(self, paused: bool) -> None:
        """Brake to rest and stay armed, or resume."""
        self._change(state_machine.pause(self.machine, paused))

    def tune(self, values: Mapping[str, tuning.Value]) -> None:
        """Change tunable parameters from the next cycle on; ConfigError if a value is invalid."""
        self.task = self.task.tuned(tuning.tune(self.task.data, values))
        self.planner.tune(json.dumps(self.task.data))
        self.filter.tune(self.task)

    def _change(self, changed: Machine) -> None:
        if changed.engaged and not self.machine.engaged:
            self.planner.reset_plan()  # plans that were not executed
        self._bridge = watchdog.change(self._bridge, changed)

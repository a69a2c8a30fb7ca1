"""A closed loop that an operator arms, pauses and tunes."""

from collections.abc import Mapping
import json

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.bridge.state_machine import Machine
from emppi_ros.sim.true_parameters import GivenTruth
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task


class SupervisedLoop(ClosedLoop):
    """A closed loop that starts disarmed, like the ROS bridge."""

    def __init__(self, task: Task, seed: int = 0, truth: GivenTruth | None = None) -> None:
        """Start at rest, disarmed."""
        super().__init__(task, seed, truth=truth)
        self.bridge.disarm()

    @property
    def machine(self) -> Machine:
        """The bridge's state."""
        return self.bridge.machine

    def arm(self, armed: bool) -> None:
        """Arm to execute plans, or disarm and acknowledge a fault; ArmError if refused."""
        if not armed:
            self.bridge.disarm()
            return
        self._forget_unexecuted_plans()
        self.bridge.arm(self.robot.time)

    def pause(self, paused: bool) -> None:
        """Brake to rest and stay armed, or resume."""
        self._forget_unexecuted_plans()
        self.bridge.pause(paused)

    def tune(self, values: Mapping[str, tuning.Value]) -> None:
        """Change tunable parameters from the next cycle on; ConfigError if a value is invalid."""
        self.task = self.task.tuned(tuning.tune(self.task.data, values))
        for session in (self.planner, self.belief):
            session.tune(json.dumps(self.task.data))

    def _forget_unexecuted_plans(self) -> None:
        """Start the next plan from rest unless the bridge follows plans."""
        if not self.machine.engaged:
            self.planner.reset_plan()

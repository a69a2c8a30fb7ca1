"""Base class of the lifecycle nodes: error reports of transitions, and autostart."""

from collections.abc import Callable

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import parameters
from emppi_ros.nodes.common.diagnostics import ERROR, Diagnostics, Report
from emppi_ros.nodes.common.polling import Loop


class ManagedNode(LifecycleNode):
    """
    A lifecycle node; subclasses implement `setup`, `start`, `stop` and `teardown`.

    `setup` may raise an EmppiError: the node stays unconfigured, and diagnostics show the error.
    `start` and `stop` enclose the active state, `teardown` undoes `setup`.
    """

    def __init__(self, name: str, **kwargs: object) -> None:
        """Declare `autostart`; `startup` applies it once the subclass is initialized."""
        super().__init__(name, **kwargs)
        self.autostart = bool(
            parameters.declare(self, 'autostart', True, 'configure and activate at startup')
        )
        self.problem = ''  # error of the last transition
        self.loop: Loop | None = None  # while the node is active
        self.diagnostics = Diagnostics(self, self._report)

    def setup(self) -> None:
        """Create everything that depends on the task."""

    def start(self) -> None:
        """Start the loop."""

    def stop(self) -> None:
        """Stop the loop."""
        if self.loop is not None:
            self.loop.stop()
        self.loop = None

    def teardown(self) -> None:
        """Release the task."""

    def report(self) -> Report:
        """Return the report of a configured node."""
        raise NotImplementedError

    def now(self) -> float:
        """Return the time of the node's clock [s]."""
        return self.get_clock().now().nanoseconds * 1e-9

    def startup(self) -> None:
        """Configure and activate, with `autostart`."""
        if not self.autostart or self.state != 'unconfigured':
            return
        self.trigger_configure()
        if self.state == 'inactive':
            self.trigger_activate()

    def shutdown(self) -> None:
        """Shut down from any state."""
        if self.state in ('unconfigured', 'inactive', 'active'):
            self.trigger_shutdown()

    @property
    def failed(self) -> bool:
        """Whether the process must exit."""
        return self.loop is not None and bool(self.loop.failure)

    @property
    def state(self) -> str:
        """Name of the lifecycle state."""
        return self._state_machine.current_state[1]

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Set up."""
        self.problem = ''
        result = self._transition(self.setup)
        # The first log message of a process takes 0.1 s in rclpy; later ones must not.
        self.get_logger().info('configured' if result is _SUCCESS else 'not configured')
        return result

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start."""
        return self._transition(self.start)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop."""
        return self._transition(self.stop)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Tear down."""
        return self._transition(self.teardown)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop if active, and tear down."""
        if state.label == 'active':
            self._transition(self.stop)
        return self._transition(self.teardown) if state.label != 'unconfigured' else _SUCCESS

    def _transition(self, work: Callable[[], None]) -> TransitionCallbackReturn:
        """Run a transition and log its exceptions, which rclpy would swallow."""
        try:
            work()
        except EmppiError as error:
            self.problem = str(error)
            self.get_logger().error(self.problem)
            return TransitionCallbackReturn.FAILURE
        except Exception as error:
            self.problem = f'{type(error).__name__}: {error}'
            self.get_logger().fatal(self.problem)
            raise
        return _SUCCESS

    def _report(self) -> Report:
        if self.problem:
            return Report(ERROR, self.problem, {'lifecycle': self.state, 'problem': self.problem})
        if self.state in ('inactive', 'active'):
            report = self.report()
            values = {'lifecycle': self.state, **report.values}
            return Report(report.level, report.message, values)
        return self.waiting()

    def waiting(self) -> Report:
        """Return the report of a node that is not configured."""
        return Report(ERROR, self.state)


_SUCCESS = TransitionCallbackReturn.SUCCESS

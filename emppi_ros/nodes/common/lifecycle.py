"""What the lifecycle nodes share: transitions that report errors, and starting by oneself."""

from collections.abc import Callable

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import parameters
from emppi_ros.nodes.common.diagnostics import ERROR, Diagnostics, Report
from emppi_ros.nodes.common.polling import Loop


class ManagedNode(LifecycleNode):
    """
    A lifecycle node whose work is four methods.

    `setup` may raise an EmppiError, which leaves the node unconfigured and in diagnostics;
    `start` and `stop` bracket the active state, `teardown` undoes `setup`.
    """

    def __init__(self, name: str, **kwargs: object) -> None:
        """Declare `autostart`; subclasses declare theirs and then call `begin`."""
        super().__init__(name, **kwargs)
        self.autostart = bool(
            parameters.declare(self, 'autostart', True, 'configure and activate by oneself')
        )
        self.problem = ''  # what kept the node from being configured
        self.loop: Loop | None = None  # while the node works
        self.diagnostics = Diagnostics(self, self._report)

    def setup(self) -> None:
        """Make everything that the task determines."""

    def start(self) -> None:
        """Begin to work."""

    def stop(self) -> None:
        """Stop working."""
        if self.loop is not None:
            self.loop.stop()
        self.loop = None

    def teardown(self) -> None:
        """Forget the task."""

    def report(self) -> Report:
        """Return how the node is doing while it is configured."""
        raise NotImplementedError

    def now(self) -> float:
        """Return the node's clock [s]."""
        return self.get_clock().now().nanoseconds * 1e-9

    def startup(self) -> None:
        """Configure and activate, if the node is to start by itself."""
        if not self.autostart or self.state != 'unconfigured':
            return
        self.trigger_configure()
        if self.state == 'inactive':
            self.trigger_activate()

    def shutdown(self) -> None:
        """Stop working and shut down, from any state."""
        if self.state in ('unconfigured', 'inactive', 'active'):
            self.trigger_shutdown()

    @property
    def failed(self) -> bool:
        """Whether the node can go on no more."""
        return self.loop is not None and bool(self.loop.failure)

    @property
    def state(self) -> str:
        """The lifecycle state's name."""
        return self._state_machine.current_state[1]

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Set up."""
        self.problem = ''
        done = self._transition(self.setup)
        # also so that no later message is the first one: rclpy searches all modules for who logs
        # it, which takes a tenth of a second
        self.get_logger().info('configured' if done is _SUCCESS else 'not configured')
        return done

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
        """Stop if need be, and tear down."""
        if state.label == 'active':
            self._transition(self.stop)
        return self._transition(self.teardown) if state.label != 'unconfigured' else _SUCCESS

    def _transition(self, work: Callable[[], None]) -> TransitionCallbackReturn:
        """Do the work of a transition; rclpy by itself swallows what it raises."""
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
        """Return the state of a node that is not configured."""
        return Report(ERROR, self.state)


_SUCCESS = TransitionCallbackReturn.SUCCESS

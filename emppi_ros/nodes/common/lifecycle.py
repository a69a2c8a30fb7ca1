"""Base class of the lifecycle nodes: errors of transitions, autostart, and simulated time."""

from collections.abc import Callable
from typing import Any

from rclpy.clock import JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from std_srvs.srv import SetBool

from emppi_ros.core.errors import EmppiError, StaleInputError
from emppi_ros.nodes.common import parameters
from emppi_ros.nodes.common.clock_sync import create_steady_timer, is_simulated
from emppi_ros.nodes.common.diagnostics import ERROR, WARN, Diagnostics, Report
from emppi_ros.nodes.common.polling import Loop

NO_CLOCK = 'waiting for /clock: use_sim_time is set, is the simulator running?'
_CLOCK_CHECK_S = 0.05
_BACK = Duration(nanoseconds=-1)


def serve(node: Node, kind: type, name: str, answer: Callable[..., str]) -> None:
    """
    Offer a service of std_srvs: `answer` returns the message, given the value of a SetBool.

    If it raises an EmppiError, the response is its text, without success.
    """

    def respond(request: Any, response: Any) -> Any:
        try:
            response.message = answer(request.data) if kind is SetBool else answer()
            response.success = True
        except EmppiError as error:
            response.message = str(error)
        return response

    node.create_service(kind, name, respond)


class ManagedNode(LifecycleNode):
    """
    A lifecycle node; subclasses implement `setup`, `start`, `stop` and `teardown`.

    If `setup` raises an EmppiError, the node stays unconfigured, and diagnostics show the error.
    With `use_sim_time` it is activated after the first /clock only, and begins again when /clock
    is set back, as by a reset of the simulator.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        """Declare `autostart`; `startup` applies it. `kwargs` are those of rclpy's nodes."""
        super().__init__(name, **kwargs)
        self.autostart = bool(
            parameters.declare(self, 'autostart', True, 'configure and activate at startup')
        )
        self.problem = ''  # error of the last transition
        self.broken = False  # whether the node cannot go on after an error
        self._activates = False  # at the first /clock
        self.loop: Loop | None = None  # while the node is active
        self.diagnostics = Diagnostics(self, self._report)
        if is_simulated(self):
            create_steady_timer(self, _CLOCK_CHECK_S, self._check_clock)
            self._set_back_s = 0.0  # since the node was activated
            # readings of the clock would miss that it is set back, and soon ahead again
            back = JumpThreshold(min_forward=None, min_backward=_BACK, on_clock_change=False)
            self._jumps = self.get_clock().create_jump_callback(back, post_callback=self._jumped)

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

    def restart(self) -> None:
        """Begin again while active, without old measurements, after /clock was set back."""
        self.stop()
        self.start()

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
        if self.state != 'inactive':
            return
        self._activates = not self.clock_runs
        if self._activates:
            self.get_logger().info(NO_CLOCK)
        else:
            self.trigger_activate()

    def shutdown(self) -> None:
        """Shut down from any state."""
        if self.state in ('unconfigured', 'inactive', 'active'):
            self.trigger_shutdown()

    @property
    def clock_runs(self) -> bool:
        """Whether there is a time: with `use_sim_time`, whether /clock was received."""
        return self.get_clock().now().nanoseconds > 0

    @property
    def failed(self) -> bool:
        """Whether the process must exit."""
        return self.broken or (self.loop is not None and bool(self.loop.failure))

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
        """Start; not before the first /clock, with `use_sim_time`."""
        self.problem, self._activates = '', False
        result = self._transition(self._start)
        if result is _SUCCESS:
            self.get_logger().info('active')
        return result

    def _start(self) -> None:
        if not self.clock_runs:
            raise StaleInputError(NO_CLOCK)
        self._set_back_s = 0.0
        self.start()

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

    def _jumped(self, jump: TimeJump) -> None:
        self._set_back_s = -jump.delta.nanoseconds * 1e-9  # a callback of the clock must not block

    def _check_clock(self) -> None:
        """Activate at the first /clock, and begin again after it was set back."""
        if self._activates and self.clock_runs and self.state == 'inactive':
            self.trigger_activate()
        elif self._set_back_s and self.state == 'active':
            self.get_logger().warning(f'/clock was set back by {self._set_back_s:.3f} s')
            self._set_back_s = 0.0
            self._transition(self.restart)

    def _report(self) -> Report:
        lifecycle = {'lifecycle': self.state}
        if self.problem:
            return Report(ERROR, self.problem, {**lifecycle, 'problem': self.problem})
        if self._activates:
            return Report(WARN, NO_CLOCK, lifecycle)
        if self.state in ('inactive', 'active'):
            level, message, values = self.report()
            return Report(level, message, {**lifecycle, **values})
        return self.waiting()

    def waiting(self) -> Report:
        """Return the report of a node that is not configured."""
        return Report(ERROR, self.state)


_SUCCESS = TransitionCallbackReturn.SUCCESS

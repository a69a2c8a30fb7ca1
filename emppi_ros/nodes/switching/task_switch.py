"""
Another task while the robot runs: a request in, every node over to it or none, an answer out.

Whoever asks publishes on `emppi/task/request`. First all that can fail is tried: the planner
makes everything new, the others say whether they can follow. Then the bridge brings the arm to
rest; only then the task is published and all go over; and only when there is a plan of the new
task may the bridge go on. Until the task is published a failure changes nothing; after that the
arm stays at rest. Runs in the executor, a step at a time, while planning goes on.
"""

from collections.abc import Callable, Iterator
import functools
import math
import time
import traceback

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.core.errors import EmppiError, SwapError
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.switching.participant import Swapper
from emppi_ros.nodes.switching.rest_service import UNABLE, Rest
from emppi_ros.nodes.topics.task import ANSWERS, NEXT
from emppi_ros.tasks import switch_protocol, tuning
from emppi_ros.tasks.switch_protocol import SwitchReply

REQUEST = 'emppi/task/request'
_STEP_S, _AGAIN_S = 0.005, 0.3
_TRY_S, _REST_S, _FOLLOW_S, _PLAN_S = 5.0, 3.0, 5.0, 5.0  # and then something is wrong
_SPANS = ('check_s', 'rest_s', 'follow_s', 'plan_s')  # what the time of a swap went into
Steps = Iterator[None]


class TaskSwitch:
    """Takes requests, one at a time."""

    def __init__(self, node: Node, planner: Swapper, robot: str) -> None:
        """Listen; `robot` takes the place of that of a task that is asked for by name."""
        self._node, self._planner, self._robot = node, planner, robot
        self._next = node.create_publisher(String, NEXT, qos.DEFAULT)
        self._answers = node.create_publisher(String, ANSWERS, qos.DEFAULT)
        node.create_subscription(String, REQUEST, self._take_request, qos.DEFAULT)
        node.create_subscription(String, ANSWERS, self._take_answer, qos.DEFAULT)
        self._rest = Rest(node)
        self._heard: dict[str, SwitchReply] = {}  # about the text under way, by node
        self._about, self._began, self._published = '', 0.0, False
        self._steps: Steps | None = None
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(_STEP_S, self._step, clock=clock)
        self._timer.cancel()  # until there is something to do
        self.open = False  # whether the planner is active

    @property
    def busy(self) -> bool:
        """Whether a swap is under way."""
        return self._steps is not None

    def cancel(self) -> None:
        """End a swap under way, because the planner stops."""
        self.open = False
        if self._steps is not None:
            self._end(SwapError('the planner was stopped'))

    def _take_request(self, message: String) -> None:
        about = switch_protocol.digest(message.data)
        if self._steps is not None:
            waited = time.monotonic() - self._began
            reason = f'another task was asked for {waited:.1f} s ago and is under way: ask again'
            self._answer(about, switch_protocol.REFUSED, reason)
        elif not self.open:
            self._answer(about, switch_protocol.REFUSED, 'the planner is not active')
        else:
            self._about, self._began, self._published = about, time.monotonic(), False
            self._steps = self._swap(message.data)
            self._timer.reset()

    def _take_answer(self, message: String) -> None:
        answer = switch_protocol.read_reply(message.data)
        if answer is not None and self._steps is not None:
            self._heard[f'{answer.node} {answer.about} {answer.said}'] = answer

    def _step(self) -> None:
        try:
            next(self._steps)
        except StopIteration:
            self._end(None)
        except EmppiError as error:
            self._end(error)
        except Exception as error:  # of whatever a task's file led to: planning goes on
            self._node.get_logger().error(traceback.format_exc())
            self._end(SwapError(f'{type(error).__name__}: {error}'))

    def _end(self, error: EmppiError | None) -> None:
        """Answer; after a failure before anything changed, all goes on as before."""
        self._timer.cancel()
        steps, self._steps = self._steps, None
        steps.close()
        self._heard.clear()
        if error is None:
            return
        reason = switch_protocol.explain(error)
        if self._published:
            reason += f'. {self._planner.task.name} is the task now; the arm stays at rest'
        self._node.get_logger().warning(f'{REQUEST}: {reason}')
        self._answer(
            self._about,
            switch_protocol.FAILED if self._published else switch_protocol.REFUSED,
            reason,
        )

    def _answer(self, about: str, said: str, reason: str = '', **figures: object) -> None:
        name = self._node.get_fully_qualified_name()
        self._answers.publish(
            String(data=SwitchReply(name, about, said, reason, figures).to_text())
        )

    def _swap(self, request: str) -> Steps:
        """Go through a swap; EmppiError says what went wrong."""
        planner = self._planner
        text = switch_protocol.requested(request, self._robot)
        task = switch_protocol.checked(text, REQUEST, planner.task.robot)
        if tuning.is_tuned(planner.task.data, task.data):
            planner.tune(task.data)
            self._answer(self._about, switch_protocol.DONE, task=task.name, tuned=True)
            return
        fresh = planner.make(task, text)
        yield
        nodes = self._followers()
        show = functools.partial(self._next.publish, String(data=text))
        yield from self._tell(show, nodes, text, switch_protocol.READY, _TRY_S)
        marks = [self._began, time.monotonic()]
        try:
            yield from self._asked(True, 'the arm did not come to rest')
            marks.append(time.monotonic())
            planner.go_over(fresh)
            self._published, tell = True, functools.partial(planner.tell, text)
            yield from self._tell(tell, nodes, text, switch_protocol.FOLLOWING, _FOLLOW_S)
            marks.append(time.monotonic())
        except BaseException:
            if not self._published:
                self._rest.ask_again(False)
            else:
                planner.go_on()
            raise
        planner.go_on()
        yield from _until(
            lambda: bool(planner.figures.starts), _PLAN_S, lambda: 'no plan of the new task'
        )
        marks.append(time.monotonic())
        said = yield from self._asked(False, 'the bridge did not go on')
        figures = {name: b - a for name, a, b in zip(_SPANS, marks, marks[1:], strict=False)}
        figures |= {'to_first_plan_s': marks[-1] - marks[0], 'bridge': said}
        self._answer(self._about, switch_protocol.DONE, task=task.name, tuned=False, **figures)

    def _followers(self) -> set[str]:
        """Return the full names of all nodes that are to follow."""
        space = self._node.get_namespace().rstrip('/')
        found = {
            f'{info.node_namespace.rstrip("/")}/{info.node_name}'
            for info in self._node.get_subscriptions_info_by_topic(NEXT)
        }
        if (needed := {f'{space}/belief', f'{space}/bridge'}) - found:
            raise SwapError(f'not to be found, is it running? {", ".join(needed - found)}')
        return needed | (found & {f'{space}/simulator'})

    def _tell(
        self, tell: Callable[[], None], nodes: set[str], text: str, said: str, limit: float
    ) -> Steps:
        """
        Tell a text until all nodes have said that they are ready for it, or follow it.

        Again and again: the middleware repeats a message that was lost after seconds only.
        """
        about, told = switch_protocol.digest(text), -math.inf

        def missing() -> set[str]:
            for answer in self._heard.values():
                if (
                    answer.about == about
                    and answer.said == switch_protocol.REFUSED
                    and answer.node in nodes
                ):
                    raise SwapError(f'{answer.node}: {answer.reason}')
            return {name for name in nodes if f'{name} {about} {said}' not in self._heard}

        def all_have() -> bool:
            nonlocal told
            if time.monotonic() > told + _AGAIN_S:
                tell()
                told = time.monotonic()
            return not missing()

        yield from _until(all_have, limit, lambda: f'{", ".join(missing())} never said {said!r}')

    def _asked(self, rest: bool, problem: str) -> Steps:
        """Ask the bridge for rest, or for its end, until it is so; return its last words."""
        self._rest.ask_again(rest)
        last = 'no answer'

        def answered() -> bool:
            nonlocal last
            answer = self._rest.ask(rest)
            last = last if answer is None else answer.message
            if answer is not None and answer.message == UNABLE:
                raise SwapError(f'the bridge: {UNABLE}')
            return answer is not None and answer.success

        yield from _until(answered, _REST_S, lambda: f'{problem}; it says: {last}')
        return last


def _until(condition: Callable[[], bool], limit: float, problem: Callable[[], str]) -> Steps:
    """Wait for a condition; SwapError if it takes longer than a limit [s]."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > limit:
            raise SwapError(f'{problem()} within {limit:g} s')
        yield

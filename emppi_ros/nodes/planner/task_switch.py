"""
Switch the task at runtime: all nodes change to the new task, or none does.

Requests arrive on `emppi/task/request`. A switch has four steps: check the task in the planner
and in all other nodes; bring the arm to rest through the bridge; publish the task, which all
nodes then follow; release the arm once there is a plan for the new task. A failure before the
task is published changes nothing; after a later failure the arm stays at rest. The switch runs
in the executor, in small steps, while planning continues. Clients call `request_switch`.
"""

from collections.abc import Callable, Generator, Mapping
import functools
import math
import time
import traceback
from typing import TYPE_CHECKING

from rclpy.client import Client
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import SetBool

from emppi_ros.core.errors import EmppiError, SwapError
from emppi_ros.nodes.common import process, qos
from emppi_ros.nodes.common.clock_sync import create_steady_timer
from emppi_ros.nodes.topics.task import ANSWERS, NEXT, REQUEST, SWAP, UNABLE
from emppi_ros.tasks import switch_protocol, tuning
from emppi_ros.tasks.switch_protocol import SwitchReply

if TYPE_CHECKING:
    from emppi_ros.nodes.planner.node import PlannerNode

_STEP_S, _REPEAT_S = 0.005, 0.3
_CHECK_S, _REST_S, _FOLLOW_S, _PLAN_S = 5.0, 3.0, 5.0, 5.0  # timeouts of the steps
_DISCOVERY_S, _POLL_S = 5.0, 0.02  # of a client
_SETTLE_POLLS = 10  # after discovery, so that both sides are matched
_DURATIONS = ('check_s', 'rest_s', 'follow_s', 'plan_s')  # of the steps, in the reply
Steps = Generator[None, None, None]


class TaskSwitch:
    """Handle task requests, one at a time."""

    def __init__(self, node: 'PlannerNode', robot: str) -> None:
        """Subscribe; `robot` replaces the robot of a task requested by name."""
        self._node, self._robot = node, robot
        self._next = node.create_publisher(String, NEXT, qos.DEFAULT)
        self._answers = node.create_publisher(String, ANSWERS, qos.DEFAULT)
        node.create_subscription(String, REQUEST, self._take_request, qos.DEFAULT)
        node.create_subscription(String, ANSWERS, self._take_answer, qos.DEFAULT)
        self._bridge: Client[SetBool.Request, SetBool.Response] = node.create_client(SetBool, SWAP)
        self._rest: Future[SetBool.Response] | None = None  # the last request
        self._replies: dict[str, SwitchReply] = {}  # to the current request
        self._about, self._started, self._published = '', 0.0, False
        self._steps: Steps | None = None
        self._timer = create_steady_timer(node, _STEP_S, self._step)
        self._timer.cancel()  # until a request arrives
        self.open = False  # whether the planner is active

    @property
    def busy(self) -> bool:
        """Whether a switch is in progress."""
        return self._steps is not None

    def cancel(self) -> None:
        """Abort a switch in progress because the planner stops."""
        self.open = False
        if self._steps is not None:
            self._end(self._steps, SwapError('the planner was stopped'))

    def _take_request(self, message: String) -> None:
        about = switch_protocol.digest(message.data)
        if self._steps is not None:
            elapsed = time.monotonic() - self._started
            reason = f'another task switch started {elapsed:.1f} s ago; try again when it is done'
            self._answer(about, switch_protocol.REFUSED, reason)
        elif not self.open:
            self._answer(about, switch_protocol.REFUSED, 'the planner is not active')
        else:
            self._about, self._started, self._published = about, time.monotonic(), False
            self._steps = self._switch(message.data)
            self._timer.reset()

    def _take_answer(self, message: String) -> None:
        reply = switch_protocol.read_reply(message.data)
        if reply is not None and self._steps is not None:
            self._replies[f'{reply.node} {reply.about} {reply.said}'] = reply

    def _step(self) -> None:
        steps = self._steps
        if steps is None:
            return
        try:
            next(steps)
        except StopIteration:
            self._end(steps, None)
        except EmppiError as error:
            self._end(steps, error)
        except Exception as error:  # a task file must not stop the planner
            self._node.get_logger().error(traceback.format_exc())
            self._end(steps, SwapError(f'{type(error).__name__}: {error}'))

    def _end(self, steps: Steps, error: EmppiError | None) -> None:
        """Finish the switch; on failure, reply with the error."""
        self._timer.cancel()
        self._steps = None
        steps.close()
        self._replies.clear()
        if error is None:
            return
        reason = switch_protocol.explain(error)
        if self._published:
            reason += f'. {self._node.task.name} is now the task; the arm stays at rest'
        self._node.get_logger().warning(f'{REQUEST}: {reason}')
        status = switch_protocol.FAILED if self._published else switch_protocol.REFUSED
        self._answer(self._about, status, reason)

    def _answer(
        self, about: str, status: str, reason: str = '', figures: Mapping[str, object] = {}
    ) -> None:
        name = self._node.get_fully_qualified_name()
        reply = SwitchReply(name, about, status, reason, dict(figures))
        self._answers.publish(String(data=reply.to_text()))

    def _switch(self, request: str) -> Steps:
        planner = self._node
        text = switch_protocol.requested(request, self._robot)
        task = switch_protocol.checked(text, REQUEST, planner.task.robot)
        if tuning.is_tuned(planner.task.data, task.data):
            planner.tune(task.data)
            digest = switch_protocol.digest(tuning.to_text(task.data))
            figures: dict[str, object] = {'task': task.name, 'digest': digest, 'tuned': True}
            self._answer(self._about, switch_protocol.DONE, figures=figures)
            return
        new_planner = planner.create_planner(task, text)
        yield
        nodes = self._followers()
        announce = functools.partial(self._next.publish, String(data=text))
        yield from self._distribute(announce, nodes, text, switch_protocol.READY, _CHECK_S)
        times = [self._started, time.monotonic()]
        try:
            yield from self._request_rest(True, 'the arm did not come to rest')
            times.append(time.monotonic())
            planner.replace_planner(new_planner)
            self._published, publish = True, functools.partial(planner.publish_task, text)
            yield from self._distribute(publish, nodes, text, switch_protocol.FOLLOWING, _FOLLOW_S)
            times.append(time.monotonic())
        except BaseException:
            if not self._published:
                self._call_bridge(False)
            else:
                planner.resume()
            raise
        planner.resume()
        yield from _until(
            lambda: bool(planner.stats.starts), _PLAN_S, lambda: 'no plan for the new task'
        )
        times.append(time.monotonic())
        state = yield from self._request_rest(False, 'the bridge did not release the arm')
        figures = {'task': task.name, 'digest': switch_protocol.digest(text), 'tuned': False}
        steps = zip(_DURATIONS, times, times[1:], strict=False)
        figures |= {name: b - a for name, a, b in steps}
        figures |= {'to_first_plan_s': times[-1] - times[0], 'bridge': state}
        self._answer(self._about, switch_protocol.DONE, figures=figures)

    def _followers(self) -> set[str]:
        """Return the full names of all nodes that must follow the switch."""
        space = self._node.get_namespace().rstrip('/')
        subscribers = {
            f'{info.node_namespace.rstrip("/")}/{info.node_name}'
            for info in self._node.get_subscriptions_info_by_topic(NEXT)
        }
        required = {f'{space}/belief', f'{space}/bridge'}
        if missing := required - subscribers:
            raise SwapError(f'no such node, is it running? {", ".join(missing)}')
        return required | (subscribers & {f'{space}/simulator'})

    def _distribute(
        self, publish: Callable[[], None], nodes: set[str], text: str, status: str, limit: float
    ) -> Steps:
        """Publish a text until all nodes have replied with `status`, READY or FOLLOWING."""
        about, published_at = switch_protocol.digest(text), -math.inf

        def missing() -> set[str]:
            for reply in self._replies.values():
                refused = reply.about == about and reply.said == switch_protocol.REFUSED
                if refused and reply.node in nodes:
                    raise SwapError(f'{reply.node}: {reply.reason}')
            return {name for name in nodes if f'{name} {about} {status}' not in self._replies}

        def complete() -> bool:
            nonlocal published_at
            if time.monotonic() > published_at + _REPEAT_S:  # DDS resends only after seconds
                publish()
                published_at = time.monotonic()
            return not missing()

        yield from _until(
            complete, limit, lambda: f'no reply {status!r} from {", ".join(missing())}'
        )

    def _call_bridge(self, rest: bool) -> None:
        """Send a request to the bridge, if there is one; ignore answers to earlier ones."""
        self._rest = None
        if self._bridge.service_is_ready():
            self._rest = self._bridge.call_async(SetBool.Request(data=rest))

    def _request_rest(self, rest: bool, problem: str) -> Generator[None, None, str]:
        """Wait until the bridge holds the arm at rest, or releases it; return its message."""
        self._call_bridge(rest)
        last = 'no answer'

        def done() -> bool:
            nonlocal last
            if not self._bridge.service_is_ready():
                raise SwapError(f'no bridge serves {SWAP}: is it running?')
            response = None
            if self._rest is not None and self._rest.done():
                response, self._rest = self._rest.result(), None
            if self._rest is None:
                self._call_bridge(rest)
            if response is None:
                return False
            if response.message == UNABLE:
                raise SwapError(f'the bridge: {UNABLE}')
            last = response.message
            return response.success

        yield from _until(done, _REST_S, lambda: f'{problem}; last response: {last}')
        return last


def _until(condition: Callable[[], bool], limit: float, problem: Callable[[], str]) -> Steps:
    """Wait for a condition; SwapError after a timeout [s]."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > limit:
            raise SwapError(f'{problem()} within {limit:g} s')
        yield


def request_switch(text: str, namespace: str, patience_s: float) -> SwitchReply:
    """Request the task in a YAML text; return the reply. SwapError if there is none in time."""
    client = process.CommandNode('task', namespace)
    node, executor = client.node, client.executor
    request = switch_protocol.tagged(text)
    about, replies = switch_protocol.digest(request), []

    def receive(message: String) -> None:
        reply = switch_protocol.read_reply(message.data)
        if reply and reply.about == about and reply.said in switch_protocol.RESULTS:
            replies.append(reply)

    def wait(condition: Callable[[], object], limit_s: float, problem: str) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise SwapError(problem)
            executor.spin_once(timeout_sec=_POLL_S)

    try:
        topic = node.resolve_topic_name(REQUEST)
        node.create_subscription(String, ANSWERS, receive, qos.DEFAULT)
        publisher = node.create_publisher(String, REQUEST, qos.DEFAULT)
        wait(
            # both directions, or the reply may be lost
            lambda: publisher.get_subscription_count() > 0 < node.count_publishers(ANSWERS),
            _DISCOVERY_S,
            f'no node subscribes to {topic}: is the planner running, in this ROS domain?',
        )
        for _ in range(_SETTLE_POLLS):
            executor.spin_once(timeout_sec=_POLL_S)
        publisher.publish(String(data=request))
        wait(lambda: replies, patience_s, f'{topic}: no answer within {patience_s:g} s')
        return replies[0]
    finally:
        client.close()

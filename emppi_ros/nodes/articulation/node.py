"""
The node `articulation`: proposes the joints of tracked objects while they move.

The kinematic tree of their tracked poses is inferred again at `rate_hz`, and published with its
evidence. Once joints of the task are decided, they are written as a prior, and the belief is asked
to start from it.
"""

from dataclasses import dataclass
import functools
import json
import math
from pathlib import Path
import time
from typing import Any

from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
import numpy as np
from rclpy.client import Client
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from emppi_ros.articulation import mjcf, online, prior, report, tracks
from emppi_ros.articulation.online import ArticulationProposal, PoseHistory
from emppi_ros.core import config, paths
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import convert, parameters, qos
from emppi_ros.nodes.common.diagnostics import OK, WARN, Durations, Report
from emppi_ros.nodes.common.frames import FrameTransforms
from emppi_ros.nodes.common.inputs import UNCERTAIN
from emppi_ros.nodes.common.polling import Loop
from emppi_ros.nodes.topics.task import TaskFollowerNode
from emppi_ros.priors import prior_file

PROPOSAL, RESET = 'emppi/articulation', 'emppi/reset_belief'
_TASK, _DECIDED = '{task}', ('revolute', 'prismatic')
_BETTER = 0.5  # of the standard deviation of an axis, from which the prior is written again


@dataclass(frozen=True)
class ArticulationParameters(online.OnlineArticulationConfig):
    """Parameters of the node."""

    rate_hz: float = config.between(0.1, 5.0, 1.0, doc='proposals per second')
    model: str = config.key(
        '', doc="MJCF file of the last proposal; {task} stands for the task's name"
    )
    prior: str = config.key(
        '', doc='prior file to write, the same as the parameter `prior` of the belief node'
    )
    reset_belief: bool = config.key(
        True, doc='whether the belief is asked to start from each prior that was written'
    )


class ArticulationNode(TaskFollowerNode):
    """Infers joints from the tracked objects of the task."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__('articulation', **kwargs)
        self._settings = parameters.declare_all(self, ArticulationParameters)
        if self._settings.prior:
            prior_file.check_path(Path(self._settings.prior))
        self._publisher = self.create_publisher(String, PROPOSAL, qos.LATCHED)
        self._client: Client[Any, Any] = self.create_client(Trigger, RESET)

    def setup(self) -> None:
        """Take the task, and listen to its tracked objects."""
        self.task = self.follow.take()
        self._forget()
        self._frames = FrameTransforms(self, self.task.robot)
        kinds = (PoseStamped, 'tracking'), (PoseWithCovarianceStamped, UNCERTAIN)
        # not polled by the loop, which would miss poses while it infers
        self._inputs = [
            self.create_subscription(
                kind, f'{topic}/{name}', functools.partial(self._take, topic, name), qos.SENSOR
            )
            for name in self.task.tracked
            for kind, topic in kinds
        ]

    def start(self) -> None:
        """Begin with nothing that was seen."""
        self._forget()
        self.loop = Loop('articulation', 1.0 / self._settings.rate_hz, self._work)

    def teardown(self) -> None:
        """Release the task."""
        for subscription in self._inputs:
            self.destroy_subscription(subscription)
        self._frames.close()
        super().teardown()

    def report(self) -> Report:
        """Return types of joints, their evidence, the noise used, and what prevents a prior."""
        proposal, history, usual = self._proposal, self._history, self._settings
        values: dict[str, object] = {
            'frames': len(history.kept),
            'infer_ms_p50': self._times.quantile_ms(0.5),
            'prior': self._written,
        }
        configured = f'{usual.position_sd_m:g} m, {usual.rotation_sd_deg:g} degrees'
        for name in self.task.tracked:
            published = history.has_covariances(name)
            values[f'noise {name}'] = f'{UNCERTAIN}/{name}' if published else configured
        text = f'waiting for the motion of {", ".join(self.task.tracked) or "nothing"}'
        if proposal is not None and proposal.kinds:
            for name, kind in proposal.kinds.items():
                values |= {f'joint {name}': kind, f'log_odds {name}': proposal.evidence[name]}
            text = ', '.join(f'{name}: {kind}' for name, kind in proposal.kinds.items())
        return Report(WARN if self._problem else OK, self._problem or text, values)

    def _forget(self) -> None:
        self._history = PoseHistory()
        self._proposal: ArticulationProposal | None = None
        self._problem, self._written, self._sd = '', '', math.inf
        self._times, self._proposed_at = Durations(), -1.0

    def _take(self, topic: str, name: str, message: Any) -> None:
        """Add a pose, or a covariance to its pose; one that is invalid is left out."""
        settings, robot = self._settings, self.task.robot
        try:
            if topic == UNCERTAIN:
                covariance = convert.read_covariance(robot, message)
                self._history = online.add_covariance(settings, self._history, name, *covariance)
                return
            self._frames.poll()
            stamp, pose = self._frames.read_pose(message)
            row = np.concatenate([pose.position, pose.quaternion])
            if tracks.from_arrays(name, row[None, :3], row[None, 3:]).seen[0]:
                self._history = online.add(settings, self._history, name, stamp, row)
        except EmppiError as error:
            self._problem = f'{topic}/{name}: {error}'

    def _work(self, _moment: float) -> None:
        """Infer the tree if there are new frames."""
        history = self._history
        newest = history.kept[-1].time if history.kept else -1.0
        if newest == self._proposed_at:
            return
        self._proposed_at, began = newest, time.perf_counter()
        proposal = online.propose(self._settings, history)
        self._times.add(time.perf_counter() - began)
        if proposal is None:
            return
        self._proposal, self._problem = proposal, ''
        self._publish(proposal)
        try:
            self._write(proposal)
        except EmppiError as error:
            self._problem = str(error)

    def _write(self, proposal: ArticulationProposal) -> None:
        if self._settings.model:
            paths.write_text(self._path(self._settings.model), mjcf.to_text(proposal.tree), True)
        moved = [name for name in self.task.jointed if name in proposal.kinds]
        decided = all(proposal.kinds[name] in _DECIDED for name in moved)
        if not self._settings.prior or not moved or not decided:
            return
        sd = max(proposal.tree.joint(name).axis_sd_rad for name in moved)
        if sd > _BETTER * self._sd:
            return
        path = self._path(self._settings.prior)
        file = prior.make(proposal.tree, self.task, ())
        prior_file.save(path, file, replace=self._written == str(path))
        self._sd, self._written = sd, str(path)
        if self._settings.reset_belief and self.executor is not None:
            self.executor.create_task(self._reset_belief)  # this thread must not call services

    def _path(self, name: str) -> Path:
        return Path(name.replace(_TASK, self.task.name)).expanduser()

    def _publish(self, proposal: ArticulationProposal) -> None:
        joints = report.summary(proposal.tree)
        for name, entry in joints.items():
            assert isinstance(entry, dict)
            odds = proposal.evidence[name]
            entry['joint'] = proposal.kinds[name]
            entry['log_odds'] = odds if math.isfinite(odds) else None
        data = json.dumps({'time_s': proposal.time, 'joints': joints})
        self._publisher.publish(String(data=data))

    def _reset_belief(self) -> None:
        if not self._client.service_is_ready():
            self._problem = f'{RESET}: no such service: the belief does not take the prior'
            return
        self._client.call_async(Trigger.Request()).add_done_callback(self._answered)

    def _answered(self, future: 'Future[Any]') -> None:
        if (answer := future.result()) is not None:
            self.get_logger().info(f'{self._written}: {answer.message}')
            if not answer.success:
                self._problem = f'{RESET}: {answer.message}'

"""The simulated robot: physics with hidden true parameters, and sensors with noise and delay."""

from collections import deque
from collections.abc import Sequence
import copy
import importlib
from typing import Any, NamedTuple

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Pose, to_quaternion, to_rotation
from emppi_ros.model import scene
from emppi_ros.model.parameters import delay_column
from emppi_ros.sim import true_model
from emppi_ros.sim.true_parameters import TrueParameters
from emppi_ros.tasks.cost import bind_condition
from emppi_ros.tasks.hold_timer import HoldTimer
from emppi_ros.tasks.objects import FreeObject
from emppi_ros.tasks.residuals import norm
from emppi_ros.tasks.task import Task
from emppi_ros.tracking.camera import Camera

_RADII_M = np.arange(1, 11) * 0.04  # of offsets to try around an occupied place
_DIRECTIONS = np.arange(12) * np.pi / 6
_ROUNDING_S = 1e-9


class JointReading(NamedTuple):
    """Readings of encoders and torque sensors, in the order of the robot's joints."""

    stamp: float
    position: Array
    velocity: Array
    effort: Array  # at the links; NaN for joints without a drive


class PoseReading(NamedTuple):
    """A pose from the tracker; it arrives with a delay after its stamp."""

    stamp: float
    name: str
    pose: Pose


class SimulatedRobot:
    """A simulation of robot, objects and sensors."""

    model: mujoco.MjModel  # with the true parameters, which change in place if the truth does
    data: mujoco.MjData  # the state
    truth: Array  # (P,) parameters of the last physics step; a new array after each change
    schedule: TrueParameters  # over time, with the conditional changes that have begun

    def __init__(
        self, task: Task, truth: TrueParameters | Array, seed: int, view: Camera | None = None
    ) -> None:
        """
        Start in the task's start state at time 0; an array (P,) holds constant parameters.

        With a `view`, poses are tracked in depth images of this camera.
        """
        self._task, self._settings = task, task.simulation
        self._view = view if task.tracked else None
        self._initial = truth if isinstance(truth, TrueParameters) else TrueParameters(truth)
        self.schedule = self._initial
        self.truth = self.schedule.at(0.0)
        self._delay = delay_column(task.parameters)
        self._nominal = true_model.nominal_model(task)
        self.model = copy.copy(self._nominal)
        true_model.set_truth(self.model, self._nominal, task, self.truth)
        self._drake = self._make_engine()
        self._residuals = [
            bind_condition(self.model, change.when, f'simulation: changes_when[{i}]: when')
            for i, change in enumerate(self.schedule.pending)
        ]
        self.data = mujoco.MjData(self.model)
        self._seed = seed
        self.reset()

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._steps * self._settings.timestep_s

    def reset(self) -> None:
        """Reset state, time, noise and true parameters to the start."""
        self.schedule, self._held = self._initial, HoldTimer()
        self._set_truth(0.0)
        mujoco.mj_resetData(self.model, self.data)
        self._set_start()
        self._commands: deque[tuple[float, Array]] = deque()  # with the time of their effect
        if self._task.robot.command == 'position':
            self._apply(self.commanded_position)
        scene.settle_activations(self.model, self.data.ctrl, self.data.act)
        mujoco.mj_forward(self.model, self.data)
        self._steps, self._speed = 0, self.data.qvel.copy()
        self._rng = np.random.default_rng([self._seed, 1])
        self._torque_rng = np.random.default_rng([self._seed, 5])
        self._dropout_rng = np.random.default_rng([self._seed, 6])
        self._pending: deque[PoseReading] = deque()
        self._depth: Any = None
        if self._view is not None:  # only then its module is imported
            module = importlib.import_module('emppi_ros.sim.depth_camera')
            self._depth = module.DepthTracking(self._task, self._view, self._seed)

    def command(self, control: Array) -> None:
        """
        Apply a command, in the order of the robot's commanded joints, until the next one.

        It takes effect after the delay `simulation: command_delay_s` and that of a parameter; in
        the step in which it does, it counts for its share of the step.
        """
        delay = self._settings.command_delay_s
        if self._delay is not None:
            delay += float(self.truth[self._delay])
        if delay or self._commands:  # in order, also after a longer delay
            self._commands.append((self.time + delay, np.array(control, np.float64)))
        else:
            self._apply(control)

    def _apply(self, control: Array) -> None:
        self.data.ctrl[self._task.map.ctrl] = control

    def _apply_delayed(self) -> None:
        """Apply the commands that take effect before the end of the next step: their mean."""
        while self._commands and self._commands[0][0] <= self.time + _ROUNDING_S:
            self._apply(self._commands.popleft()[1])
        end = self.time + self._settings.timestep_s
        last = mean = self.data.ctrl[self._task.map.ctrl]
        for effect, control in self._commands:
            if effect >= end - _ROUNDING_S:
                break
            mean = mean + (end - effect) / self._settings.timestep_s * (control - last)
            last = control
        if mean is not last:
            self._apply(mean)

    @property
    def commanded_position(self) -> Array:
        """True position of what each command moves (joints,)."""
        joints = self._task.map
        return self._task.commanded_state(
            self.data.qpos[joints.qpos], self.data.qvel[joints.qvel]
        )[0]

    def copy_joint_positions(self, other: 'SimulatedRobot') -> None:
        """Place the robot, at rest, where another one is; move objects that it would touch."""
        self.data.qpos[self._task.map.qpos] = other.data.qpos[other._task.map.qpos]
        if self._task.robot.command == 'position':
            self._apply(other.data.ctrl[other._task.map.ctrl])
        mujoco.mj_forward(self.model, self.data)
        for item in self._task.objects.values():
            move_to_free_space(self.model, self.data, item)

    def reset_state(self) -> None:
        """Reset robot and objects to the start state; time continues."""
        self._set_start()
        self.data.qacc_warmstart[:] = 0.0
        mujoco.mj_forward(self.model, self.data)
        self._pending.clear()

    def _set_start(self) -> None:
        """Write the start state, the same at each reset; objects start where nothing is."""
        rng = np.random.default_rng([self._seed, 7])
        self.data.qpos[:], self.data.qvel[:] = true_model.start_state(self._task, rng)
        for name in self._task.simulation.starts:
            if name in self._task.objects:
                move_to_free_space(self.model, self.data, self._task.objects[name])

    def activate(self, equalities: Sequence[int]) -> None:
        """Activate only these equality constraints, a stage's grasp, and the scene's own."""
        self.data.eq_active[:] = self.model.eq_active0
        self.data.eq_active[list(equalities)] = 1

    def step(self) -> None:
        """Advance by one physics step; sample the tracker at its rate."""
        if self.schedule.pending:
            self._check_pending()
        self._set_truth(self.time)
        if self._commands:
            self._apply_delayed()
        self._sample_tracker()
        self._speed[:] = self.data.qvel
        if self._drake is None:
            mujoco.mj_step(self.model, self.data)
        else:
            self._drake.step(self.data)
        self._steps += 1

    def _sample_tracker(self) -> None:
        """Measure all poses at the tracker's rate; some of them are lost."""
        settings = self._settings
        rate_hz = (
            settings.tracking_rate_hz if self._depth is None else settings.depth_camera.rate_hz
        )
        if not self._due(rate_hz):
            return
        if self._depth is None:
            readings = [self._measure_pose(name) for name in self._task.tracked]
        else:
            poses = self._depth.measure(self.time, self.data.qpos, self.truth)
            readings = [PoseReading(self.time, name, pose) for name, pose in poses.items()]
        for reading in readings:
            if self._dropout_rng.random() >= settings.tracking_dropout:
                self._pending.append(reading)

    def _check_pending(self) -> None:
        """Begin the next conditional change if its condition has held for long enough."""
        when = self.schedule.pending[0].when
        residual = self._residuals[-len(self.schedule.pending)]
        holds = norm(residual, self.data) < when.below
        if self._held.update(holds, self.time, when.hold_s):
            self.schedule, self._held = self.schedule.begin(self.time), HoldTimer()

    def _set_truth(self, time: float) -> None:
        """Change the model's parameters to those of a simulated time [s]."""
        if self._initial.constant:
            return
        truth = self.schedule.at(time)
        if not np.array_equal(truth, self.truth):
            self.truth = truth
            true_model.set_truth(self.model, self._nominal, self._task, truth)
            self._drake = self._make_engine()

    def _make_engine(self) -> Any:
        """Return a `DrakeEngine` with the model's parameters; None for MuJoCo."""
        if self._settings.engine == 'mujoco':
            return None
        # Drake is optional, and takes a second to import
        return importlib.import_module('emppi_ros.sim.drake_engine').DrakeEngine(self.model)

    def read_joints(self) -> JointReading:
        """Return the current readings of encoders and torque sensors."""
        joints, s = self._task.map, self._settings
        n = len(joints.qpos)
        return JointReading(
            self.time,
            self.data.qpos[joints.qpos] + s.joint_position_noise_sd * self._rng.standard_normal(n),
            self.data.qvel[joints.qvel] + s.joint_velocity_noise_sd * self._rng.standard_normal(n),
            self._efforts()[joints.qvel]
            + s.joint_effort_noise_sd * self._torque_rng.standard_normal(n),
        )

    def _efforts(self) -> Array:
        """
        Return the efforts of the drives on the links (nv,), as link-side torque sensors measure.

        They include gravity compensation and exclude the acceleration of the rotors (armature).
        Actuator forces are those at the current velocity, as in MuJoCo's implicit integrators.
        """
        model, data = self.model, self.data
        mujoco.mj_fwdPosition(model, data)  # a step leaves the forces of its start
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_fwdActuation(model, data)
        acceleration = (data.qvel - self._speed) / self._settings.timestep_s
        compensation = np.where(
            model.jnt_actgravcomp[model.dof_jntid] > 0, 0.0, data.qfrc_gravcomp
        )
        efforts = data.qfrc_actuator + compensation - model.dof_armature * acceleration
        undriven = np.ones(model.nv, np.bool_)
        undriven[self._task.map.qvel[self._task.commanded_rows]] = False
        efforts[undriven] = np.nan
        return efforts

    def read_poses(self) -> list[PoseReading]:
        """Return the poses that have arrived since the last call, oldest first."""
        arrived = []
        limit, delay = self.time + _ROUNDING_S, self._settings.tracking_delay_s
        while self._pending and self._pending[0].stamp + delay <= limit:
            arrived.append(self._pending.popleft())
        return arrived

    def _due(self, rate_hz: float) -> bool:
        """Return whether an event of this rate falls into the next step."""
        dt, step = self._settings.timestep_s, self._steps
        return int((step + 1) * dt * rate_hz + 1e-9) > int(step * dt * rate_hz + 1e-9)

    def _measure_pose(self, name: str) -> PoseReading:
        s = self._settings
        true_position, quaternion = self._pose(name)
        error = Rotation.from_rotvec(s.rotation_noise_sd_rad * self._rng.standard_normal(3))
        turned = to_quaternion(error * to_rotation(quaternion))
        position = true_position + s.position_noise_sd_m * self._rng.standard_normal(3)
        return PoseReading(self.time, name, Pose(position, turned))

    def _pose(self, name: str) -> tuple[Array, Array]:
        """Return the true position and quaternion (wxyz) of a tracked object."""
        if name in self._task.jointed:
            mujoco.mj_kinematics(self.model, self.data)  # a step leaves the poses of its start
            body = self._task.jointed[name].body
            return self.data.xpos[body].copy(), self.data.xquat[body].copy()
        start = self._task.objects[name].qpos
        return self.data.qpos[start : start + 3], self.data.qpos[start + 3 : start + 7]


def move_to_free_space(model: mujoco.MjModel, data: mujoco.MjData, item: FreeObject) -> None:
    """
    Move an object sideways to the nearest place where it touches no other moving body.

    An overlap would throw both apart. If no place within 0.4 m is free, the object stays.
    """
    xy = slice(item.qpos, item.qpos + 2)
    start = data.qpos[xy].copy()
    ring = [np.array([np.cos(angle), np.sin(angle)]) for angle in _DIRECTIONS]
    for offset in [np.zeros(2), *(radius * place for radius in _RADII_M for place in ring)]:
        data.qpos[xy] = start + offset
        mujoco.mj_forward(model, data)
        if not _overlaps(model, data, item):
            return
    data.qpos[xy] = start
    mujoco.mj_forward(model, data)


def _overlaps(model: mujoco.MjModel, data: mujoco.MjData, item: FreeObject) -> bool:
    """Return whether the object touches a body that is not part of the world."""
    root = model.body_rootid[model.jnt_bodyid[model.dof_jntid[item.qvel]]]
    bodies = model.geom_bodyid[data.contact.geom[: data.ncon]]  # (n, 2)
    belongs = model.body_rootid[bodies] == root
    other_bodies = (model.body_weldid[bodies] != 0) & ~belongs
    return bool(np.any(belongs.any(axis=1) & other_bodies.any(axis=1)))

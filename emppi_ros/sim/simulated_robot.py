"""The simulated robot: its own physics at 1 kHz, hidden true parameters, sensors that err."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from emppi_ros.belief import distributions
from emppi_ros.core.errors import ParameterError, unknown
from emppi_ros.model.parameters import with_parameters
from emppi_ros.sim.object_placement import put_beside
from emppi_ros.state import tracking
from emppi_ros.state.tracking import Pose
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]


class JointReading(NamedTuple):
    """What encoders and torque sensors say, in the order of the robot's joints."""

    stamp: float
    position: Array
    velocity: Array
    effort: Array  # at the links; NaN of joints that nothing drives


class PoseReading(NamedTuple):
    """What a tracker says, when it says so: `delay` after its stamp."""

    stamp: float
    name: str
    pose: Pose


def draw_truth(task: Task, seed: int, given: Mapping[str, float] | None = None) -> Array:
    """Return true parameters (P,): given by name, else drawn from the task's `truth`."""
    names = [parameter.name for parameter in task.parameters]
    for name in given or {}:
        if name not in names:
            raise ParameterError(unknown('parameter', name, names))
    rng = np.random.default_rng([seed, 0])
    theta = distributions.sample(task.parameters, task.truth, 1, rng)[0]
    return np.array([(given or {}).get(n, v) for n, v in zip(names, theta, strict=True)])


class SimulatedRobot:
    """Steps the world and yields what its sensors report."""

    def __init__(self, task: Task, truth: Array, seed: int) -> None:
        """Start at the task's start, at time 0."""
        self._task, self._settings, self.truth = task, task.simulation, truth
        self.model = with_parameters(task.model, task.parameters, truth)
        self.model.opt.timestep = self._settings.timestep_s
        self.data = mujoco.MjData(self.model)
        self._seed = seed
        self.reset()

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._steps * self._settings.timestep_s

    def reset(self) -> None:
        """Go back to the start; time goes on from 0 and noise from the seed."""
        mujoco.mj_resetData(self.model, self.data)
        start = self._task.start()
        self.data.qpos[:], self.data.qvel[:] = start
        if self._task.robot.command == 'position':
            self.command(self.commanded_position)
        mujoco.mj_forward(self.model, self.data)
        self._steps, self._speed = 0, self.data.qvel.copy()
        self._rng = np.random.default_rng([self._seed, 1])
        self._torque_rng = np.random.default_rng([self._seed, 5])  # others draw as they did
        self._pending: deque[PoseReading] = deque()

    def command(self, control: Array) -> None:
        """Apply a command, in the order of the robot's commanded joints, until the next one."""
        self.data.ctrl[self._task.map.ctrl] = control

    @property
    def commanded_position(self) -> Array:
        """True position of the commanded joints (joints,)."""
        return self.data.qpos[self._task.map.qpos][self._task.commanded_rows]

    def take_over(self, other: 'SimulatedRobot') -> None:
        """
        Stand where the robot of another task's simulation stands, at rest.

        Objects begin where they do, or beside it where it is in their way.
        """
        self.data.qpos[self._task.map.qpos] = other.data.qpos[other._task.map.qpos]
        if self._task.robot.command == 'position':
            self.command(other.data.ctrl[other._task.map.ctrl])
        mujoco.mj_forward(self.model, self.data)
        for item in self._task.objects.values():
            put_beside(self.model, self.data, item)

    def put_back(self) -> None:
        """Put robot and objects back to where they began, at rest; time goes on."""
        self.data.qpos[:], self.data.qvel[:] = self._task.start()
        self.data.qacc_warmstart[:] = 0.0
        mujoco.mj_forward(self.model, self.data)
        self._pending.clear()

    def aim(self, mocap: int, quaternion: Array) -> None:
        """Turn a mocap body, such as a target, to a quaternion (4,)."""
        self.data.mocap_quat[mocap] = quaternion

    def hold(self, equalities: Sequence[int]) -> None:
        """Make these equality constraints hold: a stage's grasp."""
        self.data.eq_active[:] = self.model.eq_active0
        self.data.eq_active[list(equalities)] = 1

    def step(self) -> None:
        """Advance by one physics step; the tracker looks when its time has come."""
        if self._due(self._settings.tracking_rate_hz):
            self._pending.extend(self._look(name) for name in self._task.tracked)
        self._speed[:] = self.data.qvel
        mujoco.mj_step(self.model, self.data)
        self._steps += 1

    def read_joints(self) -> JointReading:
        """Return readings of encoders and torque sensors of this moment."""
        where, s = self._task.map, self._settings
        n = len(where.qpos)
        return JointReading(
            self.time,
            self.data.qpos[where.qpos] + s.joint_position_noise_sd * self._rng.standard_normal(n),
            self.data.qvel[where.qvel] + s.joint_velocity_noise_sd * self._rng.standard_normal(n),
            self._efforts()[where.qvel]
            + s.joint_effort_noise_sd * self._torque_rng.standard_normal(n),
        )

    def _efforts(self) -> Array:
        """
        Return what drives exert on links (nv,), as torque sensors behind the rotors see it.

        It holds the weight that the scene compensates, and not what rotors take. Actuators are
        those at the velocity of now, as MuJoCo's implicit steps have them.
        """
        model, data = self.model, self.data
        mujoco.mj_fwdPosition(model, data)  # a step leaves forces where it began
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_fwdActuation(model, data)
        acceleration = (data.qvel - self._speed) / self._settings.timestep_s
        held = np.where(model.jnt_actgravcomp[model.dof_jntid] > 0, 0.0, data.qfrc_gravcomp)
        efforts = data.qfrc_actuator + held - model.dof_armature * acceleration
        undriven = np.ones(model.nv, np.bool_)
        undriven[self._task.map.qvel[self._task.commanded_rows]] = False
        efforts[undriven] = np.nan
        return efforts

    def read_poses(self) -> list[PoseReading]:
        """Return the tracked poses that arrive now, oldest first."""
        arrived = []
        delay = self._settings.tracking_delay_s
        while self._pending and self._pending[0].stamp + delay <= self.time + 1e-9:
            arrived.append(self._pending.popleft())
        return arrived

    def _due(self, rate_hz: float) -> bool:
        """Whether an event of this rate falls into the step that begins now."""
        dt = self._settings.timestep_s
        return int((self._steps + 1) * dt * rate_hz + 1e-9) > int(
            self._steps * dt * rate_hz + 1e-9
        )

    def _look(self, name: str) -> PoseReading:
        s = self._settings
        place, quaternion = self._pose(name)
        error = Rotation.from_rotvec(s.rotation_noise_sd_rad * self._rng.standard_normal(3))
        turned = tracking.to_quaternion(error * tracking.to_rotation(quaternion))
        position = place + s.position_noise_sd_m * self._rng.standard_normal(3)
        return PoseReading(self.time, name, Pose(position, turned))

    def _pose(self, name: str) -> tuple[Array, Array]:
        """Return the true position and quaternion (wxyz) of a tracked object."""
        if name in self._task.jointed:
            mujoco.mj_kinematics(self.model, self.data)  # a step leaves poses where it began
            body = self._task.jointed[name].body
            return self.data.xpos[body].copy(), self.data.xquat[body].copy()
        start = self._task.objects[name].qpos
        return self.data.qpos[start : start + 3], self.data.qpos[start + 3 : start + 7]

"""
Residuals: what a task can measure, each a vector that is zero when all is well.

A residual is a frozen dataclass of its YAML keys; `bind(model)` looks its names up once
and returns the MjData fields it reads and a function of those fields. The leading axes of
the fields are free: (M, K, H) for rollouts, none for a single state.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from emppi_ros.core.config import key, positive
from emppi_ros.core.errors import ConfigError, SceneError, unknown
from emppi_ros.model import scene
from emppi_ros.tasks.frames import PLACES, locate
from emppi_ros.tasks.residuals_base import Bound
from emppi_ros.tasks.residuals_rotation import Behind, Rotation, Tilt


@dataclass(frozen=True)
class Distance:
    """Vector from one place (site, body or geom) to another [m]."""

    of: str = key(doc='a place: site, body or geom; `geom:block` picks one kind')
    to: str = key(doc='another place')
    axes: str = key(
        'xyz',
        check=lambda v: v and set(v) <= set('xyz'),
        allowed='some of the letters xyz',
        doc='the components that count',
    )

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find both places."""
        (kind_a, a), (kind_b, b) = locate(model, self.of), locate(model, self.to)
        field_a, field_b = PLACES[kind_a], PLACES[kind_b]
        axes: list[int] | slice = ['xyz'.index(axis) for axis in self.axes]
        if self.axes in 'xyz':  # next to one another: a view is quicker than a copy
            axes = slice(axes[0], axes[-1] + 1)
        return Bound(
            (field_a, field_b),
            lambda f: (f[field_b][..., b, :] - f[field_a][..., a, :])[..., axes],
        )


@dataclass(frozen=True)
class Height:
    """Height of a place above `value`, along the world's z [m]."""

    of: str = key(doc='a place: site, body or geom')
    value: float = key(0.0, doc='the height that is meant [m]')

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the place."""
        kind, index = locate(model, self.of)
        field = PLACES[kind]
        return Bound((field,), lambda f: f[field][..., index, 2:] - self.value)


@dataclass(frozen=True)
class JointPosition:
    """Positions of scalar joints minus targets [rad or m]."""

    joints: tuple[str, ...] = key(doc='hinges and slides')
    targets: tuple[float, ...] = key(doc='a position for each')

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joints."""
        if len(self.joints) != len(self.targets):
            raise ConfigError(f'targets: {len(self.targets)} values for {len(self.joints)} joints')
        rows = [model.jnt_qposadr[scene.find_scalar(model, name)] for name in self.joints]
        targets = np.array(self.targets)
        return Bound(('qpos',), lambda f: f['qpos'][..., rows] - targets)


@dataclass(frozen=True)
class JointAngle:
    """Chord between a hinge's angle and a target, 2 sin(d / 2): smooth over whole turns."""

    joint: str = key(doc='a hinge')
    target: float = key(doc='the angle that is meant [rad]')

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joint."""
        row = model.jnt_qposadr[scene.find_scalar(model, self.joint)]
        return Bound(
            ('qpos',), lambda f: 2.0 * np.sin((f['qpos'][..., row, None] - self.target) / 2.0)
        )


@dataclass(frozen=True)
class Opening:
    """How far a joint still is from being open, whichever way it turns or slides [rad or m]."""

    joint: str = key(doc='a hinge or a slide')
    least: float = positive(doc='from here on it is open [rad or m]')

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joint."""
        row = model.jnt_qposadr[scene.find_scalar(model, self.joint)]
        return Bound(
            ('qpos',), lambda f: np.maximum(self.least - np.abs(f['qpos'][..., row, None]), 0.0)
        )


@dataclass(frozen=True)
class JointVelocity:
    """Velocities of scalar joints [rad/s or m/s]."""

    joints: tuple[str, ...] = key(doc='hinges and slides')

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joints."""
        rows = [model.jnt_dofadr[scene.find_scalar(model, name)] for name in self.joints]
        return Bound(('qvel',), lambda f: f['qvel'][..., rows])


@dataclass(frozen=True)
class Sensor:
    """Reading of a sensor of the scene, such as a contact force, in its own unit."""

    sensor: str = key(doc='of the scene')

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the sensor."""
        index = scene.find(model, 'sensor', self.sensor)
        start = model.sensor_adr[index]
        stop = start + model.sensor_dim[index]
        return Bound(('sensordata',), lambda f: f['sensordata'][..., start:stop])


@dataclass(frozen=True)
class Control:
    """The controls themselves, in the robot's command unit."""

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Need nothing."""
        return Bound(('ctrl',), lambda f: f['ctrl'])


@dataclass(frozen=True)
class FollowingError:
    """
    Velocities of joints minus those that their servos are told [rad/s or m/s].

    What resists the robot shows here: the bridge takes a large one for a collision, and stops.
    """

    joints: tuple[str, ...] = key((), doc='none: all that have a velocity servo')

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joints' velocity servos."""
        servos = {
            scene.names(model, 'joint')[model.actuator_trnid[i, 0]]: i
            for i in range(model.nu)
            if _is_velocity_servo(model, i)
        }
        if not servos:
            raise SceneError('no joint has a velocity servo')
        for name in self.joints:
            if name not in servos:
                raise SceneError(f'joints: {unknown("joint with a velocity servo", name, servos)}')
        actuators = [servos[name] for name in self.joints or servos]
        dofs = model.jnt_dofadr[model.actuator_trnid[actuators, 0]]
        return Bound(('qvel', 'ctrl'), lambda f: f['qvel'][..., dofs] - f['ctrl'][..., actuators])


def _is_velocity_servo(model: mujoco.MjModel, actuator: int) -> bool:
    """Return whether an actuator's force is a gain times (command - velocity) of one joint."""
    bias = model.actuator_biasprm[actuator, :3]
    servo: bool = (
        model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT.value
        and model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED.value
        and model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE.value
        and np.array_equal(bias, [0.0, 0.0, -model.actuator_gainprm[actuator, 0]])
    )
    return servo


RESIDUALS: dict[str, type] = {
    'distance': Distance,
    'height': Height,
    'behind': Behind,
    'tilt': Tilt,
    'rotation': Rotation,
    'joint_position': JointPosition,
    'joint_angle': JointAngle,
    'opening': Opening,
    'joint_velocity': JointVelocity,
    'sensor': Sensor,
    'control': Control,
    'following_error': FollowingError,
}

"""
Residuals: what a task can measure, each a vector that is zero when all is well.

A residual is a frozen dataclass of its YAML keys; `bind(model)` looks its names up once
and returns the MjData fields it reads and a function of those fields. The leading axes of
the fields are free: (M, K, H) for rollouts, none for a single state.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from emppi_ros.config import key, positive
from emppi_ros.errors import ConfigError
from emppi_ros.model import scene
from emppi_ros.tasks.bound import Bound
from emppi_ros.tasks.directions import Behind, Rotation, Tilt
from emppi_ros.tasks.places import PLACES, locate


@dataclass(frozen=True)
class Distance:
    """Vector from one place (site, body or geom) to another [m]."""

    of: str
    to: str
    axes: str = key(
        'xyz', check=lambda v: v and set(v) <= set('xyz'), allowed='some of the letters xyz'
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

    of: str
    value: float = 0.0

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the place."""
        kind, index = locate(model, self.of)
        field = PLACES[kind]
        return Bound((field,), lambda f: f[field][..., index, 2:] - self.value)


@dataclass(frozen=True)
class JointPosition:
    """Positions of scalar joints minus targets [rad or m]."""

    joints: tuple[str, ...]
    targets: tuple[float, ...]

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

    joint: str
    target: float

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joint."""
        row = model.jnt_qposadr[scene.find_scalar(model, self.joint)]
        return Bound(
            ('qpos',), lambda f: 2.0 * np.sin((f['qpos'][..., row, None] - self.target) / 2.0)
        )


@dataclass(frozen=True)
class Opening:
    """How far a joint still is from being open, whichever way it turns or slides [rad or m]."""

    joint: str
    least: float = positive()

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joint."""
        row = model.jnt_qposadr[scene.find_scalar(model, self.joint)]
        return Bound(
            ('qpos',), lambda f: np.maximum(self.least - np.abs(f['qpos'][..., row, None]), 0.0)
        )


@dataclass(frozen=True)
class JointVelocity:
    """Velocities of scalar joints [rad/s or m/s]."""

    joints: tuple[str, ...]

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joints."""
        rows = [model.jnt_dofadr[scene.find_scalar(model, name)] for name in self.joints]
        return Bound(('qvel',), lambda f: f['qvel'][..., rows])


@dataclass(frozen=True)
class Sensor:
    """Reading of a sensor of the scene, such as a contact force, in its own unit."""

    sensor: str

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
}

"""
Residuals: vectors that are zero when the task is achieved.

Each kind of residual is a frozen dataclass of its YAML keys, registered in `RESIDUALS`. Its
`bind(model)` resolves names once and returns a `Residual`: the MjData fields that it reads, and a
function of these fields. Their leading axes are free: (M, K, H + 1) for rollouts, none for a
single state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import math
from typing import Any, NamedTuple, Protocol

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key, non_negative, one_of, position, positive
from emppi_ros.core.errors import ConfigError, SceneError, unknown
from emppi_ros.model import scene
from emppi_ros.model.scene import POSITION_FIELDS, ROTATION_FIELDS, find_frame
from emppi_ros.tasks.norms import l2

Fields = Mapping[str, Array]
_MIN_LENGTH, _MAX_LENGTH = 1e-6, 1e6  # outside, rounding leaves no direction
_FRAME = 'a site, body or geom'


class Residual(NamedTuple):
    """A residual bound to a model."""

    fields: tuple[str, ...]  # MjData fields that it reads
    evaluate: Callable[[Fields], Array]  # (..., field shape) -> (..., n)


class ResidualConfig(Protocol):
    """The YAML keys of one kind of residual."""

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Resolve all names in the model; raise SceneError or ConfigError if one is missing."""


def norm(residual: Residual, data: mujoco.MjData) -> float:
    """Return the Euclidean norm of a residual in the current state of a simulation."""
    return float(l2(residual.evaluate({name: getattr(data, name) for name in residual.fields})))


def _axes() -> Any:
    return key(
        'xyz',
        check=lambda v: v and set(v) <= set('xyz'),
        allowed='some of the letters xyz',
        doc='the components to use',
    )


@dataclass(frozen=True)
class Distance:
    """Vector from one site, body or geom to another, or to a point, in the world frame [m]."""

    of: str = key(doc=f'{_FRAME}; `geom:block` selects the kind')
    to: str = key('', doc=f'{_FRAME}, or `point`')
    point: tuple[float, ...] | None = position(
        doc='a fixed point of the world instead of `to` [m]'
    )
    axes: str = _axes()

    def __post_init__(self) -> None:
        """Raise ConfigError unless there is exactly one goal."""
        if bool(self.to) == (self.point is not None):
            raise ConfigError('to: give either `to` or `point`')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the frames."""
        kind_a, a = find_frame(model, self.of)
        field_a = POSITION_FIELDS[kind_a]
        if self.point is not None:
            rows = ['xyz'.index(axis) for axis in self.axes]
            goal = np.array(self.point)[rows]
            return Residual((field_a,), lambda f: goal - f[field_a][..., a, rows])
        kind_b, b = find_frame(model, self.to)
        field_b = POSITION_FIELDS[kind_b]
        axes: list[int] | slice = ['xyz'.index(axis) for axis in self.axes]
        if self.axes in 'xyz':  # contiguous: a view is faster than a copy
            axes = slice('xyz'.index(self.axes[0]), 'xyz'.index(self.axes[-1]) + 1)
        return Residual(
            (field_a, field_b),
            lambda f: (f[field_b][..., b, :] - f[field_a][..., a, :])[..., axes],
        )


@dataclass(frozen=True)
class Distances:
    """Vectors from several frames to as many others, such as corners; norm: their RMS [m]."""

    of: tuple[str, ...] = key(doc='sites, bodies or geoms')
    to: tuple[str, ...] = key(doc='as many')
    axes: str = _axes()

    def __post_init__(self) -> None:
        """Raise ConfigError unless frames come in pairs."""
        if len(self.of) != len(self.to) or not self.of:
            raise ConfigError(f'of, to: {len(self.of)} and {len(self.to)} names, expected pairs')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find all frames."""
        pairs = zip(self.of, self.to, strict=True)
        residuals = [Distance(of, to, axes=self.axes).bind(model) for of, to in pairs]
        scale = 1.0 / math.sqrt(len(residuals))
        names = {name for residual in residuals for name in residual.fields}
        return Residual(
            tuple(sorted(names)),
            lambda f: scale * np.concatenate([r.evaluate(f) for r in residuals], axis=-1),
        )


@dataclass(frozen=True)
class Height:
    """Height of a site, body or geom above `value`, along the world's z axis [m]."""

    of: str = key(doc=_FRAME)
    value: float = key(0.0, doc='desired height [m]')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the frame."""
        kind, index = find_frame(model, self.of)
        field = POSITION_FIELDS[kind]
        return Residual((field,), lambda f: f[field][..., index, 2:] - self.value)


@dataclass(frozen=True)
class Behind:
    """One minus the cosine between push direction and target direction, 0 to 2."""

    pusher: str = key(doc=_FRAME)
    of: str = key(doc='the site, body or geom to push')
    target: str = key(doc='where to push it')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the three frames; directions are compared in the horizontal plane."""

        def evaluate(pusher: Array, middle: Array, target: Array) -> Array:
            push, goal = middle - pusher, target - middle
            cosine = np.einsum('...i,...i->...', push, goal)
            lengths = l2(push) * l2(goal)
            return (1.0 - cosine / np.maximum(lengths, 1e-9))[..., None]

        return _of_horizontal(model, (self.pusher, self.of, self.target), evaluate)


@dataclass(frozen=True)
class PushPoint:
    """Vector from the pusher to the point `offset` behind an object, seen from the target [m]."""

    pusher: str = key(doc=_FRAME)
    of: str = key(doc='the site, body or geom to push')
    target: str = key(doc='where to push it')
    offset: float = non_negative(doc='distance of the point from the object [m]')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the three frames; all vectors are in the horizontal plane."""

        def evaluate(pusher: Array, middle: Array, target: Array) -> Array:
            away = middle - target
            length = np.maximum(l2(away), 1e-9)[..., None]
            return middle + self.offset * away / length - pusher

        return _of_horizontal(model, (self.pusher, self.of, self.target), evaluate)


def _of_horizontal(
    model: mujoco.MjModel, names: Sequence[str], evaluate: Callable[..., Array]
) -> Residual:
    """Return a residual from the horizontal positions (..., 2) of several frames."""
    frames = [find_frame(model, name) for name in names]
    fields = tuple(POSITION_FIELDS[kind] for kind, _ in frames)
    rows = [(field, index) for field, (_, index) in zip(fields, frames, strict=True)]
    return Residual(fields, lambda f: evaluate(*(f[field][..., i, :2] for field, i in rows)))


@dataclass(frozen=True)
class Tilt:
    """Difference between a frame's axis and a direction in the world, both unit vectors."""

    of: str = key(doc=_FRAME)
    axis: str = one_of('x', 'y', 'z', default='z', doc='the axis of this frame')
    to: tuple[float, ...] = key(
        (0.0, 0.0, 1.0),
        check=lambda v: len(v) == 3 and _MIN_LENGTH < math.hypot(*v) < _MAX_LENGTH,
        allowed='three numbers, of a length between 1e-6 and 1e6',
        doc='desired direction in the world',
    )
    axes: str = _axes()

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the frame."""
        kind, index = find_frame(model, self.of)
        field, column = ROTATION_FIELDS[kind], 'xyz'.index(self.axis)
        direction = np.array(self.to) / np.linalg.norm(self.to)
        elements = ['xyz'.index(axis) for axis in self.axes]

        def evaluate(f: Fields) -> Array:
            difference = f[field][..., index, column::3] - direction
            return difference if len(elements) == 3 else difference[..., elements]

        return Residual((field,), evaluate)


@dataclass(frozen=True)
class RelativeRotation:
    """Rotation vector from one frame to another, expressed in the first [rad]."""

    of: str = key(doc=_FRAME)
    to: str = key(doc=_FRAME)

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find both frames; log(R_of' R_to) of Table I, of norm 0 to pi."""
        (kind_a, a), (kind_b, b) = find_frame(model, self.of), find_frame(model, self.to)
        field_a, field_b = ROTATION_FIELDS[kind_a], ROTATION_FIELDS[kind_b]

        def evaluate(f: Fields) -> Array:
            first, second = (
                f[field][..., index, :].reshape(-1, 3, 3)
                for field, index in ((field_a, a), (field_b, b))
            )
            relative = np.einsum('nji,njk->nik', first, second)
            vectors = Rotation.from_matrix(relative).as_rotvec()
            return vectors.reshape(*f[field_a].shape[:-2], 3)

        return Residual((field_a, field_b), evaluate)


@dataclass(frozen=True)
class JointPosition:
    """Positions of scalar joints minus targets [rad or m]."""

    joints: tuple[str, ...] = key(doc='hinge and slide joints')
    targets: tuple[float, ...] = key(doc='desired position of each joint')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the joints."""
        if len(self.joints) != len(self.targets):
            raise ConfigError(f'targets: {len(self.targets)} values for {len(self.joints)} joints')
        rows = [model.jnt_qposadr[scene.find_scalar(model, name)] for name in self.joints]
        targets = np.array(self.targets)
        return Residual(('qpos',), lambda f: f['qpos'][..., rows] - targets)


@dataclass(frozen=True)
class JointAngle:
    """Chord 2 sin(d / 2) of a hinge's angle error d: smooth over full turns."""

    joint: str = key(doc='a hinge joint')
    target: float = key(doc='desired angle [rad]')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the joint."""
        row = model.jnt_qposadr[scene.find_scalar(model, self.joint)]
        return Residual(
            ('qpos',), lambda f: 2.0 * np.sin((f['qpos'][..., row, None] - self.target) / 2.0)
        )


@dataclass(frozen=True)
class Opening:
    """Missing opening of a joint, in either direction: max(least - abs(q), 0) [rad or m]."""

    joint: str = key(doc='a hinge or slide joint')
    least: float = positive(doc='position from which it counts as open [rad or m]')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the joint."""
        row = model.jnt_qposadr[scene.find_scalar(model, self.joint)]
        return Residual(
            ('qpos',), lambda f: np.maximum(self.least - np.abs(f['qpos'][..., row, None]), 0.0)
        )


@dataclass(frozen=True)
class JointVelocity:
    """Velocities of scalar joints [rad/s or m/s]."""

    joints: tuple[str, ...] = key(doc='hinge and slide joints')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the joints."""
        rows = [model.jnt_dofadr[scene.find_scalar(model, name)] for name in self.joints]
        return Residual(('qvel',), lambda f: f['qvel'][..., rows])


@dataclass(frozen=True)
class Sensor:
    """Reading of a sensor of the scene, such as a contact force, in the sensor's unit."""

    sensor: str = key(doc='a sensor of the scene')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the sensor."""
        index = scene.find(model, 'sensor', self.sensor)
        start = model.sensor_adr[index]
        stop = start + model.sensor_dim[index]
        return Residual(('sensordata',), lambda f: f['sensordata'][..., start:stop])


@dataclass(frozen=True)
class Control:
    """The controls (nu,), in the robot's command unit."""

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Read the controls; there are no names to resolve."""
        return Residual(('ctrl',), lambda f: f['ctrl'])


@dataclass(frozen=True)
class FollowingError:
    """
    Joint velocities minus commanded velocities [rad/s or m/s].

    Contact forces show up here; the bridge treats a large error as a collision and stops.
    """

    joints: tuple[str, ...] = key((), doc='empty: all joints with a velocity servo')

    def bind(self, model: mujoco.MjModel) -> Residual:
        """Find the joints' velocity servos."""
        gain = model.actuator_gainprm[:, :1]
        bias = np.hstack([np.zeros((model.nu, 2)), -gain])  # force: kv * (command - velocity)
        is_servo = (
            (model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT.value)
            & (model.actuator_gaintype == mujoco.mjtGain.mjGAIN_FIXED.value)
            & (model.actuator_biastype == mujoco.mjtBias.mjBIAS_AFFINE.value)
            & (model.actuator_biasprm[:, :3] == bias).all(axis=1)
        )
        joints = scene.names(model, 'joint')
        servos = {joints[model.actuator_trnid[i, 0]]: i for i in np.flatnonzero(is_servo)}
        if not servos:
            raise SceneError('no joint has a velocity servo')
        for name in self.joints:
            if name not in servos:
                raise SceneError(f'joints: {unknown("joint with a velocity servo", name, servos)}')
        actuators = [servos[name] for name in self.joints or servos]
        dofs = model.jnt_dofadr[model.actuator_trnid[actuators, 0]]
        return Residual(
            ('qvel', 'ctrl'), lambda f: f['qvel'][..., dofs] - f['ctrl'][..., actuators]
        )


# YAML name -> its keys
RESIDUALS: dict[str, type[ResidualConfig]] = {
    'distance': Distance,
    'distances': Distances,
    'height': Height,
    'behind': Behind,
    'push_point': PushPoint,
    'tilt': Tilt,
    'rotation': RelativeRotation,
    'joint_position': JointPosition,
    'joint_angle': JointAngle,
    'opening': Opening,
    'joint_velocity': JointVelocity,
    'sensor': Sensor,
    'control': Control,
    'following_error': FollowingError,
}

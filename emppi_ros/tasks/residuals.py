"""
Residuals: what a task can measure, each a vector that is zero when all is well.

A residual is a frozen dataclass of its YAML keys; `bind(model)` looks its names up once
and returns the MjData fields it reads and a function of those fields. The leading axes of
the fields are free: (M, K, H) for rollouts, none for a single state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import math
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.config import key, one_of
from emppi_ros.errors import ConfigError, SceneError, unknown
from emppi_ros.model import scene
from emppi_ros.tasks.norms import l2

Array = npt.NDArray[np.float64]
Fields = Mapping[str, Array]
_SHORT, _LONG = 1e-6, 1e6  # other vectors have no direction to rounding
_PLACES = {'site': 'site_xpos', 'body': 'xpos', 'geom': 'geom_xpos'}
_FRAMES = {'site': 'site_xmat', 'body': 'xmat', 'geom': 'geom_xmat'}


class Bound(NamedTuple):
    """A residual that has found its names in a model."""

    fields: tuple[str, ...]  # MjData fields it reads
    evaluate: Callable[[Fields], Array]  # (..., field shape) -> (..., n)


def _locate(model: mujoco.MjModel, name: str) -> tuple[str, int]:
    """Return (kind, id) of a site, else a body, else a geom; `kind:name` picks one kind."""
    kind, _, rest = name.rpartition(':')
    if kind:
        if kind not in _PLACES:
            raise ConfigError(unknown('kind of place', kind, _PLACES))
        return kind, scene.find(model, kind, rest)
    for kind in _PLACES:
        if name in filter(None, scene.names(model, kind)):
            return kind, scene.find(model, kind, name)
    listed = [f'{k}:{n}' for k in _PLACES for n in scene.names(model, k) if n]
    raise SceneError(unknown('site, body or geom', name, listed))


def _scalar(model: mujoco.MjModel, name: str) -> int:
    """Return the id of a hinge or slide."""
    index = scene.find(model, 'joint', name)
    if not scene.is_scalar(model, index):
        raise SceneError(f'joint {name!r} is no hinge or slide: it has no single position')
    return index


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
        (kind_a, a), (kind_b, b) = _locate(model, self.of), _locate(model, self.to)
        field_a, field_b = _PLACES[kind_a], _PLACES[kind_b]
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
        kind, index = _locate(model, self.of)
        field = _PLACES[kind]
        return Bound((field,), lambda f: f[field][..., index, 2:] - self.value)


@dataclass(frozen=True)
class Behind:
    """How far a pusher is from standing behind an object as seen from its target, 0 to 2."""

    pusher: str
    of: str
    target: str

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the three places; the angle counts in the horizontal plane."""
        places = [_locate(model, name) for name in (self.pusher, self.of, self.target)]
        fields = tuple(_PLACES[kind] for kind, _ in places)

        def evaluate(f: Fields) -> Array:
            pusher, middle, target = (
                f[field][..., index, :2] for field, (_, index) in zip(fields, places, strict=True)
            )
            push, goal = middle - pusher, target - middle
            cosine = np.einsum('...i,...i->...', push, goal)
            lengths = l2(push) * l2(goal)
            return (1.0 - cosine / np.maximum(lengths, 1e-9))[..., None]

        return Bound(fields, evaluate)


@dataclass(frozen=True)
class Tilt:
    """Difference between an axis of a site, body or geom and a direction in the world."""

    of: str
    axis: str = one_of('x', 'y', 'z', default='z')
    to: tuple[float, ...] = key(
        (0.0, 0.0, 1.0),
        check=lambda v: len(v) == 3 and _SHORT < math.hypot(*v) < _LONG,
        allowed='three numbers, of a length between 1e-6 and 1e6',
    )

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the frame."""
        kind, index = _locate(model, self.of)
        field, column = _FRAMES[kind], 'xyz'.index(self.axis)
        direction = np.array(self.to) / np.linalg.norm(self.to)
        return Bound((field,), lambda f: f[field][..., index, column::3] - direction)


@dataclass(frozen=True)
class JointPosition:
    """Positions of scalar joints minus targets [rad or m]."""

    joints: tuple[str, ...]
    targets: tuple[float, ...]

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joints."""
        if len(self.joints) != len(self.targets):
            raise ConfigError(f'targets: {len(self.targets)} values for {len(self.joints)} joints')
        rows = [model.jnt_qposadr[_scalar(model, name)] for name in self.joints]
        targets = np.array(self.targets)
        return Bound(('qpos',), lambda f: f['qpos'][..., rows] - targets)


@dataclass(frozen=True)
class JointAngle:
    """Chord between a hinge's angle and a target, 2 sin(d / 2): smooth over whole turns."""

    joint: str
    target: float

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joint."""
        row = model.jnt_qposadr[_scalar(model, self.joint)]
        return Bound(
            ('qpos',), lambda f: 2.0 * np.sin((f['qpos'][..., row, None] - self.target) / 2.0)
        )


@dataclass(frozen=True)
class JointVelocity:
    """Velocities of scalar joints [rad/s or m/s]."""

    joints: tuple[str, ...]

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the joints."""
        rows = [model.jnt_dofadr[_scalar(model, name)] for name in self.joints]
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
    'joint_position': JointPosition,
    'joint_angle': JointAngle,
    'joint_velocity': JointVelocity,
    'sensor': Sensor,
    'control': Control,
}

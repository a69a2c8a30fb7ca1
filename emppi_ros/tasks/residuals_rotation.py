"""Residuals about how things are turned."""

from dataclasses import dataclass
import math

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation as Turn

from emppi_ros.core.config import key, one_of
from emppi_ros.tasks.frames import FRAMES, PLACES, locate
from emppi_ros.tasks.norms import l2
from emppi_ros.tasks.residuals_base import Array, Bound, Fields

_SHORT, _LONG = 1e-6, 1e6  # other vectors have no direction to rounding


@dataclass(frozen=True)
class Behind:
    """How far a pusher is from standing behind an object as seen from its target, 0 to 2."""

    pusher: str = key(doc='a place: site, body or geom')
    of: str = key(doc='the place that is pushed')
    target: str = key(doc='where that is to go')

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the three places; the angle counts in the horizontal plane."""
        places = [locate(model, name) for name in (self.pusher, self.of, self.target)]
        fields = tuple(PLACES[kind] for kind, _ in places)

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

    of: str = key(doc='a place: site, body or geom')
    axis: str = one_of('x', 'y', 'z', default='z', doc='of its frame')
    to: tuple[float, ...] = key(
        (0.0, 0.0, 1.0),
        check=lambda v: len(v) == 3 and _SHORT < math.hypot(*v) < _LONG,
        allowed='three numbers, of a length between 1e-6 and 1e6',
        doc='the direction in the world that is meant',
    )
    axes: str = key(
        'xyz',
        check=lambda v: v and set(v) <= set('xyz'),
        allowed='some of the letters xyz',
        doc='the components that count',
    )

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find the frame."""
        kind, index = locate(model, self.of)
        field, column = FRAMES[kind], 'xyz'.index(self.axis)
        direction = np.array(self.to) / np.linalg.norm(self.to)
        elements = ['xyz'.index(axis) for axis in self.axes]

        def evaluate(f: Fields) -> Array:
            difference = f[field][..., index, column::3] - direction
            return difference if len(elements) == 3 else difference[..., elements]

        return Bound((field,), evaluate)


@dataclass(frozen=True)
class Rotation:
    """Rotation vector from a site's, body's or geom's frame to another, in the former [rad]."""

    of: str = key(doc='a place: site, body or geom')
    to: str = key(doc='another place')

    def bind(self, model: mujoco.MjModel) -> Bound:
        """Find both frames; log(R_of' R_to) of Table I, of length 0 to pi."""
        (kind_a, a), (kind_b, b) = locate(model, self.of), locate(model, self.to)
        field_a, field_b = FRAMES[kind_a], FRAMES[kind_b]

        def evaluate(f: Fields) -> Array:
            first, second = (
                f[field][..., index, :].reshape(-1, 3, 3)
                for field, index in ((field_a, a), (field_b, b))
            )
            turned = np.einsum('nji,njk->nik', first, second)
            return Turn.from_matrix(turned).as_rotvec().reshape(*f[field_a].shape[:-2], 3)

        return Bound((field_a, field_b), evaluate)

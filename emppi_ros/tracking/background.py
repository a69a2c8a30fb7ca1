"""Depth of all that is no part: what is fixed, and a robot at its measured joint positions."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model import scene
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.renderer import SceneRenderer, Window

Array = npt.NDArray[np.float64]
_MARGIN_PX = 6  # parts move from one step of a fit to the next


class Background(Protocol):
    """Depth of what is behind the parts [m], inf where there is nothing."""

    def crop(self, window: Window) -> Array:
        """Return the depth in a window of the image."""


class FixedBackground:
    """A background that does not change: a depth image (h, w)."""

    def __init__(self, depth: Array) -> None:
        self._depth = depth

    def crop(self, window: Window) -> Array:
        """Return the depth in a window of the image."""
        return self._depth[window.slices]


class MovingBackground:
    """A scene without its parts, at positions of joints; rendered only where it is asked for."""

    def __init__(
        self,
        model: mujoco.MjModel,
        bodies: Sequence[int],
        joints: Sequence[str],
        camera: Camera,
    ) -> None:
        """
        Prepare a scene without some bodies.

        Bodies move with `joints`; those that move otherwise are left out. SceneError if a joint is
        unknown, or no hinge or slide.
        """
        self.joints = tuple(joints)
        index = [scene.find_scalar(model, name) for name in joints]
        self._address = model.jnt_qposadr[index]
        self._model, self._data = model, mujoco.MjData(model)
        unknown = _moved_by_others(model, index)
        self._renderer = SceneRenderer(model, camera, [*bodies, *unknown])
        self._camera = camera
        self._depth = np.full((camera.height, camera.width), np.nan)
        self._rendered: Window | None = None

    def move(self, positions: Mapping[str, float]) -> None:
        """Move the joints to positions [rad or m]."""
        self._data.qpos[self._address] = [positions[name] for name in self.joints]
        mujoco.mj_kinematics(self._model, self._data)
        self._rendered = None

    def crop(self, window: Window) -> Array:
        """Return the depth in a window of the image, after `move`."""
        if self._rendered is None or not self._rendered.contains(window):
            self._rendered = window.grown(_MARGIN_PX, self._camera)
            self._depth[self._rendered.slices] = self._renderer.render(self._data, self._rendered)
        return self._depth[window.slices]


def _moved_by_others(model: mujoco.MjModel, joints: Sequence[int]) -> list[int]:
    """Return the bodies that move by other joints than these, or with such a body."""
    unknown: set[int] = set()
    for body in range(1, model.nbody):
        first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        own = range(first, first + count) if count else ()
        if any(joint not in joints for joint in own) or model.body_parentid[body] in unknown:
            unknown.add(body)
    return sorted(unknown)

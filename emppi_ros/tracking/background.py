"""Depth of all that is no part: what is fixed, and a robot at its measured joint positions."""

from collections.abc import Mapping, Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model import scene
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.renderer import SceneRenderer

Array = npt.NDArray[np.float64]


class MovingBackground:
    """Renders a scene without its parts, at positions of joints."""

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

    def render(self, positions: Mapping[str, float]) -> Array:
        """Return the depth image (h, w) [m] at positions of the joints [rad or m]."""
        self._data.qpos[self._address] = [positions[name] for name in self.joints]
        mujoco.mj_kinematics(self._model, self._data)
        return self._renderer.render(self._data)


def _moved_by_others(model: mujoco.MjModel, joints: Sequence[int]) -> list[int]:
    """Return the bodies that move by other joints than these, or with such a body."""
    unknown: set[int] = set()
    for body in range(1, model.nbody):
        first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        own = range(first, first + count) if count else ()
        if any(joint not in joints for joint in own) or model.body_parentid[body] in unknown:
            unknown.add(body)
    return sorted(unknown)

"""Whether an arm comes too near to itself, or to what stands about it, by MuJoCo's geometry."""

from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.rigid_body import arm
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
Pair = tuple[str, str]  # of bodies


class Surroundings:
    """
    An arm all of whose geoms count, and all of what stands about it, whatever collides there.

    Links that are welded or follow one another count not, nor does what is near at home.
    """

    def __init__(
        self, path: Path, root: Path | None, joints: Sequence[str], home: Array, least_m: float
    ) -> None:
        """Load the scene; `home` (nv,) is of the arm's joints, in the order of all positions."""
        spec = arm.scene_of(path, root)  # with drawers and doors, as they stand in the scene
        for geom in spec.geoms:
            geom.contype = geom.conaffinity = 1
            geom.margin = least_m
        self._model, self._least = spec.compile(), least_m
        self._model.opt.disableflags = 0
        self._data = mujoco.MjData(self._model)
        self._names = scene.names(self._model, 'body')
        places = [scene.find(self._model, 'joint', name) for name in joints]
        self._where = self._model.jnt_qposadr[places]
        self.near_at_home = frozenset(self._near(home))

    def meeting(self, positions: Array) -> Pair | None:
        """Return two bodies that come too near along positions (n, nv), if any do."""
        for position in positions:
            if found := self._near(position) - self.near_at_home:
                return min(found)
        return None

    def _near(self, position: Array) -> set[Pair]:
        self._data.qpos[self._where] = position
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_collision(self._model, self._data)
        contact = self._data.contact
        near = contact.geom[contact.dist < self._least]
        pairs = np.sort(self._model.geom_bodyid[near], axis=1)
        return {(self._names[a], self._names[b]) for a, b in pairs.tolist()}

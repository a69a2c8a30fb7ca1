"""Robot and objects in the browser: a node for each body, which moves; its geoms hang on it."""

from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model.parameters import with_parameters
from emppi_ros.tasks.task import Task
from emppi_ros.viz.shapes import camera as views
from emppi_ros.viz.shapes import scene_extent
from emppi_ros.viz.web import meshes

Array = npt.NDArray[np.float64]
_NEAREST = 0.1  # m, to what a mouse turns the scene about
_ASIDE, _ABOVE, _BACK = 0.25, 0.15, 1.75  # of the setting's size; of the camera's own distance


class World:
    """A task's scene."""

    def __init__(self, server: Any, task: Task, theta: Array | None) -> None:
        """Send all meshes once; true parameters (P,), if known: a joint may be a hinge there."""
        model = task.visual_model()
        self.model = model if theta is None else with_parameters(model, task.parameters, theta)
        self.data, self._server = mujoco.MjData(self.model), server
        found, self.missing = meshes.of_scene(self.model)
        self._nodes: dict[int, Any] = {}
        for mesh in found:
            if mesh.body not in self._nodes:
                self._nodes[mesh.body] = server.scene.add_frame(
                    f'/bodies/{mesh.body}', show_axes=False
                )
            red, green, blue, opacity = mesh.color
            server.scene.add_mesh_simple(
                f'/bodies/{mesh.body}/{mesh.name.replace("/", " ")}',
                mesh.vertices,
                mesh.faces,
                color=(red, green, blue),
                opacity=None if opacity >= 1.0 else opacity,
                flat_shading=len(mesh.faces) <= 12,
            )

    def show(self, qpos: Array, turned: Array) -> None:
        """Move all bodies to where a configuration (nq,) puts them."""
        self.data.qpos[:] = qpos
        self.data.mocap_quat[:] = turned
        mujoco.mj_kinematics(self.model, self.data)
        with self._server.atomic():
            for body, node in self._nodes.items():
                node.position = self.data.xpos[body]
                node.wxyz = self.data.xquat[body]

    def look(self, task: Task) -> tuple[Array, Array, float]:
        """
        Return where to look from and to (3,) [m], and how wide [rad].

        That is the way in which `emppi markers` looks, from farther away, for panels leave a
        narrow picture; in its middle are what beliefs are about and where numbers are shown.
        """
        camera = views.look(task, self.model)
        seen = views.through(self.model, self.data.qpos, camera, 1, 1)
        ahead, (size, right) = -seen.axes[2], scene_extent.setting(task)
        at = scene_extent.beside(task, self.data) + size * (
            _ASIDE * right + _ABOVE * scene_extent.UP
        )
        away = max(float((at - seen.eye) @ ahead), _NEAREST)
        return at - _BACK * away * ahead, at, seen.fovy

    def remove(self) -> None:
        """Take all out of the scene."""
        for node in self._nodes.values():
            node.remove()

"""The depth camera of a task is where its YAML puts it."""

from dataclasses import replace

import numpy as np
import pytest

from emppi_ros.core.errors import ConfigError, SceneError
from emppi_ros.tasks.schema import DepthCameraConfig
from emppi_ros.tasks.task import Task, load_task
from emppi_ros.viz.renderer import depth_camera


def with_camera(**keys: object) -> Task:
    """Return the push with keys of its depth camera."""
    task = load_task('panda_push')
    camera = DepthCameraConfig(**keys)  # type: ignore[arg-type]
    task.simulation = replace(task.simulation, depth_camera=camera)
    return task


def test_a_camera_of_the_scene_by_name_by_default_and_by_its_pose_is_the_same() -> None:
    model = load_task('panda_push').visual_model()
    named = depth_camera(with_camera(camera='overview'), model)
    default = depth_camera(with_camera(), model)
    pose = {'position': named.position, 'quaternion': tuple(named.quaternion), 'fovy_deg': 34.0}
    given = depth_camera(with_camera(**pose), model)
    for other in (default, given):
        np.testing.assert_allclose(other.position, named.position, atol=1e-9)
        np.testing.assert_allclose(other.matrix, named.matrix, atol=1e-7)
        assert other.fx == pytest.approx(named.fx)


def test_an_unknown_camera_is_named_with_its_key() -> None:
    task = with_camera(camera='overvieww')
    message = "depth_camera: camera: unknown camera 'overvieww'.*did you mean 'overview'"
    with pytest.raises(SceneError, match=message):
        depth_camera(task, task.visual_model())


def test_half_a_pose_is_refused() -> None:
    with pytest.raises(ConfigError, match='expected both or none'):
        DepthCameraConfig(position=(0.0, 0.0, 1.0))

"""From a depth video of a handle that moves to a task whose belief starts from its joint."""

from pathlib import Path
import tempfile

import numpy as np

import emppi_ros as emppi
from emppi_ros.sim.depth_camera import SimulatedDepthCamera
from emppi_ros.sim.true_parameters import draw_truth
from emppi_ros.tracking import camera_video
from emppi_ros.viz.renderer import depth_camera

task, folder = emppi.load_task('panda_drawer'), Path(tempfile.mkdtemp())
# The video: replace it by your own. Here a handle moves by 25 cm in two seconds.
model, truth = task.visual_model(), draw_truth(task, seed=0).at(0.0)
view = depth_camera(task, model)
camera, time = SimulatedDepthCamera(task, model, view, seed=0), np.arange(60) / 30.0
states = np.tile(task.start().qpos, (60, 1))
states[:, task.jointed['handle'].qpos] = 0.25 * np.sin(0.5 * np.pi * time / time[-1]) ** 2
images = [camera.take(qpos, truth) for qpos in states]
camera_video.write(folder / 'video.npz', camera_video.CameraVideo(view, time, images.__getitem__))

task = emppi.video_to_task(folder / 'video.npz', task, folder / 'prior.yaml')
samples = task.prior.sample(200, np.random.default_rng(0))
for parameter, values in zip(task.parameters, samples.T, strict=True):
    print(f'{parameter.name}: {values.mean():.3f}, standard deviation {values.std():.3f}')

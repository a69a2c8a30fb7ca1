"""A box, a ball and a rod in front of a wall, and a depth camera."""

from cameras import looking_at
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.pose import Poses
from emppi_ros.model import scene
from emppi_ros.tracking import renderer
from emppi_ros.tracking.fitting import TrackedParts, TrackerConfig

SCENE = """
<mujoco>
  <worldbody>
    <geom type="plane" pos="0 0.8 0" zaxis="0 -1 0" size="4 4 0.1"/>
    <body name="box"><freejoint/><geom type="box" size="0.12 0.08 0.06" pos="0.01 0 0.02"/></body>
    <body name="ball" pos="0.4 0 0"><freejoint/><geom type="sphere" size="0.1"/></body>
    <body name="rod" pos="-0.4 0 0"><freejoint/><geom type="capsule" size="0.03 0.15"/></body>
  </worldbody>
</mujoco>"""
NAMES = ('box', 'ball', 'rod')


class Stage:
    def __init__(self, names, pose=None):
        self.model = mujoco.MjModel.from_xml_string(SCENE)
        self.bodies = [self.model.body(name).id for name in names]
        view = looking_at(160, 120, 45.0, [0.5, -1.5, 0.6])
        self.camera = view
        start = scene.kinematics(self.model, self.model.qpos0)
        self.initial = renderer.body_poses(start, self.bodies)
        self.background = renderer.render_background(self.model, self.bodies, view)
        self.tracked = TrackedParts(
            TrackerConfig(), self.model, self.bodies, view, self.background
        )

    def image(self, poses):
        """Return the depth image of poses: parts in front of the background."""
        self.tracked.renderer.place(poses)
        return np.minimum(self.tracked.renderer.render().depth, self.background)

    def noisy(self, poses, rng):
        depth = self.image(poses)
        return depth + self.tracked.noise(depth) * rng.normal(size=depth.shape)


@pytest.fixture(scope='session')
def stage():
    made = {}

    def make(*names):
        if names not in made:
            made[names] = Stage(names)
        return made[names]

    return make


def moved(poses, shift, turn, part=0):
    """Return poses of which one is moved, and turned about its origin."""
    position, rotation = poses.position.copy(), poses.rotation.copy()
    position[part] += shift
    rotation[part] = Rotation.from_rotvec(turn).as_matrix() @ rotation[part]
    return Poses(position, rotation)


def errors(estimate, poses, part=0):
    turn = Rotation.from_matrix(estimate.rotation @ poses.rotation[part].T).as_rotvec()
    return np.concatenate([estimate.position - poses.position[part], turn])


@pytest.fixture
def tilted(stage):
    """Return the box's stage and a pose in which three faces are seen."""
    box = stage('box')
    return box, moved(box.initial, [0.02, 0.05, -0.03], [0.4, 0.3, 0.7])

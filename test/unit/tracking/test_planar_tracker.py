"""Parts that move in a plane are found by their silhouettes, and errors are as claimed."""

from cameras import looking_at
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import ConfigError, PoseError
from emppi_ros.core.pose import Poses
from emppi_ros.model import scene
from emppi_ros.tracking import renderer
from emppi_ros.tracking.fitting import TrackedParts, TrackerConfig
from emppi_ros.tracking.parts import PartsFile
from emppi_ros.tracking.planar_tracker import PlanarTracker
from emppi_ros.tracking.silhouettes import PartMark

from .conftest import errors, moved

SCENE = """
<mujoco>
  <worldbody>
    <geom type="plane" pos="0 0.3 0" zaxis="0 -1 0" size="4 4 0.1"/>
    <body name="elbow"><freejoint/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
    </body>
    <body name="rod" pos="0.2 -0.06 0"><freejoint/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02"/>
    </body>
    <body name="disc" pos="-0.2 0 0.1"><freejoint/>
      <geom type="cylinder" size="0.08 0.01" zaxis="0 1 0"/>
    </body>
  </worldbody>
</mujoco>"""
NORMAL = np.array([0.0, 1.0, 0.0])
FLAT = [0, 2, 4]  # coordinates in the plane: x, z, and rotation about y
VIEW = looking_at(160, 120, 45.0, [0.2, -1.2, 0.15])


class Labelled:
    """Some parts of the scene, whose images are labels of a segmenter."""

    def __init__(self, *names, text=SCENE, view=VIEW):
        model = mujoco.MjModel.from_xml_string(text)
        bodies = tuple(model.body(name).id for name in names)
        self.start = renderer.body_poses(scene.kinematics(model, model.qpos0), bodies)
        marks = tuple(PartMark(label=i + 1) for i in range(len(names)))
        self.file = PartsFile(
            names, model, bodies, self.start, TrackerConfig(), 'scene', tuple(NORMAL), marks
        )
        self.view, self.tracked = view, TrackedParts(TrackerConfig(), model, bodies, view)

    def image(self, poses):
        self.tracked.renderer.place(poses)
        return self.tracked.renderer.render().part + 1

    def tracker(self, start=None):
        file = self.file if start is None else self.file._replace(start=start)
        return PlanarTracker(file, self.view)


def turned(poses, shift, angle, part=0):
    return moved(poses, shift, angle * NORMAL, part)


def test_errors_are_those_of_the_covariances():
    parts, rng, squares, small = Labelled('elbow'), np.random.default_rng(3), [], []
    tracker = parts.tracker()
    for i in range(10):
        shift = [rng.uniform(-0.1, 0.1), 0.0, rng.uniform(-0.1, 0.1)]
        poses = turned(parts.start, shift, rng.uniform(-np.pi, np.pi))
        start = turned(poses, [0.008, 0.0, -0.006], 0.05)
        tracker.poses = start
        (found,) = tracker.track(1e6 * i, parts.image(poses))  # no velocity is left
        assert found.status == 'tracked'
        error, known = errors(found, poses), found.covariance[np.ix_(FLAT, FLAT)]
        assert np.allclose(error[[1, 3, 5]], 0.0, atol=1e-9)  # rounding: it stays in its plane
        squares.append(error[FLAT] @ np.linalg.solve(known, error[FLAT]))
        small.append(np.sqrt(np.diag(known)))
    # chi squared with 30 degrees of freedom: above 59 with a probability of 0.1 %. Edges that are
    # rounded to pixels count as independent only from one row to the next: errors are less
    assert np.sum(squares) < 59.0
    # a pixel has 8 mm, and an outline has about 150
    assert np.all(np.median(small, axis=0) < [0.002, 0.002, 0.02])


def test_the_angle_of_a_disc_stays_as_it_was_and_is_unknown():
    parts = Labelled('disc')
    poses = turned(parts.start, [0.05, 0.0, -0.02], 1.0)
    start = turned(parts.start, [0.045, 0.0, -0.015], 0.0)
    (found,) = parts.tracker(start).track(0.0, parts.image(poses))
    angle = Rotation.from_matrix(found.rotation @ parts.start.rotation[0].T).magnitude()
    assert angle < 0.01 and np.sqrt(found.covariance[4, 4]) > 1.5
    # a tenth of a pixel of 8 mm: about 60 rows and columns are rounded on both sides
    assert np.all(np.abs(errors(found, poses)[[0, 2]]) < 0.0008)
    assert np.sqrt(found.covariance[0, 0]) < 0.002


def test_a_part_in_front_does_not_move_one_that_it_covers():
    parts, alone = Labelled('elbow', 'rod'), Labelled('elbow')
    # along the outer half of the elbow's short arm
    start = turned(parts.start, [-0.1, 0.0, 0.008], -np.pi / 2.0, part=1)
    image = parts.image(start)
    whole = alone.image(start.at([0])) == 1
    assert np.sum(whole & (image == 2)) > 40  # pixels
    begin = turned(start, [0.005, 0.0, 0.0], 0.03)
    for part, found in enumerate(parts.tracker(begin).track(0.0, image)):
        error, known = errors(found, start, part)[FLAT], found.covariance[np.ix_(FLAT, FLAT)]
        # 99.9 % of a chi squared variable with three degrees of freedom
        assert found.status == 'tracked' and error @ np.linalg.solve(known, error) < 16.3
    # if nothing covered it, this would not be its shape
    (wrong,) = alone.tracker(begin.at([0])).track(0.0, np.where(image == 2, 0, image))
    assert wrong.status == 'lost'


def test_what_the_scene_has_in_front_hides_a_part():
    post = '<geom type="box" pos="0.02 -0.2 -0.22" size="0.06 0.01 0.08"/>'
    parts = Labelled(
        'elbow', text=SCENE.replace('<body name="elbow">', f'{post}<body name="elbow">')
    )
    start, tracker = parts.start, parts.tracker()
    parts.tracked.renderer.place(start)
    seen, behind = parts.tracked.renderer.render(), tracker.tracked.background
    depth = behind.crop(renderer.Window(0, VIEW.height, 0, VIEW.width))
    image = np.where(depth < seen.depth, 0, seen.part + 1)
    assert np.sum(image) < 0.8 * np.sum(seen.part + 1)
    tracker.poses = turned(start, [0.005, 0.0, 0.0], 0.03)
    (found,) = tracker.track(0.0, image)
    error, known = errors(found, start)[FLAT], found.covariance[np.ix_(FLAT, FLAT)]
    # 99.9 % of a chi squared variable with three degrees of freedom
    assert found.status == 'tracked' and error @ np.linalg.solve(known, error) < 16.3


def test_first_poses_are_found_and_what_looks_alike_is_named():
    parts = Labelled('elbow', 'rod')
    tracker = parts.tracker()
    poses = turned(turned(parts.start, [-0.15, 0.0, 0.2], 2.5), [0.0, 0.0, -0.2], 0.4, part=1)
    elbow, rod = tracker.track(0.0, parts.image(poses))
    # a pixel of 8 mm, at an arm of 0.15 m
    assert elbow.status == 'tracked' and np.abs(errors(elbow, poses)).max() < 0.05
    assert rod.status == 'tracked' and np.abs(errors(rod, poses, 1)).max() < 0.05
    assert len(tracker.notes) == 1 and tracker.notes[0].startswith('rod: looks alike')


def test_fast_parts_are_followed_and_gone_ones_are_lost_or_hidden():
    parts = Labelled('elbow')
    tracker = parts.tracker()
    for i in range(6):
        poses = turned(parts.start, [0.02 * i, 0.0, 0.0], -0.12 * i)
        (found,) = tracker.track(i / 30.0, parts.image(poses))
        assert found.status == 'tracked' and np.abs(errors(found, poses)).max() < 0.05
    (lost,) = tracker.track(0.3, np.zeros_like(parts.image(poses)))
    assert lost.status == 'lost' and np.sqrt(lost.covariance[4, 4]) > 1.5  # nothing is claimed
    away = moved(poses, [9.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert parts.tracker(away).track(0.0, parts.image(away))[0].status == 'hidden'


def test_images_and_planes_that_do_not_fit_are_refused():
    parts = Labelled('elbow')
    image = parts.image(parts.start)
    tracker = parts.tracker()
    with pytest.raises(PoseError, match='image of depths: expected labels'):
        tracker.track(0.0, image.astype(float))
    with pytest.raises(PoseError, match='found 80 x 120 px, expected 160 x 120'):
        tracker.track(0.0, image[:, ::2])
    tracker.track(0.0, image)
    with pytest.raises(PoseError, match='not after the one before'):
        tracker.track(0.0, image)
    with pytest.raises(PoseError, match='of labels: silhouettes do not show all six'):
        parts.tracked.prepare(-np.inf, 0.0, image, None)
    with pytest.raises(PoseError, match='of colours: .* its normal as `plane`'):
        parts.tracked.prepare(-np.inf, 0.0, np.zeros((120, 160, 3), np.uint8), None)
    with pytest.raises(ConfigError, match=r'plane: found \[0.0, 0.0, 1.0\], expected the normal'):
        PlanarTracker(parts.file._replace(plane=(0.0, 0.0, 1.0)), VIEW)
    assert isinstance(parts.start, Poses)

"""
The way from a depth video to a simulator, by the parts that users call one by one.

`tracking` finds poses of the parts, `articulation` their joints, and an identification method the
masses and dampings: of the inferred mechanism, with the shapes of the parts.
"""

from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt
import yaml

from emppi_ros.articulation import mjcf, report, topology
from emppi_ros.articulation.rigid_motion import Poses
from emppi_ros.articulation.topology import KinematicTree
from emppi_ros.articulation.tracks import PartTrack, Tracks
from emppi_ros.bench.video import films
from emppi_ros.bench.video.films import ACTUATOR, CAMERA, FILE, PARTS, UNITS, Film
from emppi_ros.core import paths
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common import tables
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import Recording, read_recording
from emppi_ros.identify.common.signals import Signal
from emppi_ros.model import scene
from emppi_ros.tracking import renderer, tracker
from emppi_ros.tracking.parts import TrackedParts, TrackerConfig
from emppi_ros.tracking.search import TRACKED

Array = npt.NDArray[np.float64]
_FIELDS = {'mass': 'body_mass', 'damping': 'dof_damping'}


class Followed(NamedTuple):
    """Tracks of the parts of a film, and their errors."""

    tracks: Tracks
    errors: Array  # (T, B) distance of the parts' frames from the true ones [m]


class InferredMechanism(NamedTuple):
    """An inferred mechanism as a plant to identify, with the recording of its joints."""

    tree: KinematicTree
    plant: Plant
    recording: Recording


def follow(film: Film) -> Followed:
    """Track the parts of a film, from their true poses in the first image."""
    model = scene.load_scene(paths.ASSETS / FILE, visual=True)
    bodies = tuple(scene.find(model, 'body', part) for part in PARTS)
    background = renderer.render_background(model, bodies, film.camera)
    settings = TrackerConfig(noise_sd_per_m=CAMERA.noise_sd_per_m)
    tracked = TrackedParts(settings, model, bodies, film.camera, background)
    state = tracker.start(tracked, film.poses[0])
    rows = []
    for time, image in zip(film.time.tolist(), film.images, strict=True):
        state, estimates = tracker.track(tracked, state, time, image)
        rows.append(estimates)
    errors, parts = np.empty((len(rows), len(PARTS))), []
    for index, name in enumerate(PARTS):
        own = [row[index] for row in rows]
        position = np.array([one.position for one in own])
        parts.append(
            PartTrack(
                name,
                Poses(np.array([one.rotation for one in own]), position),
                np.array([one.covariance for one in own]),
                np.array([one.status == TRACKED for one in own]),
            )
        )
        true = np.array([pose.position[index] for pose in film.poses])
        errors[:, index] = np.linalg.norm(position - true, axis=1)
    return Followed(Tracks(film.time, tuple(parts)), errors)


def is_right(tree: KinematicTree) -> bool:
    """Return whether the tree is a slide on the world with a hinge on it."""
    found = {joint.child: (joint.parent, joint.kind) for joint in tree.joints}
    return found == {'cart': (topology.WORLD, 'prismatic'), 'pole': ('cart', 'revolute')}


def geometry_errors(tree: KinematicTree) -> tuple[float, float]:
    """Return the error of the worse axis [deg], and how far the axis of the hinge is off [mm]."""
    model = scene.load_scene(paths.ASSETS / FILE)
    angles = []
    for part in PARTS:
        axis = tree.joint(part).model.axis  # type: ignore[union-attr]  # in the parent
        along = abs(float(axis @ model.joint(part).axis))
        angles.append(np.degrees(np.arccos(min(along, 1.0))))
    hinge = mujoco.MjSpec.from_string(mjcf.to_text(tree)).joint('pole')
    apart = hinge.pos - model.joint('pole').pos
    away = apart - hinge.axis * float(apart @ hinge.axis)
    return float(np.max(angles)), 1e3 * float(np.linalg.norm(away))


def infer_mechanism(followed: Followed, film: Film, seed: int, folder: Path) -> InferredMechanism:
    """
    Infer the mechanism, and write model and recording into a folder, as users would.

    IdentificationError if the tree is not that of a cart-pole.
    """
    tree = topology.infer(followed.tracks, seed)
    if not is_right(tree):
        found = ', '.join(f'{one.child} on {one.parent}: {one.kind}' for one in tree.joints)
        raise IdentificationError(f'the inferred tree is wrong: {found}')
    (folder / 'scene.xml').write_text(_with_shapes(tree))
    (folder / 'plant.yaml').write_text(yaml.safe_dump(_plant_file()))
    force = Signal('command', ACTUATOR, 'N', film.clock, film.force, 'film')
    tables.write(folder / 'film.csv', [*report.signals(tree), force])
    plant = Plant.from_file(folder / 'plant.yaml')
    return InferredMechanism(tree, plant, read_recording([folder / 'film.csv']))


def _with_shapes(tree: KinematicTree) -> str:
    """Return the inferred mechanism with the shapes of its parts, and a motor along the slide."""
    shapes = mujoco.MjSpec.from_file(str(paths.ASSETS / FILE))
    spec = mujoco.MjSpec.from_string(mjcf.to_text(tree))
    spec.option.timestep = shapes.option.timestep
    spec.option.integrator = shapes.option.integrator
    for part in PARTS:
        spec.delete(spec.geom(part))
        geom = shapes.geom(part)
        spec.body(part).add_geom(
            name=part, type=geom.type, size=geom.size, pos=geom.pos, quat=geom.quat,
            fromto=geom.fromto, density=geom.density, contype=0, conaffinity=0,
        )  # fmt: skip
    axis = tree.joint('cart').model.axis  # type: ignore[union-attr]  # a slide
    motor = spec.add_actuator(name=ACTUATOR, target='cart', trntype=mujoco.mjtTrn.mjTRN_JOINT)
    motor.gear[0] = float(np.sign(axis[0]))
    text: str = spec.to_xml()
    return text


def _plant_file() -> dict[str, object]:
    model = scene.load_scene(paths.ASSETS / FILE)
    parameters = {}
    for name, (low, high) in films.bounds(model).items():
        part, _, quantity = name.partition('_')
        parameters[name] = {
            'field': _FIELDS[quantity],
            'of': part,
            'unit': UNITS[name],
            'initial': float(np.sqrt(low * high)),
            'lower': low,
            'upper': high,
        }
    return {'scene': 'scene.xml', 'parameters': parameters}

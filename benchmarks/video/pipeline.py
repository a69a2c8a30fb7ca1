"""
The way from a depth video to a simulator, by the parts that users call one by one.

`tracking` finds poses of the parts, `articulation` their joints, and an identification method the
masses and dampings: of the inferred mechanism, with the shapes of the parts.
"""

from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
import yaml

from benchmarks.filmed_parts import parts_of
from benchmarks.video.films import CAMERA, Film
from benchmarks.video.mechanisms import FilmedJoint, FilmedMechanism, unknowns
from emppi_ros.articulation import mjcf, report, tracks
from emppi_ros.articulation.topology import KinematicTree, TreeJoint
from emppi_ros.articulation.tracks import Tracks
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.model import scene
from emppi_ros.pipeline.mechanism import articulate
from emppi_ros.recordings import tables
from emppi_ros.recordings.recordings import Recording, read_recording
from emppi_ros.recordings.signals import Signal
from emppi_ros.tracking.parts import prepare_parts
from emppi_ros.tracking.tracker import PartTracker


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
    model, names = film.mechanism.load(visual=True), film.mechanism.parts
    bodies = tuple(scene.find(model, 'body', part) for part in names)
    parts = parts_of(model, bodies, film.poses[0], CAMERA)
    tracker = PartTracker(prepare_parts(parts, film.camera), parts.start)
    images = zip(film.time.tolist(), film.images, strict=True)
    estimates = [tracker.track(time, image) for time, image in images]
    followed = tracks.from_estimates(names, film.time, estimates)
    position = np.stack([part.poses.position for part in followed.parts], axis=1)
    true = np.array([pose.position for pose in film.poses])
    return Followed(followed, np.linalg.norm(position - true, axis=2))


def is_right(tree: KinematicTree, mechanism: FilmedMechanism) -> bool:
    """Return whether a tree is the true one; any part may carry a planar joint on the world."""
    wanted = [_edge(joint.parent, joint.child, joint.kind) for joint in mechanism.joints]
    inferred = [_edge(joint.parent, joint.child, joint.kind) for joint in tree.joints]
    return sorted(wanted) == sorted(inferred)


def _edge(parent: str, child: str, kind: str) -> tuple[str, ...]:
    """Return the same for both directions of an edge, and for all parts of a planar joint."""
    return (kind,) if kind == 'planar' else (kind, *sorted((parent, child)))


def joint_between(tree: KinematicTree, joint: FilmedJoint) -> TreeJoint:
    """Return the joint of a right tree that is a true one."""
    wanted = _edge(joint.parent, joint.child, joint.kind)
    return next(
        candidate
        for candidate in tree.joints
        if _edge(candidate.parent, candidate.child, candidate.kind) == wanted
    )


def geometry_errors(tree: KinematicTree, mechanism: FilmedMechanism) -> tuple[float, float]:
    """Return the errors of the worst axis [deg], and of the place of the worst hinge [mm]."""
    model, spec = mechanism.load(), mujoco.MjSpec.from_string(mjcf.to_text(tree))
    angles, places = [], []
    for joint in mechanism.joints:
        inferred = joint_between(tree, joint)
        planar = joint.kind == 'planar'
        axis = np.array([0.0, 0.0, 1.0]) if planar else model.joint(joint.child).axis
        assert inferred.model is not None
        along = abs(float(inferred.model.axis @ axis))  # frames are parallel at the start
        angles.append(np.degrees(np.arccos(min(along, 1.0))))
        if joint.kind == 'revolute':
            place = model.joint(joint.child).pos.copy()
            if inferred.child != joint.child:
                place += model.body(joint.child).pos
            hinge = spec.joint(inferred.child)
            apart = hinge.pos - place
            away = apart - hinge.axis * float(apart @ hinge.axis)
            places.append(1e3 * float(np.linalg.norm(away)))
    return float(np.max(angles)), float(np.max(places))


def infer_tree(followed: Followed, film: Film, seed: int) -> KinematicTree:
    """Return the kinematic tree of the tracks; IdentificationError if it is wrong."""
    tree = articulate(followed.tracks, seed=seed)
    if not is_right(tree, film.mechanism):
        joints = ', '.join(
            f'{joint.child} on {joint.parent}: {joint.kind}' for joint in tree.joints
        )
        raise IdentificationError(f'the inferred tree is wrong: {joints}')
    return tree


def write_mechanism(tree: KinematicTree, film: Film, folder: Path) -> InferredMechanism:
    """Write model and recording of a right tree into a folder, as users would, and read them."""
    mechanism = film.mechanism
    (folder / 'scene.xml').write_text(_with_shapes(tree, mechanism))
    (folder / 'plant.yaml').write_text(yaml.safe_dump(_plant_file(tree, mechanism)))
    actuators = scene.names(mechanism.load(), 'actuator')
    forces = [
        Signal('command', name, 'N', film.clock, column, 'film')
        for name, column in zip(actuators, film.force.T, strict=True)
    ]
    tables.write(folder / 'film.csv', [*report.signals(tree), *forces])
    plant = Plant.from_file(folder / 'plant.yaml')
    return InferredMechanism(tree, plant, read_recording([folder / 'film.csv']))


def _with_shapes(tree: KinematicTree, mechanism: FilmedMechanism) -> str:
    """Return the inferred mechanism with the shapes of its parts, and its actuators."""
    shapes = mechanism.spec()
    spec = mujoco.MjSpec.from_string(mjcf.to_text(tree))
    spec.option.timestep = shapes.option.timestep
    spec.option.integrator = shapes.option.integrator
    spec.option.gravity = shapes.option.gravity
    for part in mechanism.parts:
        body = spec.body(part)
        spec.delete(spec.geom(part))
        for geom in shapes.body(part).geoms:
            body.add_geom(
                name=geom.name, type=geom.type, size=geom.size, pos=geom.pos, quat=geom.quat,
                fromto=geom.fromto, density=geom.density, contype=0, conaffinity=0,
            )  # fmt: skip
    for site in shapes.sites:
        name = site.parent.name
        spec.body(name).add_site(name=site.name)
    for actuator in shapes.actuators:
        gear = actuator.gear.copy()
        of_joint = actuator.trntype == mujoco.mjtTrn.mjTRN_JOINT
        slide = tree.joint(actuator.target).model if of_joint else None
        if slide is not None:  # along x
            gear[0] *= np.sign(slide.axis[0])
        spec.add_actuator(
            name=actuator.name, target=actuator.target, refsite=actuator.refsite,
            trntype=actuator.trntype, gear=gear,
        )  # fmt: skip
    text: str = spec.to_xml()
    return text


def _plant_file(tree: KinematicTree, mechanism: FilmedMechanism) -> dict[str, object]:
    holding = {joint.child: joint_between(tree, joint).child for joint in mechanism.joints}
    parameters = {
        name: {
            'field': unknown.field,
            'of': unknown.part if unknown.field == 'body_mass' else holding[unknown.part],
            'unit': unknown.unit,
            'initial': float(np.sqrt(unknown.lower * unknown.upper)),
            'lower': unknown.lower,
            'upper': unknown.upper,
        }
        for name, unknown in unknowns(mechanism).items()
    }
    return {'scene': 'scene.xml', 'parameters': parameters}

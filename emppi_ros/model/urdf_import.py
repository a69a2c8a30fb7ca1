"""
Convert a URDF to an MJCF scene that a robot can be simulated in.

MuJoCo reads links, joints, inertias and shapes. This module finds the meshes of `package://`, adds
a servo to each joint, and holds the weight of the arm as the controllers of robots do. Notes say
what it leaves out or assumes.
"""

from collections.abc import Iterator, Mapping
import os
from pathlib import Path
import shutil
from typing import NamedTuple
from xml.etree import ElementTree

import mujoco
import numpy as np

from emppi_ros.core import paths
from emppi_ros.core.errors import SceneError, abbreviate
from emppi_ros.model import scene

MAX_CHARACTERS = 10_000_000
_READABLE = ('.stl', '.obj', '.msh')  # meshes that MuJoCo reads
_COMPILER = {
    'strippath': 'false',
    'fusestatic': 'false',
    'discardvisual': 'false',
    'inertiafromgeom': 'false',
}
_STEP_S = 0.002
_LAG_S = 0.01  # of the servos: that of the drives of robots
_YIELD = 0.05  # share of the largest velocity by which a servo misses it at its largest effort
_LEAST_KG, _LEAST_KG_M2 = 1e-3, 1e-6  # of links whose file gives no mass
_INERTIA = 'ixx', 'iyy', 'izz', 'ixy', 'ixz', 'iyz'
_ROWS = (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)
_PACKAGE = 'package://'


class Conversion(NamedTuple):
    """A scene, the mesh files to copy beside it, and what was left out or assumed."""

    spec: mujoco.MjSpec
    meshes: dict[str, Path]  # name of the copy -> file
    notes: list[str]


def read(path: Path, packages: Mapping[str, Path], command: str) -> Conversion:
    """
    Return the scene of a URDF, with servos of `command` ('velocity' or 'position').

    `packages` are folders of `package://NAME` that are found neither in the environment of ROS nor
    above the file. SceneError names the element that is wrong, and the remedy.
    """
    root, notes = _parse(path), list[str]()
    meshes = _resolve_meshes(root, path, packages, notes)
    for element in root.findall('mujoco'):
        root.remove(element)
    settings = ElementTree.SubElement(root, 'mujoco')
    compiler = ElementTree.SubElement(settings, 'compiler', _COMPILER)
    _repair_inertias(root, notes)
    spec, model = _compile(root, compiler, path, notes)
    _exclude_touching(spec, model, notes)
    _add_servos(spec, root, model, command)
    spec.option.timestep = _STEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for body in spec.bodies[1:]:
        body.gravcomp = 1.0
    return Conversion(spec, meshes, notes)


def write(conversion: Conversion, path: Path) -> None:
    """Write a scene and a folder with its meshes; SceneError if that fails."""
    folder = path.with_name(f'{path.stem}_meshes')
    try:
        conversion.spec.compile()
        root = ElementTree.fromstring(conversion.spec.to_xml())
        names = {str(file): name for name, file in conversion.meshes.items()}
        for mesh in root.iterfind('asset/mesh'):
            name = names[mesh.get('file', '')]
            folder.mkdir(exist_ok=True)
            shutil.copyfile(mesh.get('file', ''), folder / name)
            mesh.set('file', f'{folder.name}/{name}')
        compiler = root.find('compiler')
        if compiler is not None:  # six digits may not suffice for A + B = C
            compiler.set('balanceinertia', 'true')
        ElementTree.indent(root)
        path.write_text(ElementTree.tostring(root, encoding='unicode'), encoding='utf-8')
    except (OSError, *scene.MUJOCO_ERRORS) as error:
        raise SceneError(f'{path}: cannot be written: {error}') from None


def _parse(path: Path) -> ElementTree.Element:
    """Return the root element of a URDF."""
    try:
        text = path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise SceneError(f'{path}: cannot be read: {error}') from None
    if len(text) > MAX_CHARACTERS or '<!DOCTYPE' in text:
        raise SceneError(f'{path}: has a DOCTYPE, or more than {MAX_CHARACTERS} characters')
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise SceneError(f'{path}: cannot be read: {error}') from None
    if root.tag != 'robot':
        raise SceneError(f'{path}: begins with <{root.tag}>; a URDF begins with <robot>')
    if any('xacro}' in element.tag for element in root.iter()):
        raise SceneError(
            f'{path}: has macros of xacro: write them out first: '
            f'xacro {path.name} > {path.name.partition(".")[0]}_flat.urdf'
        )
    return root


def _resolve_meshes(
    root: ElementTree.Element, path: Path, packages: Mapping[str, Path], notes: list[str]
) -> dict[str, Path]:
    """Make the names of mesh files absolute; remove shapes whose meshes MuJoCo cannot read."""
    meshes: dict[str, Path] = {}
    unread: dict[str, set[str]] = {'visual': set(), 'collision': set()}
    for link in root.findall('link'):
        for kind, files in unread.items():
            for shape in link.findall(kind):
                mesh = shape.find('geometry/mesh')
                if mesh is None:
                    continue
                file = _find_mesh(mesh.get('filename', ''), path, packages)
                if file.suffix.lower() not in _READABLE:
                    link.remove(shape)
                    files.add(f'{link.get("name")} ({file.name})')
                    continue
                mesh.set('filename', str(file))
                meshes.setdefault(_unique(file, meshes), file)
    for kind, files in unread.items():
        if files:
            notes.append(
                f'{kind} shapes are left out, since MuJoCo reads meshes of {", ".join(_READABLE)} '
                f'only: {abbreviate(sorted(files))}; convert these files to keep them'
            )
    return meshes


def _unique(file: Path, meshes: Mapping[str, Path]) -> str:
    """Return the name of a copy of a mesh: that of its file, with a number if it is taken."""
    name, i = file.name, 1
    while meshes.get(name, file) != file:
        i += 1
        name = f'{file.stem}_{i}{file.suffix}'
    return name


def _find_mesh(name: str, path: Path, packages: Mapping[str, Path]) -> Path:
    """Return the file of a mesh."""
    if name.startswith(_PACKAGE):
        package, _, rest = name.removeprefix(_PACKAGE).partition('/')
        folders = list(_package_folders(package, path, packages))
        for folder in folders:
            if os.path.isfile(folder / rest):
                return folder / rest
        where = f'; it is not in {", ".join(map(str, folders))}' if folders else ''
        raise SceneError(
            f'{path}: mesh {name}: not found{where}: source the workspace of {package!r}, or give '
            f'--package {package}=FOLDER'
        )
    file = path.parent.absolute() / name.removeprefix('file://')
    if not os.path.isfile(file):
        raise SceneError(f'{path}: mesh {name}: no such file: {file}')
    return file


def _package_folders(package: str, path: Path, packages: Mapping[str, Path]) -> Iterator[Path]:
    """Yield the folders that a ROS package may be in: as given, installed, or above a file."""
    if package in packages:
        yield packages[package].absolute()
    yield from paths.ros_package_folders(package)
    for parent in path.absolute().parents:
        if parent.name == package:
            yield parent
        elif os.path.isdir(parent / package):
            yield parent / package


def _repair_inertias(root: ElementTree.Element, notes: list[str]) -> None:
    """Raise principal moments of links that are not positive to a small number."""
    links = []
    for link in root.findall('link'):
        element = link.find('inertial/inertia')
        if element is None:
            continue
        xx, yy, zz, xy, xz, yz = (float(element.get(key, 0.0)) for key in _INERTIA)
        moments, axes = np.linalg.eigh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        if moments[0] > 0.0:
            continue
        full = (axes * np.maximum(moments, _LEAST_KG_M2)) @ axes.T
        for key, value in zip(_INERTIA, full[_ROWS], strict=True):
            element.set(key, repr(float(value)))
        links.append(link.get('name', ''))
    if links:
        notes.append(
            f'principal moments that are not positive are {_LEAST_KG_M2:g} kg m^2: '
            f'{abbreviate(links)}'
        )


def _compile(
    root: ElementTree.Element, compiler: ElementTree.Element, path: Path, notes: list[str]
) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Return the compiled scene; correct inertias that no body can have, and say so."""
    repairs: tuple[tuple[dict[str, str], str], ...] = (
        ({}, ''),
        (
            {'boundmass': str(_LEAST_KG), 'boundinertia': str(_LEAST_KG_M2)},
            f'links that move without a mass have {_LEAST_KG:g} kg',
        ),
        (
            {'balanceinertia': 'true'},
            'inertias that no body can have (A + B < C) are replaced by their mean',
        ),
    )
    for settings, note in repairs:
        compiler.attrib.update(settings)
        try:
            spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding='unicode'))
            for mesh in spec.meshes:  # inertias are those of the links
                mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
            model = spec.compile()
        except (ValueError, *scene.MUJOCO_ERRORS) as error:
            reason = ' '.join(str(error).split())
            if 'inertia' not in reason or settings is repairs[-1][0]:
                raise SceneError(f'{path}: {reason}') from None
            continue
        if note:
            notes.append(f'{note}: give them in the URDF')
        return spec, model
    raise AssertionError('the last repair returns or raises')


def _add_servos(
    spec: mujoco.MjSpec, root: ElementTree.Element, model: mujoco.MjModel, command: str
) -> None:
    """Add a servo to each joint that mimics no other; its force is limited by the effort."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    inertias = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertias)
    for element in root.findall('joint'):
        name = element.get('name', '')
        joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)
        if joint < 0 or not scene.is_scalar(model, joint) or element.find('mimic') is not None:
            continue
        dof = int(model.jnt_dofadr[joint])
        effort, speed = _limits(element)
        damping = max(float(inertias[dof, dof]) / _LAG_S, effort / (_YIELD * speed))
        actuator = spec.add_actuator(
            name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED, biastype=mujoco.mjtBias.mjBIAS_AFFINE,
        )  # fmt: skip
        if command == 'velocity':
            actuator.gainprm[0], actuator.biasprm[2] = damping, -damping
            if np.isfinite(speed):
                actuator.ctrllimited, actuator.ctrlrange = True, [-speed, speed]
        else:
            stiffness = damping / (2.0 * _LAG_S)
            actuator.gainprm[0] = stiffness
            actuator.biasprm[1], actuator.biasprm[2] = -stiffness, -damping
            if model.jnt_limited[joint]:
                actuator.ctrllimited, actuator.ctrlrange = True, model.jnt_range[joint]


def _limits(joint: ElementTree.Element) -> tuple[float, float]:
    """Return the limits of effort [N m or N] and velocity; 0 and infinity if there are none."""
    limit = joint.find('limit')
    effort, speed = (
        float(limit.get(key, 0.0)) if limit is not None else 0.0 for key in ('effort', 'velocity')
    )
    return effort, speed if speed > 0.0 else np.inf


def _exclude_touching(spec: mujoco.MjSpec, model: mujoco.MjModel, notes: list[str]) -> None:
    """Exclude collisions of bodies that touch at the start, such as links beside a joint."""
    data, names = mujoco.MjData(model), scene.names(model, 'body')
    data.qpos[:] = scene.start(model)
    mujoco.mj_forward(model, data)
    pairs = {tuple(sorted(row)) for row in model.geom_bodyid[data.contact.geom].tolist()}
    for first, second in sorted(pairs):
        spec.add_exclude(bodyname1=names[first], bodyname2=names[second])
    if pairs:
        texts = sorted(f'{names[first]} and {names[second]}' for first, second in pairs)
        notes.append(f'bodies that touch at the start never collide: {abbreviate(texts)}')

"""Load MJCF scenes, and find named objects in models."""

from collections.abc import Callable, Iterable, Sequence
import hashlib
from pathlib import Path
import re
import warnings

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ConfigError, SceneError, unknown
from emppi_ros.model import mjcf_security

HINGE, SLIDE = mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value
FREE = mujoco.mjtJoint.mjJNT_FREE.value
MUJOCO_ERRORS = mujoco.FatalError, mujoco.UnexpectedError
KINDS = {  # type, and name of the count in MjModel
    'body': (mujoco.mjtObj.mjOBJ_BODY, 'nbody'),
    'joint': (mujoco.mjtObj.mjOBJ_JOINT, 'njnt'),
    'geom': (mujoco.mjtObj.mjOBJ_GEOM, 'ngeom'),
    'site': (mujoco.mjtObj.mjOBJ_SITE, 'nsite'),
    'sensor': (mujoco.mjtObj.mjOBJ_SENSOR, 'nsensor'),
    'tendon': (mujoco.mjtObj.mjOBJ_TENDON, 'ntendon'),
    'actuator': (mujoco.mjtObj.mjOBJ_ACTUATOR, 'nu'),
    'keyframe': (mujoco.mjtObj.mjOBJ_KEY, 'nkey'),
    'camera': (mujoco.mjtObj.mjOBJ_CAMERA, 'ncam'),
    'equality': (mujoco.mjtObj.mjOBJ_EQUALITY, 'neq'),
}
POSITION_FIELDS = {'site': 'site_xpos', 'body': 'xpos', 'geom': 'geom_xpos'}  # of MjData
ROTATION_FIELDS = {'site': 'site_xmat', 'body': 'xmat', 'geom': 'geom_xmat'}
_FILTERS = (
    mujoco.mjtDyn.mjDYN_NONE.value,
    mujoco.mjtDyn.mjDYN_FILTER.value,
    mujoco.mjtDyn.mjDYN_FILTEREXACT.value,
)
_FLAT = re.compile(r'mesh volume is too small: (\S+)')
MAX_SIZE = 5000  # bodies, geoms or degrees of freedom; far more than can be planned online


def load_scene(
    path: Path,
    visual: bool = False,
    root: Path | None = None,
    without: Sequence[str] = (),
    targets: Sequence[str] = (),
    without_gravcomp: Sequence[str] = (),
    not_simple: Iterable[tuple[str, str]] = (),
    edit: Callable[[mujoco.MjSpec, mujoco.MjModel], mujoco.MjModel] | None = None,
) -> mujoco.MjModel:
    """
    Return the compiled model of an MJCF file; SceneError if it is invalid.

    Automatic resets are disabled, so that diverged rollouts can be detected. Visual geoms are
    removed unless `visual` is set; they take a tenth of every physics step. Sky and light are
    added to visual models that have none. States are the same with and without them. All files
    must lie in the scene's folder or in `root` (see `mjcf_security`). Bodies in `without` are
    removed with their subtrees. Bodies in `targets` lose their joints and become mocap bodies.
    The weight of bodies in `without_gravcomp` is not compensated. Bodies in `not_simple`, (kind,
    name) of a body or a joint of it, are compiled so that their inertia and axes may change (see
    `compile_not_simple`). `edit` may change the compiled scene, and returns the model to use.
    """
    mjcf_security.check(path, root)
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        for name in without:
            spec.delete(_body(spec, name))
        for name in targets:
            body = _body(spec, name)
            for joint in list(body.joints):
                spec.delete(joint)
            body.mocap = True
        for name in without_gravcomp:
            _body(spec, name).gravcomp = 0.0
        compile_not_simple(spec, not_simple)
        # where inertias follow from all geoms, visual ones count
        inferred = (
            spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
        )
        spec.compiler.discardvisual = not (visual or inferred)
        if visual:
            _add_sky_and_light(spec)
        with warnings.catch_warnings():  # in models of other packages
            warnings.filterwarnings('ignore', 'compiler attribute .* is deprecated', UserWarning)
            model = _compile(spec)
            model = edit(spec, model) if edit else model
    except (SceneError, ValueError, MemoryError, *MUJOCO_ERRORS) as error:
        raise SceneError(f'{path}: {error}') from None
    if max(model.nbody, model.ngeom, model.nv) > MAX_SIZE:
        raise SceneError(
            f'{path}: {model.nbody} bodies, {model.ngeom} geoms and {model.nv} degrees of '
            f'freedom; at most {MAX_SIZE} of each'
        )
    check_activations(model, str(path))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    return model


def _compile(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a scene; meshes without a volume get the inertia of a shell, as MuJoCo advises."""
    while True:
        try:
            return spec.compile()
        except ValueError as error:
            flat = _FLAT.search(str(error))
            mesh = spec.mesh(flat[1]) if flat else None
            if mesh is None or mesh.inertia == mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL:
                raise
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL


def check_activations(model: mujoco.MjModel, where: str) -> None:
    """Raise SceneError if an actuator has an internal state other than that of a filter."""
    for actuator in range(model.nu):
        if model.actuator_dyntype[actuator] not in _FILTERS:
            kind = mujoco.mjtDyn(model.actuator_dyntype[actuator]).name.removeprefix('mjDYN_')
            raise SceneError(
                f'{where}: actuator {names(model, "actuator")[actuator]!r} has the internal state '
                f'of dyntype {kind.lower()!r}; expected none, filter or filterexact'
            )


def settle_activations(
    model: mujoco.MjModel, controls: npt.NDArray[np.float64], out: npt.NDArray[np.float64]
) -> None:
    """Write the activations (..., na) of filters that have settled at controls (..., nu)."""
    for actuator in np.flatnonzero(model.actuator_actadr >= 0):
        control = controls[..., actuator]
        if model.actuator_ctrllimited[actuator]:
            control = np.clip(control, *model.actuator_ctrlrange[actuator])
        out[..., model.actuator_actadr[actuator]] = control


def _body(spec: mujoco.MjSpec, name: str) -> mujoco.MjsBody:
    body = spec.body(name)
    if body is None or name == 'world':
        raise SceneError(unknown('body', name, [b.name for b in spec.bodies[1:] if b.name]))
    return body


def compile_not_simple(spec: mujoco.MjSpec, places: Iterable[tuple[str, str]]) -> None:
    """Compile bodies (kind, name), or those of joints, without the shortcut for fixed axes."""
    for kind, name in places:
        item = getattr(spec, kind)(name)
        body = item.parent if item is not None and kind == 'joint' else item
        if body is not None:
            body.simple = False


def _add_sky_and_light(spec: mujoco.MjSpec) -> None:
    """Add a sky to a scene without one, and a sun and more headlight to one without light."""
    skybox = mujoco.mjtTexture.mjTEXTURE_SKYBOX
    if not any(texture.type == skybox for texture in spec.textures):
        spec.add_texture(
            name='sky', type=skybox, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=(0.93, 0.95, 0.97), rgb2=(0.70, 0.77, 0.85), width=64, height=384,
        )  # fmt: skip
    if spec.lights:
        return
    spec.worldbody.add_light(
        pos=(0.0, 0.0, 10.0), dir=(0.3, 0.5, -1.0), diffuse=[0.4] * 3, specular=[0.1] * 3,
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
    )  # fmt: skip
    headlight = spec.visual.headlight
    headlight.ambient[:], headlight.diffuse[:], headlight.specular[:] = 0.4, 0.5, 0.1


def names(model: mujoco.MjModel, kind: str) -> list[str]:
    """Return the names of all objects of a kind, by id; unnamed objects have ''."""
    of, count = KINDS[kind]
    return [mujoco.mj_id2name(model, of, i) or '' for i in range(getattr(model, count))]


def find(model: mujoco.MjModel, kind: str, name: str) -> int:
    """Return the id of a named object; SceneError lists the existing names."""
    index = mujoco.mj_name2id(model, KINDS[kind][0], name)
    if index < 0:
        raise SceneError(unknown(kind, name, filter(None, names(model, kind))))
    return index


def find_frame(model: mujoco.MjModel, name: str) -> tuple[str, int]:
    """
    Return (kind, id) of a site, else a body, else a geom; `kind:name` selects one kind.

    Names may contain colons themselves, such as `body:robot0:palm`. Raises ConfigError for an
    unknown kind and SceneError for an unknown name.
    """
    kind, _, rest = name.partition(':')
    if kind in POSITION_FIELDS and rest:
        return kind, find(model, kind, rest)
    for kind_of in POSITION_FIELDS:
        if name in filter(None, names(model, kind_of)):
            return kind_of, find(model, kind_of, name)
    if rest:
        raise ConfigError(unknown('kind of frame', kind, POSITION_FIELDS))
    listed = [f'{k}:{n}' for k in POSITION_FIELDS for n in names(model, k) if n]
    raise SceneError(unknown('site, body or geom', name, listed))


def is_scalar(model: mujoco.MjModel, joint: int) -> bool:
    """Return whether a joint is a hinge or slide."""
    return int(model.jnt_type[joint]) in (HINGE, SLIDE)


def find_scalar(model: mujoco.MjModel, name: str) -> int:
    """Return the id of a hinge or slide; SceneError for other joints."""
    index = find(model, 'joint', name)
    if not is_scalar(model, index):
        raise SceneError(f'joint {name!r} is not a hinge or slide')
    return index


def actuators_of(model: mujoco.MjModel, joint: int) -> list[int]:
    """Return the actuators that drive a joint."""
    by_joint = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT.value
    return np.flatnonzero(by_joint & (model.actuator_trnid[:, 0] == joint)).tolist()


def free_bodies(model: mujoco.MjModel) -> list[str]:
    """Return the names of bodies with a free joint; unnamed bodies have ''."""
    return [names(model, 'body')[body] for body in model.jnt_bodyid[model.jnt_type == FREE]]


def start(model: mujoco.MjModel) -> npt.NDArray[np.float64]:
    """Return the first keyframe, else qpos0, with joints moved into their ranges (nq,)."""
    qpos = np.array(model.key_qpos[0] if model.nkey else model.qpos0)
    for joint in range(model.njnt):
        if is_scalar(model, joint) and model.jnt_limited[joint]:
            address = model.jnt_qposadr[joint]
            qpos[address] = np.clip(qpos[address], *model.jnt_range[joint])
    return qpos


def kinematics(model: mujoco.MjModel, qpos: npt.NDArray[np.float64]) -> mujoco.MjData:
    """Return data with the poses of all bodies and cameras in a configuration (nq,)."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)  # cameras may follow a centre of mass
    mujoco.mj_camlight(model, data)
    return data


def digest(model: mujoco.MjModel) -> str:
    """Return the SHA-256 hash of a compiled model."""
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return hashlib.sha256(buffer.data).hexdigest()

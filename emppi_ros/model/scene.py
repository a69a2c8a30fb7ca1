"""Loading an MJCF scene and finding what a task names in it."""

from pathlib import Path

import mujoco

from emppi_ros.errors import SceneError, unknown
from emppi_ros.model import confinement

KINDS = {
    'body': mujoco.mjtObj.mjOBJ_BODY,
    'joint': mujoco.mjtObj.mjOBJ_JOINT,
    'geom': mujoco.mjtObj.mjOBJ_GEOM,
    'site': mujoco.mjtObj.mjOBJ_SITE,
    'sensor': mujoco.mjtObj.mjOBJ_SENSOR,
    'actuator': mujoco.mjtObj.mjOBJ_ACTUATOR,
    'keyframe': mujoco.mjtObj.mjOBJ_KEY,
    'camera': mujoco.mjtObj.mjOBJ_CAMERA,
}
MOST = 5000  # bodies, geoms, degrees of freedom: far beyond what can be planned in time
_COUNTS = {
    'body': 'nbody',
    'joint': 'njnt',
    'actuator': 'nu',
    'keyframe': 'nkey',
    'camera': 'ncam',
}


def load_scene(path: Path, visual: bool = False, root: Path | None = None) -> mujoco.MjModel:
    """
    Return the compiled model, with automatic resets off: a diverged rollout must show.

    Geoms that are only looked at are left out unless it is for pictures (`visual`): they cost
    a tenth of every physics step. Bodies, joints and states are the same in both. All files
    must lie in the scene's own folder, or in `root` (see `confinement`).
    """
    confinement.check(path, root)
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        spec.compiler.discardvisual = not visual
        model = spec.compile()
    except (ValueError, mujoco.FatalError, mujoco.UnexpectedError, MemoryError) as error:
        raise SceneError(f'{path}: {error}') from None
    if max(model.nbody, model.ngeom, model.nv) > MOST:
        raise SceneError(
            f'{path}: {model.nbody} bodies, {model.ngeom} geoms and {model.nv} degrees of '
            f'freedom; at most {MOST} of each'
        )
    if model.na:
        raise SceneError(
            f'{path}: {model.na} actuator activations; only actuators without internal state '
            'can be planned from measurements'
        )
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    return model


def names(model: mujoco.MjModel, kind: str) -> list[str]:
    """Return the names of all objects of a kind, in id order ('' for unnamed ones)."""
    count = getattr(model, _COUNTS.get(kind, f'n{kind}'))
    return [mujoco.mj_id2name(model, KINDS[kind], i) or '' for i in range(count)]


def find(model: mujoco.MjModel, kind: str, name: str) -> int:
    """Return the id of a named object, or raise SceneError listing those that exist."""
    index = mujoco.mj_name2id(model, KINDS[kind], name)
    if index < 0:
        raise SceneError(unknown(kind, name, filter(None, names(model, kind))))
    return index


def is_scalar(model: mujoco.MjModel, joint: int) -> bool:
    """Return whether a joint is a hinge or a slide: one position, one velocity."""
    hinge, slide = mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value
    return int(model.jnt_type[joint]) in (hinge, slide)

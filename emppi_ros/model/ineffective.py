"""Uncertain parameters that cannot affect the motion of a scene, found without simulation."""

from collections.abc import Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import abbreviate
from emppi_ros.model import scene
from emppi_ros.model.parameters import Parameter

_DISABLE = mujoco.mjtDisableBit
_FLAGS = {  # of <option><flag>, by field
    'geom_friction': ('contact', _DISABLE.mjDSBL_CONTACT),
    'geom_solref': ('contact', _DISABLE.mjDSBL_CONTACT),
    'geom_solimp': ('contact', _DISABLE.mjDSBL_CONTACT),
    'geom_size': ('contact', _DISABLE.mjDSBL_CONTACT),
    'gravity': ('gravity', _DISABLE.mjDSBL_GRAVITY),
    'tilt': ('gravity', _DISABLE.mjDSBL_GRAVITY),
    'dof_frictionloss': ('frictionloss', _DISABLE.mjDSBL_FRICTIONLOSS),
    'dof_damping': ('damper', _DISABLE.mjDSBL_DAMPER),
    'jnt_stiffness': ('spring', _DISABLE.mjDSBL_SPRING),
}
_CONDIM = (3, 4, 6)  # the least contact dimension of sliding, torsional and rolling friction


def explain(model: mujoco.MjModel, parameters: Sequence[Parameter]) -> list[str]:
    """Return one sentence for each parameter without an effect, or without one at some geoms."""
    sentences = []
    for parameter in parameters:
        reason = ''
        flag, bit = _FLAGS.get(parameter.field, ('', None))
        if bit and model.opt.disableflags & bit.value:
            reason = f'{parameter.of!r} has no effect: the scene has <flag {flag}="disable"/>'
        elif parameter.field.startswith('body_'):
            reason = _explain_body(model, parameter)
        elif parameter.field.startswith('geom_') and parameter.field != 'geom_size':
            reason = _explain_contacts(model, parameters, parameter)
        if reason:
            sentences.append(f'parameters: {parameter.name}: {parameter.field} of {reason}')
    return sentences


def _explain_body(model: mujoco.MjModel, parameter: Parameter) -> str:
    body = scene.find(model, 'body', parameter.of)
    if parameter.field != 'body_pos':
        fixed = model.body_weldid[body] == 0
        return f'{parameter.of!r} has no effect: the body cannot move' if fixed else ''
    first = model.body_jntadr[body]
    if first >= 0 and model.jnt_type[first] == scene.FREE:
        return (
            f'{parameter.of!r} has no effect: the body has a free joint, which sets its position'
        )
    if model.body_mocapid[body] >= 0:
        return f'{parameter.of!r} has no effect: the body is a mocap body'
    return ''


def _explain_contacts(
    model: mujoco.MjModel, parameters: Sequence[Parameter], parameter: Parameter
) -> str:
    """Explain which contacts of a geom do not take its friction or softness."""
    geom = scene.find(model, 'geom', parameter.of)
    if model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_OVERRIDE.value:
        return f'{parameter.of!r} has no effect: the scene has <flag override="enable"/>'
    paired = _paired(model, geom)
    others = np.union1d(_touchable(model, geom), paired)
    if not len(others):
        return f'{parameter.of!r} has no effect: the geom collides with no other'
    names = scene.names(model, 'geom')
    priority, attribute = model.geom_priority[geom], parameter.field.removeprefix('geom_')
    in_pair = np.isin(others, paired)
    higher = ~in_pair & (model.geom_priority[others] > priority)
    reasons = {
        f'geoms of a <pair>, whose {attribute} counts (remove the pair to use that of the '
        'geoms)': in_pair,
        f'geoms of higher priority than its {priority}': higher,
    }
    if attribute == 'friction':
        decided = in_pair | higher
        reasons |= _explain_friction(model, parameters, parameter, geom, others, decided)
    without = np.any(list(reasons.values()), axis=0)
    # a robot's fingers often have a friction of their own
    fixed_to_world = model.body_weldid[model.geom_bodyid[others]] == 0
    if not without.all() and not np.any(without & (fixed_to_world | in_pair)):
        return ''
    listed = '; '.join(
        f'{reason}: {_list(model, names, others[rows])}'
        for reason, rows in reasons.items()
        if rows.any()
    )
    where = f'{parameter.of!r} has no effect in contact with {listed}'
    return where if without.all() else f'{where}; it has with others'


def _explain_friction(
    model: mujoco.MjModel,
    parameters: Sequence[Parameter],
    parameter: Parameter,
    geom: int,
    others: npt.NDArray[np.intp],
    decided: npt.NDArray[np.bool_],
) -> dict[str, npt.NDArray[np.bool_]]:
    """Return reasons and the geoms (others,) with contacts that take other or no friction."""
    names = scene.names(model, 'geom')
    uncertain = {p.of for p in parameters if p.field == 'geom_friction'}
    fixed = np.array([names[other] not in uncertain for other in others])
    friction = model.geom_friction[others, parameter.element]
    equal = model.geom_priority[others] == model.geom_priority[geom]
    # at equal priority MuJoCo takes the larger friction, and condim, of both
    larger = ~decided & equal & fixed & (friction >= parameter.upper)
    mine, theirs = model.geom_condim[geom], model.geom_condim[others]
    condim = np.where(equal, np.maximum(theirs, mine), mine)
    needed, upper = _CONDIM[parameter.element], parameter.upper
    return {
        f'geoms of more friction than its upper bound {upper:g}: the larger counts': larger,
        f'geoms with condim below {needed}': (condim < needed) & ~decided & ~larger,
    }


def _paired(model: mujoco.MjModel, geom: int) -> npt.NDArray[np.intp]:
    """Return the geoms whose contacts with a geom are of an explicit <pair>."""
    first, second = np.asarray(model.pair_geom1), np.asarray(model.pair_geom2)
    return np.concatenate([second[first == geom], first[second == geom]])


def _touchable(model: mujoco.MjModel, geom: int) -> npt.NDArray[np.intp]:
    """Return the geoms whose contacts with a geom MuJoCo detects by its filters."""
    weld, body = model.body_weldid, model.geom_bodyid
    mine = weld[body[geom]]
    parents = weld[model.body_parentid[weld]]  # of the body that each body is welded to
    bits = (model.geom_contype & model.geom_conaffinity[geom]) | (
        model.geom_contype[geom] & model.geom_conaffinity
    )
    touchable = (bits != 0) & (weld[body] != mine)
    if not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT.value:
        child = (parents[body] == mine) & (mine != 0)
        parent = (weld[body] == parents[body[geom]]) & (weld[body] != 0)
        touchable &= ~(child | parent)
    pairs = np.stack([model.exclude_signature >> 16, model.exclude_signature & 0xFFFF], axis=1)
    for excluded in pairs[(pairs == body[geom]).any(axis=1)]:
        touchable &= ~np.isin(body, excluded)
    return np.flatnonzero(touchable)


def _list(model: mujoco.MjModel, names: Sequence[str], geoms: npt.NDArray[np.intp]) -> str:
    """Return the names of geoms, or of their bodies, up to three."""
    bodies = scene.names(model, 'body')
    texts = list(
        dict.fromkeys(names[g] or f'geoms of {bodies[model.geom_bodyid[g]]}' for g in geoms)
    )
    return abbreviate(texts, 3)

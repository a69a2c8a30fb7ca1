"""Uncertain parameters that cannot affect the motion of a scene, found without simulation."""

from collections.abc import Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model import scene
from emppi_ros.model.parameters import Parameter

_CONDIM = (3, 4, 6)  # the least contact dimension of sliding, torsional and rolling friction


def explain(model: mujoco.MjModel, parameters: Sequence[Parameter]) -> list[str]:
    """Return one sentence for each parameter without an effect, or without one at some geoms."""
    sentences = []
    for parameter in parameters:
        reason = ''
        if parameter.field.startswith('body_'):
            reason = _explain_body(model, parameter)
        elif parameter.field == 'geom_friction':
            reason = _explain_friction(model, parameters, parameter)
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


def _explain_friction(
    model: mujoco.MjModel, parameters: Sequence[Parameter], parameter: Parameter
) -> str:
    """Explain which contacts of a geom take the friction of the other geom."""
    geom = scene.find(model, 'geom', parameter.of)
    others = _touchable(model, geom)
    if not len(others):
        return f'{parameter.of!r} has no effect: the geom collides with no other'
    priority, other_priority = model.geom_priority[geom], model.geom_priority[others]
    names = scene.names(model, 'geom')
    uncertain = {p.of for p in parameters if p.field == 'geom_friction'}
    fixed = np.array([names[other] not in uncertain for other in others])
    friction = model.geom_friction[others, parameter.element]
    higher, equal = other_priority > priority, other_priority == priority
    # at equal priority MuJoCo takes the larger friction, and condim, of both
    larger = equal & fixed & (friction >= parameter.upper)
    mine, theirs = model.geom_condim[geom], model.geom_condim[others]
    condim = np.select([equal, higher], [np.maximum(theirs, mine), theirs], mine)
    needed, upper = _CONDIM[parameter.element], parameter.upper
    frictionless = (condim < needed) & ~higher & ~larger
    reasons = {
        f'geoms of higher priority than its {priority}': higher,
        f'geoms of more friction than its upper bound {upper:g}: the larger counts': larger,
        f'geoms with condim below {needed}': frictionless,
    }
    without = np.any(list(reasons.values()), axis=0)
    # a robot's fingers often have a friction of their own
    fixed_to_world = model.body_weldid[model.geom_bodyid[others]] == 0
    if not without.all() and not np.any(without & fixed_to_world):
        return ''
    listed = '; '.join(
        f'{reason}: {_list(model, names, others[rows])}'
        for reason, rows in reasons.items()
        if rows.any()
    )
    where = f'{parameter.of!r} has no effect in contact with {listed}'
    return where if without.all() else f'{where}; it has with others'


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
    more = f' and {len(texts) - 3} others' if len(texts) > 3 else ''
    return ', '.join(texts[:3]) + more

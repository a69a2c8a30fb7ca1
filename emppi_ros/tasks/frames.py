"""Places that a task names: sites, bodies and geoms, where each is and how it is turned."""

import mujoco

from emppi_ros.core.errors import ConfigError, SceneError, unknown
from emppi_ros.model import scene

PLACES = {'site': 'site_xpos', 'body': 'xpos', 'geom': 'geom_xpos'}  # fields of MjData
FRAMES = {'site': 'site_xmat', 'body': 'xmat', 'geom': 'geom_xmat'}


def locate(model: mujoco.MjModel, name: str) -> tuple[str, int]:
    """
    Return (kind, id) of a site, else a body, else a geom; `kind:name` picks one kind.

    Names may have colons themselves, such as `body:robot0:palm`.
    """
    kind, _, rest = name.partition(':')
    if kind in PLACES and rest:
        return kind, scene.find(model, kind, rest)
    for kind_of in PLACES:
        if name in filter(None, scene.names(model, kind_of)):
            return kind_of, scene.find(model, kind_of, name)
    if rest:
        raise ConfigError(unknown('kind of place', kind, PLACES))
    listed = [f'{k}:{n}' for k in PLACES for n in scene.names(model, k) if n]
    raise SceneError(unknown('site, body or geom', name, listed))

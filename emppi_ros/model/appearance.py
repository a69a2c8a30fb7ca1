"""Sky and light of scenes that have none, so that pictures of them are not black."""

import mujoco

_SKY = (0.93, 0.95, 0.97), (0.70, 0.77, 0.85)  # above, below
_AMBIENT, _DIFFUSE, _SPECULAR = 0.4, 0.5, 0.1  # of the headlight, which is where the camera is
_SUN_DIRECTION, _SUN = (0.3, 0.5, -1.0), 0.4
_SUN_HEIGHT = 10.0  # m; a directional light has no distance


def add_sky_and_light(spec: mujoco.MjSpec) -> None:
    """Add a sky to a scene without one, and a sun and more headlight to one without light."""
    skybox = mujoco.mjtTexture.mjTEXTURE_SKYBOX
    if not any(texture.type == skybox for texture in spec.textures):
        spec.add_texture(
            name='sky',
            type=skybox,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=_SKY[0],
            rgb2=_SKY[1],
            width=64,
            height=384,
        )
    if spec.lights:
        return
    spec.worldbody.add_light(
        pos=(0.0, 0.0, _SUN_HEIGHT),
        dir=_SUN_DIRECTION,
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        diffuse=[_SUN] * 3,
        specular=[_SPECULAR] * 3,
    )
    headlight = spec.visual.headlight
    headlight.ambient[:] = _AMBIENT
    headlight.diffuse[:] = _DIFFUSE
    headlight.specular[:] = _SPECULAR

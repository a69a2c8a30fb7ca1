"""Keep MUJOCO_GL, which may name what is not installed, from failing the import of MuJoCo."""

import ctypes.util
import os
import sys
import warnings

VARIABLE = 'MUJOCO_GL'
_OFF, _ON = (
    ('', 'disable', 'disabled', 'off', 'false', '0'),
    ('enable', 'enabled', 'on', 'true', '1'),
)
_LIBRARIES = {'egl': 'EGL', 'osmesa': 'OSMesa'}


def drop_invalid() -> None:
    """Remove MUJOCO_GL from the environment, with a warning, if its value cannot be used."""
    value = os.environ.get(VARIABLE, '').lower().strip()
    if sys.platform != 'linux' or value in (*_OFF, *_ON, 'glfw', 'glx'):
        return
    library = _LIBRARIES.get(value)
    if library and ctypes.util.find_library(library):
        return
    reason = f'lib{library} is not installed' if library else 'expected egl, glfw or osmesa'
    warnings.warn(f'{VARIABLE}={value} is ignored: {reason}', RuntimeWarning, stacklevel=2)
    del os.environ[VARIABLE]

"""MUJOCO_GL that names what is not there costs a warning, not the import of MuJoCo."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ('value', 'match'), [('bogus', 'expected egl, glfw or osmesa'), ('glfw', ''), ('', '')]
)
def test_mujoco_is_imported_whatever_mujoco_gl_says(value, match):
    done = subprocess.run(
        [sys.executable, '-c', 'import emppi_ros.model.scene, os; print(os.environ["MUJOCO_GL"])'],
        env={**os.environ, 'MUJOCO_GL': value},
        capture_output=True,
        text=True,
        check=False,
    )
    if match:
        assert f'MUJOCO_GL={value} is ignored: {match}' in done.stderr
        assert 'KeyError' in done.stderr  # the variable is gone
    else:
        assert done.returncode == 0 and done.stdout.strip() == value

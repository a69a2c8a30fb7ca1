"""Identify the bodies of an arm, and control it with the torques that they need (mj_inverse)."""

import os
from pathlib import Path
import tempfile

import mujoco
import numpy as np

from emppi_ros.cli import main

folder = Path(tempfile.mkdtemp())
recording, identified = str(folder / 'run.csv'), str(folder / 'arm.xml')
# The recording: replace it by your own, along a motion of `emppi excite`.
length = ('--seed', '1', '--duration', os.environ.get('DURATION_S', '3'))
main(['run', 'fr3_follow', *length, '--record', recording])
words = ('--data', recording, '--task', 'fr3_follow', '--mjcf', identified)
main(['identify', '--method', 'rigid-body', *words])

model = mujoco.MjModel.from_xml_path(identified)
data = mujoco.MjData(model)
joints = slice(7)  # the arm's; a free body follows


def torque(position, velocity, acceleration):
    """Return what moves the arm like this; without gravity where the scene compensates it."""
    data.qpos[joints], data.qvel[joints], data.qacc[joints] = position, velocity, acceleration
    mujoco.mj_inverse(model, data)
    return data.qfrc_inverse[joints].copy()


# Each control cycle: the wanted acceleration plus a spring and a damper, at the measured state.
wanted = np.array([0.0, -0.7854, 0.0, -2.3562, 0.0, 1.5708, 0.7854]), np.zeros(7), np.ones(7)
measured = wanted[0] - 0.01, np.zeros(7)
feedback = 100.0 * (wanted[0] - measured[0]) + 20.0 * (wanted[1] - measured[1])
print('torque [N m]:', torque(*measured, wanted[2] + feedback).round(2))

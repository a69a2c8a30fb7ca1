"""Recordings as tables and as bags, and a pendulum to identify."""

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest

SWINGING = """
<mujoco><option timestep="{step_s}" integrator="implicitfast"/>
  <worldbody><body name="rod" pos="0 0 1"><joint name="hinge" type="hinge" axis="0 1 0"/>
    <inertial pos="0 0 -0.5" mass="1" diaginertia="0.02 0.02 0.02"/></body></worldbody></mujoco>"""
SWINGING_PLANT = """
scene: pendulum.xml
parameters:
  centre: {field: body_ipos, of: rod, element: 2, unit: m, initial: -0.5, lower: -1.0, upper: -0.2}
  damping: {field: dof_damping, of: hinge, unit: N m s/rad, initial: 0.1, lower: 0.0, upper: 0.5}
"""


@dataclasses.dataclass(frozen=True)
class Swing:
    """A folder with plant.yaml and swing.csv, and the true parameters."""

    folder: Path
    truth: dict

    @property
    def words(self):
        """Arguments of `emppi identify`."""
        return [
            '--model',
            str(self.folder / 'plant.yaml'),
            '--data',
            str(self.folder / 'swing.csv'),
        ]


@pytest.fixture
def record_swing(tmp_path):
    """Return a function that records a falling pendulum every few steps, with 2 mrad of noise."""

    def record(model_step_s, step_s, steps, every, damping):
        (tmp_path / 'pendulum.xml').write_text(SWINGING.format(step_s=model_step_s))
        (tmp_path / 'plant.yaml').write_text(SWINGING_PLANT)
        truth = {'centre': -0.6, 'damping': damping}
        model = mujoco.MjModel.from_xml_path(str(tmp_path / 'pendulum.xml'))
        model.body('rod').ipos[2], model.joint('hinge').damping[0] = truth.values()
        model.opt.timestep = step_s
        data = mujoco.MjData(model)
        data.qpos[0] = 1.5
        rows = []
        for step in range(steps):
            if step % every == 0:
                rows.append((data.time, data.qpos[0]))
            mujoco.mj_step(model, data)
        table = np.array(rows)
        table[:, 1] += 2e-3 * np.random.default_rng(0).standard_normal(len(table))
        np.savetxt(tmp_path / 'swing.csv', table, delimiter=',', comments='',
                   header='time_s,position/hinge [rad]')  # fmt: skip
        return Swing(tmp_path, truth)

    return record

"""Swing up your own MuJoCo cart-pole with a cost in Python, and learn the pole's mass."""

import os

import mujoco
import numpy as np

import emppi_ros as emppi

MODEL = mujoco.MjModel.from_xml_string("""
<mujoco>
  <option timestep="0.01" integrator="implicitfast"/>
  <worldbody>
    <body name="cart">
      <joint name="slider" type="slide" axis="1 0 0" range="-1.8 1.8" limited="true"/>
      <geom type="box" size="0.16 0.1 0.07" mass="1" contype="0" conaffinity="0"/>
      <body name="pole">
        <joint name="hinge" axis="0 1 0" damping="0.002"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size="0.03" mass="0.2" contype="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="slider" ctrlrange="-20 20" ctrllimited="true"/></actuator>
</mujoco>""")


def cost(x):
    """Cost of states: qpos and qvel (..., 2) to (...)."""
    upright = 1.0 - np.cos(x.qpos[..., 1])
    return 4 * upright + 0.5 * x.qpos[..., 0] ** 2 + 0.05 * (x.qvel**2).sum(axis=-1)


prior = emppi.Prior('uniform', lower=0.05, upper=0.6)  # kg
mass = emppi.ParameterConfig('body_mass', of='pole', prior=prior, lower=0.02, upper=1.0)
task = emppi.Task.from_model(MODEL, cost, {'pole_mass': mass}, start=[0.0, np.pi])
loop = emppi.ClosedLoop(task, seed=0, truth={'pole_mass': 0.3})
trace = loop.run(float(os.environ.get('DURATION_S', '6')))
belief = loop.filter.belief
print(f'angle {trace.frames[-1].qpos[1]:.2f} rad')
print(f'mass {np.exp(belief.log_weights) @ belief.theta[:, 0]:.2f} kg, truth 0.30 kg')

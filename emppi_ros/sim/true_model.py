"""
The model of the simulated robot: true parameters, and what no parameter of the task describes.

`simulation: joint_friction`, `gravity_tilt_rad` and `sizes` are differences that planner and
belief do not know.
"""

import copy
from dataclasses import fields

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import to_quaternion, to_rotation
from emppi_ros.model.ensemble import State
from emppi_ros.model.parameters import set_parameters
from emppi_ros.tasks.task import Task


def nominal_model(task: Task) -> mujoco.MjModel:
    """Return a copy of the task's model with the settings of its `simulation`."""
    model, settings = copy.copy(task.model), task.simulation
    model.opt.timestep = settings.timestep_s
    if settings.gravity_tilt_rad:
        # turned about -y: what pointed down points partly along x
        (x, y, z), angle = model.opt.gravity, settings.gravity_tilt_rad
        model.opt.gravity[:] = (
            np.cos(angle) * x - np.sin(angle) * z, y, np.sin(angle) * x + np.cos(angle) * z,
        )  # fmt: skip
    for joint, friction in settings.joint_friction.items():
        model.dof_frictionloss[model.dof_jntid == model.joint(joint).id] += friction
    for name, factor in settings.sizes.items():
        _scale(model, task.objects[name].body(model), factor)
    return model


def set_truth(model: mujoco.MjModel, nominal: mujoco.MjModel, task: Task, truth: Array) -> None:
    """Write true parameters (P,) into a copy of the nominal model; extra friction stays."""
    set_parameters(model, nominal, task.parameters, truth)
    friction = task.simulation.joint_friction
    for parameter in task.parameters:
        if parameter.field == 'dof_frictionloss' and parameter.of in friction:
            joint = model.joint(parameter.of).id
            model.dof_frictionloss[model.dof_jntid == joint] += friction[parameter.of]


def start_state(task: Task, rng: np.random.Generator) -> State:
    """
    Return the task's start state, with objects that start at random places.

    Objects of another size stand on what they stood on.
    """
    start = task.start()
    for name, ranges in task.simulation.starts.items():
        x, y, yaw, joint = (rng.uniform(*getattr(ranges, f.name)) for f in fields(ranges))
        if name in task.jointed:
            start.qpos[task.jointed[name].qpos] += joint
            continue
        place = task.objects[name].qpos
        start.qpos[place : place + 2] += x, y
        turned = Rotation.from_euler('z', yaw) * to_rotation(start.qpos[place + 3 : place + 7])
        start.qpos[place + 3 : place + 7] = to_quaternion(turned)
    if not task.simulation.sizes:
        return start
    data = mujoco.MjData(task.model)
    data.qpos[:] = start.qpos
    mujoco.mj_kinematics(task.model, data)
    for name, factor in task.simulation.sizes.items():
        item = task.objects[name]
        height = start.qpos[item.qpos + 2] - _lowest(task.model, data, item.body(task.model))
        start.qpos[item.qpos + 2] += (factor - 1.0) * height
    return start


def _scale(model: mujoco.MjModel, body: int, factor: float) -> None:
    """Scale a body about its origin; its mass stays."""
    geoms = model.geom_bodyid == body
    for field in (model.geom_size, model.geom_pos, model.geom_aabb, model.geom_rbound):
        field[geoms] *= factor
    model.site_pos[model.site_bodyid == body] *= factor
    model.body_ipos[body] *= factor
    model.body_inertia[body] *= factor**2
    first, count = model.body_bvhadr[body], model.body_bvhnum[body]
    model.bvh_aabb[first : first + count] *= factor


def _lowest(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> float:
    """Return the height of the lowest point of the boxes around a body's colliding geoms."""
    geoms = np.flatnonzero(
        (model.geom_bodyid == body) & ((model.geom_contype | model.geom_conaffinity) != 0)
    )
    rows = data.geom_xmat[geoms].reshape(-1, 3, 3)[:, 2]
    centre, half = model.geom_aabb[geoms].reshape(-1, 2, 3).transpose(1, 0, 2)
    lowest = data.geom_xpos[geoms, 2] + np.sum(rows * centre - np.abs(rows) * half, axis=1)
    return float(lowest.min())

"""Checks of a task beyond its keys and names: its priors, costs and models are computed."""

import math

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.fields import DELAY
from emppi_ros.priors import distributions
from emppi_ros.tasks.task import Task

# not tried: effects in contacts to come, at larger forces or later; few values, which may repeat
_NOT_TRIED = (
    'geom_friction', 'geom_solref', 'geom_solimp', 'geom_size', 'dof_frictionloss',
    'tendon_frictionloss', 'body_pos', 'jnt_type', DELAY,
)  # fmt: skip
_VALUES, _STEPS = 8, 10  # values of each parameter, and physics steps with them
_SPEED = 0.3  # rad/s or m/s: standard deviation of initial velocities, which move everything
_PUSH = 1.0  # rad/s^2 or m/s^2: standard deviation of what the forces on all joints cause
_ROUNDING = 1e-12  # rad, m, and per second
# of a plan with another physics step. In the tasks of the package joints are off by up to 12 % of
# their motion (a hand that closes), and objects in contact by up to 8 %
_FAR = 0.25  # share of the motion
_LEAST, _NOISES = 1e-3, 10.0  # rad or m of joints, and standard deviations of measured objects
_NEAR = 0.4  # share of the gap to an object that a sampled plan must move
_MOST_PAIRS, _FURTHEST = 2000, 2.0  # geoms to compare; m
_DIVERGED = 100.0  # rad or m
_MODELS, _LONGEST_S, _MOST_STEPS = 4, 1.0, 10_000
_DIVISORS = tuple(2**i for i in range(1, 10))


def validate(task: Task) -> Task:
    """Return the task if its priors can be sampled and its initial cost is finite."""
    rng = np.random.default_rng(0)
    for priors in (task.priors, task.truth):
        distributions.sample(task.parameters, priors, 2, rng)
    parameters = {parameter.name: parameter for parameter in task.parameters}
    for change in task.simulation.changes_when:
        change.to.sample(parameters[change.parameter], 2, rng)
    initial_cost(task)
    return task


def initial_cost(task: Task) -> dict[str, float]:
    """Return each cost term's norm(residual) in the initial state; ConfigError if not finite."""
    data = mujoco.MjData(task.model)
    data.qpos[:], data.qvel[:] = task.start()
    mujoco.mj_forward(task.model, data)
    cost = task.stages[0].cost
    values = cost.values({name: getattr(data, name) for name in cost.record})
    for name, value in values.items():
        if not np.isfinite(value):
            raise ConfigError(f'{task.where}: cost: {name}: is {value} in the initial state')
    return {name: float(value) for name, value in values.items()}


def without_effect(task: Task, seed: int = 0) -> list[str]:
    """
    Return one sentence for each parameter that changes no motion of its bodies and joints.

    Simulates random velocities, forces and controls in models sampled from the prior, and in the
    same with other values of each parameter.
    """
    rng, spread = np.random.default_rng(seed), task.prior.spread
    tried = [
        i
        for i, parameter in enumerate(task.parameters)
        if parameter.field not in _NOT_TRIED and not parameter.choices and spread[i] > 0.0
    ]
    if not tried:
        return []
    theta = np.repeat(task.prior.sample(_VALUES, rng)[None], 1 + len(tried), axis=0)
    for row, column in zip(theta[1:], tried, strict=True):
        row[:, column] = task.prior.sample(_VALUES, rng)[:, column]
    ensemble = Ensemble(task.model, task.parameters, len(theta) * _VALUES)
    ensemble.write(theta.reshape(-1, theta.shape[-1]))
    start = task.start()
    start.qvel[:] = rng.normal(0.0, _SPEED, task.model.nv)
    controls = np.repeat(_rest(task)[None], _STEPS, axis=0)
    limits, commanded = task.robot.control_limits(task.planner.step_s), task.map.ctrl
    ends = rng.uniform(limits.lower, limits.upper)
    controls[:, commanded] = np.linspace(controls[0, commanded], ends, _STEPS)
    push = task.model.dof_M0 * rng.normal(0.0, _PUSH, task.model.nv)
    fields = ensemble.rollout(
        start,
        np.broadcast_to(controls, (ensemble.models, 1, *controls.shape)),
        State._fields,
        np.broadcast_to(push, (ensemble.models, 1, _STEPS, task.model.nv)),
    ).fields
    motion = np.concatenate([fields['qpos'], fields['qvel']], axis=-1).reshape(len(theta), -1)
    same = np.all(np.abs(motion[1:] - motion[0]) < _ROUNDING, axis=1)  # false if NaN
    return [
        f'parameters: {p.name}: {p.field} of {p.of!r} has no effect: with {_VALUES} values of its '
        'prior all joints and objects move the same; leave it out, or correct `of` or `element`'
        for p in (task.parameters[i] for i, equal in zip(tried, same, strict=True) if equal)
    ]


def coarse_step(task: Task, seed: int = 0) -> str:
    """
    Return a sentence if the planner's physics step is too coarse for the scene; '' otherwise.

    Compares models sampled from the prior, whose controls move from rest to random limits, with
    the same at the step of the simulator, after one plan.
    """
    config, rng, step_s = task.planner, np.random.default_rng(seed), task.model.opt.timestep
    steps = min(config.horizon, math.ceil(_LONGEST_S / config.step_s))
    finest = math.ceil(step_s / task.simulation.timestep_s - _ROUNDING)
    finest = min(finest, _MOST_STEPS // (steps * config.substeps))
    if finest < 2:
        return ''
    ensemble = Ensemble(task.model, task.parameters, _MODELS)
    ensemble.write(task.prior.sample(_MODELS, rng))
    start, rest, commanded = task.start(), _rest(task), task.map.ctrl
    limits = task.robot.control_limits(config.step_s)
    ends = rng.uniform(limits.lower, limits.upper, (_MODELS, 1, len(commanded)))
    ramp = rest[commanded] + np.linspace(0.0, 1.0, steps)[:, None] * (ends - rest[commanded])
    controls = np.tile(rest, (_MODELS, steps, 1))
    controls[..., commanded] = limits.clip(ramp, rest[commanded])

    def positions(divisor: int) -> Array:
        held = np.repeat(controls, config.substeps * divisor, axis=1)
        return ensemble.predict(start, held, step_s / divisor).qpos

    fine = positions(finest)
    if not np.isfinite(fine).all():
        return ''
    moved, joints = _distances(task, fine - start.qpos), task.robot.joints
    # joints are compared with the one that moves most
    motion = moved | dict.fromkeys(joints, max(moved[joint] for joint in joints))
    least = dict.fromkeys(joints, _LEAST) | {
        name: _NOISES * (item.position_sd_m if name in task.objects else item.rotation_sd_rad)
        for name, item in task.tracked.items()
    }

    def far(divisor: int) -> tuple[str, float]:
        """Return the first joint or object that is off, and by how much; '' if none is."""
        for name, distance in _distances(task, positions(divisor) - fine).items():
            if not distance <= max(least[name], _FAR * motion[name]):  # true if NaN
                return name, distance
        return '', 0.0

    name, distance = far(1)
    if not name:
        return ''
    enough = next((d for d in _DIVISORS if d < finest and not far(d)[0]), finest)
    apart = f'is {distance:.2g} off' if distance < _DIVERGED else 'diverges'
    return (
        f'planner: step_s / substeps, the physics step ({step_s:g} s), is too coarse: after '
        f'{steps * config.step_s:.3g} s of motion {name!r} {apart} (it moved {moved[name]:.2g}), '
        f'compared with steps of {step_s / finest:.3g} s, as in `simulation`; use substeps: '
        f'{config.substeps * enough}'
    )


def _distances(task: Task, difference: Array) -> dict[str, float]:
    """Return the mean length [rad or m] of differences of qpos (M, nq), by joint and object."""
    rows = dict(zip(task.robot.joints, task.map.qpos[:, None], strict=True))
    rows |= {name: item.qpos + np.arange(3) for name, item in task.objects.items()}
    rows |= {name: np.array([item.qpos]) for name, item in task.jointed.items()}
    return {
        name: float(np.linalg.norm(difference[:, places], axis=1).mean())
        for name, places in rows.items()
    }


def short_noise(task: Task, seed: int = 0) -> str:
    """
    Return a sentence if sampled plans hardly bring the robot nearer to any free object; else ''.

    Compares the largest motion of a point of the robot in one set of sampled plans with the gap
    between them in the start state. In the tasks of the package the ratio is at least 0.57.
    """
    model, config, start = task.model, task.planner, task.start()
    joints = np.isin(np.arange(model.nv), task.map.qvel)
    moves = np.isin(model.body_rootid, model.body_rootid[model.dof_bodyid[joints]])
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    bodies = {item.body(model): name for name, item in task.objects.items()}
    robot = np.flatnonzero(moves[model.geom_bodyid] & collides).tolist()
    objects = np.flatnonzero(np.isin(model.geom_bodyid, list(bodies)) & collides).tolist()
    if not robot or not objects or len(robot) * len(objects) > _MOST_PAIRS:
        return ''
    data = scene.kinematics(model, start.qpos)
    gap, name = min(
        (mujoco.mj_geomDistance(model, data, a, b, _FURTHEST, None), bodies[model.geom_bodyid[b]])
        for a in robot
        for b in objects
    )
    rest, commanded = _rest(task), task.map.ctrl
    shape = (1, config.models * config.rollouts, config.horizon, len(commanded))
    spread = np.sqrt(config.variance(len(commanded)))
    noise = np.random.default_rng(seed).normal(0.0, spread, shape)
    plans = task.robot.control_limits(config.step_s).clip(rest[commanded] + noise, rest[commanded])
    ensemble = Ensemble(model, task.parameters, 1, shape[1])
    ensemble.write(task.prior.mean()[None])
    controls = task.map.controls(np.repeat(plans, config.substeps, axis=2))
    places = ensemble.rollout(start, controls, ['geom_xpos']).fields['geom_xpos'][..., robot, :]
    moved = float(np.linalg.norm(places - data.geom_xpos[robot], axis=-1).max())
    if not moved < _NEAR * gap:  # false if NaN
        return ''
    return (
        f'planner: noise_variance: sampled plans move the robot by at most {moved:.2g} m, and '
        f'{name!r} is {gap:.2g} m away: no plan may find the contact; raise noise_variance, '
        'horizon or step_s'
    )


def diverged_share(task: Task, seed: int = 0) -> float:
    """
    Return the share of models that diverge at rest, with parameters sampled from the prior.

    Simulates one plan of each model of the planner from the initial state, and writes true values,
    too. ConfigError if every model diverges; ParameterError or SceneError if MuJoCo rejects one.
    """
    config, rng = task.planner, np.random.default_rng(seed)
    ensemble = Ensemble(task.model, task.parameters, config.models, 1, config.threads)
    ensemble.write(distributions.sample(task.parameters, task.truth, config.models, rng))
    ensemble.write(task.prior.sample(config.models, rng))
    steps = config.horizon * config.substeps
    controls = np.broadcast_to(_rest(task), (config.models, 1, steps, task.model.nu))
    diverged = ensemble.rollout(task.start(), controls, ('qpos',)).diverged
    if diverged.all():
        raise ConfigError(
            f'{task.where}: all {config.models} models with parameters sampled from the prior '
            f'diverge within {steps * task.model.opt.timestep:g} s at rest from the initial '
            'state: check the scene, `parameters`, and planner: step_s / substeps, the physics '
            f'step ({task.model.opt.timestep:g} s)'
        )
    return float(np.mean(diverged))


def _rest(task: Task) -> Array:
    """Return the controls (nu,) at rest in the initial state."""
    rest = np.zeros(task.model.nu)
    if task.robot.command == 'position':
        home = np.array(task.robot.home)
        rest[task.map.ctrl] = task.commanded_state(home, np.zeros_like(home))[0]
    return rest

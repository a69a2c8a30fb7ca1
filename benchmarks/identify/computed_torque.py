"""
Family `computed-torque`: the bodies of a Panda from a recording, and control with them.

After Ting et al. (2006), Tables I and II. Bodies and viscous friction of the simulated arm are
drawn with the seed. All methods estimate 11 parameters of each link from the same samples, in
units of their noise; `-projected` ones are the closest physically consistent bodies (eq. 8).
"""

import copy
import functools
from typing import NamedTuple

import mujoco
import numpy as np

from benchmarks.identify import joint_factors
from benchmarks.identify.baselines import REGRESSIONS, scaled
from benchmarks.identify.cells import Family, Values
from emppi_ros.core.arrays import Array
from emppi_ros.core.paths import ASSETS, SceneFile
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.rigid_body import arm, body_posterior, excitation, inference
from emppi_ros.identification.rigid_body import recordings as arm_recordings
from emppi_ros.identification.rigid_body.arm import ARMATURE, BODY_PARAMETERS, FRICTION
from emppi_ros.identification.rigid_body.composite_bodies import composite_parts, transform_inertia
from emppi_ros.identification.rigid_body.torque_fit import RigidBodyOptions
from emppi_ros.model import scene
from emppi_ros.recordings.recordings import Recording
from emppi_ros.recordings.signals import Signal
from emppi_ros.robots.robot import load_robot

NOISE = {'1e-5 rad, 0.1 N m': (1e-5, 0.1), '1e-4 rad, 0.5 N m': (1e-4, 0.5),
         '1e-3 rad, 2 N m': (1e-3, 2.0)}  # fmt: skip
PERIOD_S, RATE_HZ = 10.0, 500.0  # of the motions, and of the recording
STIFFNESS, DAMPING = 100.0, 20.0  # 1/s^2, 1/s: critically damped; soft, so that the model matters
PHYSICS_S, CYCLE = 1e-3, 4  # of the simulated control: steps per cycle
EFFORT = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])  # N m, as of a Panda
LOST = 1.0  # rad
OURS, TRUE, SCENE, NONE = 'rigid-body', 'true', 'scene', 'none'
FILE = ASSETS / 'panda.xml'
BASELINES = [f'{name}-projected' for name in ('OLS', 'ridge', 'LASSO', 'stepwise', 'factors')]
OPTIONS = RigidBodyOptions('unknown', 'viscous', 'known', 'none')
_ROTORS = slice(ARMATURE, None, BODY_PARAMETERS)


class Experiment(NamedTuple):
    """An arm, its recording, and another motion to follow."""

    true: mujoco.MjModel
    plant: Plant
    recorded: arm_recordings.RecordedArm
    wanted: Array  # (3, n, nv) of each control cycle


def draw_arm(rng: np.random.Generator) -> mujoco.MjModel:
    """Return a Panda whose links are not those of its scene: sheared, shifted and scaled."""
    model = arm.load(FILE)
    rows = arm.model_parameters(model).reshape(-1, BODY_PARAMETERS)
    for row in rows:
        change = np.eye(4)
        change[:3] += rng.standard_normal((3, 4)) * [0.2, 0.2, 0.2, 0.02]
        row[:10] = np.exp(0.4 * rng.standard_normal()) * transform_inertia(row[:10], change)
        row[FRICTION] *= np.exp(0.4 * rng.standard_normal())
    return arm.with_parameters(model, rows.ravel())


@functools.lru_cache(maxsize=1)
def experiment(case: str, seed: int) -> Experiment:
    """Return the experiment of a seed with the noise of a case."""
    rng = np.random.default_rng(seed)
    true, robot = draw_arm(rng), load_robot('panda')
    limits, share = robot.limits, robot.dynamics_factor
    bounds = excitation.MotionLimits(
        *map(np.array, (limits.position.lower, limits.position.upper)),
        *(share * np.array(most) for most in (limits.velocity, limits.acceleration)),
    )
    motion, other = (excitation.random_motion(bounds, PERIOD_S, rng) for _ in range(2))
    time = np.arange(0.0, PERIOD_S, 1.0 / RATE_HZ)
    states = excitation.evaluate_motion(motion, time)
    kinds = ('position', 'rad', states[0]), ('effort', 'N m', arm.motion_torques(true, states))
    signals = {
        (kind, name): Signal(kind, name, unit, time, values, kind)
        for (kind, unit, clean), sd in zip(kinds, NOISE[case], strict=True)
        for name, values in zip(
            scene.names(true, 'joint'),
            (clean + sd * rng.standard_normal(clean.shape)).T,
            strict=True,
        )
    }
    whole = mujoco.MjModel.from_xml_path(str(FILE))
    plant = Plant(whole, (), lambda *_: None, scene=SceneFile(FILE))
    recorded = arm_recordings.read(plant, Recording(signals, ()), armature=False)
    # the hand is a part of the last link, and not known either
    recorded = recorded._replace(parts=composite_parts(recorded.model))
    cycles = np.arange(0.0, PERIOD_S, CYCLE * PHYSICS_S)
    return Experiment(true, plant, recorded, excitation.evaluate_motion(other, cycles))


def estimate(given: Experiment, method: str) -> Array:
    """Return the parameters (12 B,) of a method."""
    model, training = given.recorded.model, given.recorded.recordings[0].training
    if method in (TRUE, SCENE, NONE):
        return (method != NONE) * arm.model_parameters(given.true if method == TRUE else model)
    if method == OURS:
        return inference.identify_bodies(given.plant, given.recorded, OPTIONS).fit.parameters
    weight = 1.0 / np.broadcast_to(training.noise.torque, training.samples.torque.shape).ravel()
    x = arm.regressor(model, *training.samples.states) * weight[:, None]
    x[:, _ROTORS] = 0.0
    y = training.samples.torque.ravel() * weight
    name = method.removesuffix('-projected')
    factors = scaled(lambda x, y: joint_factors.fit(x, y, bayesian=True).coefficients(noisy=False))
    bodies = REGRESSIONS.get(name, factors)(x, y)
    return project(bodies, x.T @ x) if name != method else bodies


def project(bodies: Array, metric: Array) -> Array:
    """Return the physically consistent bodies (12 B,) closest to others, up to a tiny prior."""
    like = np.tile(body_posterior.PRIOR.parameters(), len(bodies) // BODY_PARAMETERS)
    free, fixed = np.ones(len(bodies), np.bool_), np.zeros(len(bodies))
    free[_ROTORS], fixed[_ROTORS] = False, -like[_ROTORS]
    prior = body_posterior.PRIOR._replace(weight=1e-4)
    constraints = body_posterior.BodyConstraints(like, fixed, free)
    return body_posterior.fit_bodies(metric, metric @ bodies, prior, constraints)


def count_impossible(bodies: Array) -> int:
    """Return how many bodies of (12 B,) are not physically consistent, rounding aside."""
    rows = bodies.reshape(-1, BODY_PARAMETERS)
    least = np.array([np.linalg.eigvalsh(arm.pseudo_inertia(row))[0] for row in rows])
    size = 1e-9 * np.abs(rows[:, :10]).max(axis=1)
    return int(np.sum((least < -size) | (rows[:, FRICTION] < 0.0)))


def follow(true: mujoco.MjModel, bodies: Array, wanted: Array) -> Values:
    """
    Return rms errors under computed torque, averaged over joints; nothing if the motion is lost.

    Without a model, a constant inertia of each joint, that at the start, scales the feedback.
    """
    plant, belief = copy.copy(true), arm.with_parameters(true, bodies)
    plant.opt.timestep = PHYSICS_S
    data = mujoco.MjData(plant)
    data.qpos[:], data.qvel[:] = wanted[:2, 0]
    mujoco.mj_forward(plant, data)
    inertia = np.empty((plant.nv, plant.nv))
    mujoco.mj_fullM(plant, data, inertia)
    rows = []
    for position, velocity, acceleration in np.swapaxes(wanted, 0, 1):
        error, slow = position - data.qpos, velocity - data.qvel
        if not np.abs(error).max() < LOST:
            return {}
        wish = STIFFNESS * error + DAMPING * slow
        moved = [(value, value) for value in (data.qpos, data.qvel)]
        moved.append((acceleration, acceleration + wish))
        forward, torque = arm.motion_torques(belief, np.array(moved))
        feedback = torque - forward
        if not bodies.any():
            forward, feedback = 0.0 * forward, np.diag(inertia) * wish
        data.qfrc_applied[:] = np.clip(forward + feedback, -EFFORT, EFFORT)
        rows.append((error, slow, feedback))
        mujoco.mj_step(plant, data, CYCLE)
    rms = np.sqrt(np.mean(np.square(rows), axis=0)).mean(axis=1)
    return dict(zip(('position', 'velocity', 'feedback'), rms.tolist(), strict=True))


def measure(case: str, method: str, seed: int) -> Values:
    """Return errors of torques and of control along another motion."""
    given = experiment(case, seed)
    bodies = estimate(given, method)
    states = given.wanted[:, ::10]
    true = arm.motion_torques(given.true, states)
    error = arm.regressor(given.true, *states) @ bodies - true.ravel()
    torque = np.sqrt(np.mean(error.reshape(true.shape) ** 2, axis=0)).mean()
    tracked = follow(given.true, bodies, given.wanted)
    return {'torque': float(torque), 'impossible': float(count_impossible(bodies)), **tracked}


FAMILY = Family(
    'identified bodies of a Panda, and computed torque with them',
    tuple(NOISE),
    {
        TRUE: 'the true bodies; what is left comes from torques that are held for a cycle',
        SCENE: 'those of the scene, which are not those of the arm',
        NONE: 'no model: feedback alone',
        OURS: '`emppi identify --method rigid-body --links unknown`, with a weak prior about the '
        'links of the scene',
        **dict.fromkeys(('OLS', 'LASSO', 'stepwise', *BASELINES), ''),
    },
    {
        'position': 'position error [rad]',
        'velocity': 'velocity error [rad/s]',
        'feedback': 'feedback torque [N m]',
        'torque': 'error of torques along the motion [N m]',
        'impossible': 'impossible bodies of seven',
    },
    measure,
    ((OURS, 'position'), (OURS, 'feedback'), (OURS, 'torque')),
    BASELINES,
    [
        'emppi_ros/identification/rigid_body/*.py', 'emppi_ros/model/assets/panda.xml',
        *(f'benchmarks/identify/{name}.py' for name in (
            'baselines', 'computed_torque', 'joint_factors',
        )),
    ],
)  # fmt: skip

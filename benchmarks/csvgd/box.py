"""
A Panda shakes a box on a universal joint (Heiden et al. 2022, supplement, Sec. 2.5), simulated.

Only four points of the box are measured: its origin, and those 1 m from it along its axes. In
phase I its inertia matrix, centre of mass and two frictions are unknown, in phase II the places of
two weights on its bottom. Either weight may be the first, so that the posterior has two modes.
"""

from dataclasses import replace
import functools

import mujoco
import numpy as np
from scipy.signal import savgol_filter

from benchmarks.csvgd.sample_metrics import log_density
from benchmarks.csvgd.simulation import roll_out
from emppi_ros.core.arrays import Array
from emppi_ros.core.paths import ASSETS
from emppi_ros.identification.multiple_shooting.training_data import (
    ShootingProblem,
    TrackedPoints,
)
from emppi_ros.model.parameters import Parameter, with_parameters

FILE = ASSETS / 'panda.xml'
BOX_MASS_KG, WEIGHT_KG, BOTTOM_M = 0.92, 0.5, 0.4
BOX_STEPS, BOX_STEP_S = 240, 0.01
POINT_SD_M = 0.0005
NEAR_M = 0.02  # of a weight to its place: two standard deviations of the posterior
LEAST_APART_M = 0.1  # of the two weights
SITES = 'origin', 'x', 'y', 'z'
_HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])  # the hand points down
_MOUNT = 0.165  # m, of the universal joint in front of the hand
_STIFFNESS = (3000.0,) * 4 + (600.0,) * 3  # N m/rad
_SPEED = 0.26  # rad/s: a tenth of the joints' limit, as in the paper
# joints 6 and 7 go to offsets of 0.1 and -0.1 rad, in sequence; then those that are held out
_OFFSETS = ((5, 0.1), (6, 0.1), (5, -0.1), (6, -0.1))
_HELD_OUT = ((6, -0.1), (5, -0.1), (6, 0.1), (5, 0.1))
_SMOOTHED = 15  # samples, for velocities


@functools.cache
def _model() -> mujoco.MjModel:
    """Return the arm with the box; weights have mass in phase II only."""
    spec = mujoco.MjSpec.from_file(str(FILE))
    spec.option.timestep = BOX_STEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for actuator, stiffness in zip(spec.actuators, _STIFFNESS, strict=True):
        actuator.set_to_position(kp=stiffness, kv=0.1 * stiffness)
        actuator.ctrllimited = False
    box = spec.body('panda_hand').add_body(name='box', pos=[0.0, 0.0, _MOUNT])
    for axis, direction in zip('xy', np.eye(3), strict=False):
        box.add_joint(name=f'swing {axis}', axis=direction, damping=0.05)
    box.explicitinertial, box.mass = True, BOX_MASS_KG
    box.ipos, box.fullinertia = [0.0, 0.0, 0.25], [0.07, 0.07, 0.07, 0.0, 0.0, 0.0]
    for name, place in zip(SITES, np.vstack([np.zeros(3), np.eye(3)]), strict=True):
        box.add_site(name=name, pos=place)
    for number in (1, 2):
        weight = box.add_body(name=f'weight {number}', pos=[0.0, 0.0, BOTTOM_M])
        weight.explicitinertial, weight.mass, weight.inertia = True, 1e-9, np.full(3, 1e-12)
    return spec.compile()


def _elements(
    field: str, name: str, rows: list[tuple[str, float, float]], unit: str
) -> list[Parameter]:
    return [
        Parameter(f'{name} {element}', field, 'box', i, lower, upper, unit)
        for i, (element, lower, upper) in enumerate(rows)
    ]


EMPTY_BOX = (  # Table 3 a
    *_elements('body_fullinertia', 'inertia', [
        ('xx', 0.05, 0.1), ('yy', 0.05, 0.1), ('zz', 0.05, 0.1),
        ('xy', -0.01, 0.01), ('xz', -0.01, 0.01), ('yz', -0.01, 0.01),
    ], 'kg m^2'),
    *_elements('body_ipos', 'centre', [
        ('x', -0.005, 0.005), ('y', -0.005, 0.005), ('z', 0.1, 0.4),
    ], 'm'),
    *(
        Parameter(f'friction {axis}', 'dof_damping', f'swing {axis}', 0, 0.0, 0.15, 'N m s/rad')
        for axis in 'xy'
    ),
)  # fmt: skip
WEIGHTS = tuple(  # Table 3 b
    Parameter(f'weight {number} {axis}', 'body_pos', f'weight {number}', i, -size, size, 'm')
    for number in (1, 2)
    for i, (axis, size) in enumerate((('x', 0.14), ('y', 0.08)))
)


def _targets(motion: tuple[tuple[int, float], ...]) -> Array:
    """Return the wanted positions (T, 7) of the arm, at a limited speed."""
    targets = np.tile(_HOME, (BOX_STEPS, 1))
    count = BOX_STEPS // len(motion)
    for part, (joint, offset) in enumerate(motion):
        targets[part * count :, joint] = _HOME[joint] + offset
    step = _SPEED * BOX_STEP_S
    for k in range(1, BOX_STEPS):
        targets[k] = np.clip(targets[k], targets[k - 1] - step, targets[k - 1] + step)
    targets[0] = _HOME
    return targets


def simulate_points(problem: ShootingProblem, theta: Array, controls: Array) -> Array:
    """Return the positions (N, T, 4, 3) [m] of the points before each step, for (N, P)."""
    fields = roll_out(
        problem.model, problem.parameters, theta, problem.start, controls, ('site_xpos',)
    )
    return fields['site_xpos'][:, :, problem.sites]


def _draw(parameters: tuple[Parameter, ...], rng: np.random.Generator) -> Array:
    lower, upper = np.array([[p.lower, p.upper] for p in parameters]).T
    return rng.uniform(lower, upper)


def draw_box(rng: np.random.Generator) -> Array:
    """Return an empty box (11,) that a rigid body can be, uniform in the limits of Table 3 a."""
    while True:
        theta = _draw(EMPTY_BOX, rng)
        xx, yy, zz, xy, xz, yz = theta[:6]
        moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        if moments[0] + moments[1] >= moments[2]:
            return theta


def draw_weights(rng: np.random.Generator) -> Array:
    """Return places (4,) of two weights that are apart, uniform in the limits of Table 3 b."""
    while True:
        theta = _draw(WEIGHTS, rng)
        if np.hypot(*(theta[:2] - theta[2:])) >= LEAST_APART_M:
            return theta


@functools.cache
def box_problem(phase: int, seed: int) -> tuple[ShootingProblem, Array]:
    """Return the problem of phase 1 or 2, and its truth; phase 2 knows the empty box."""
    rng = np.random.default_rng([seed, 0])
    empty, placed = draw_box(rng), draw_weights(rng)
    model, parameters, truth = _model(), EMPTY_BOX, empty
    if phase == 2:
        model = with_parameters(model, EMPTY_BOX, empty)
        for name in ('weight 1', 'weight 2'):
            model.body(name).mass[0] = WEIGHT_KG
            model.body(name).inertia[:] = 1e-4
        mujoco.mj_setConst(model, mujoco.MjData(model))
        parameters, truth = WEIGHTS, placed
    start = np.concatenate([_HOME, np.zeros(2 + 9)])
    controls = _targets(_OFFSETS)
    nothing = np.zeros((BOX_STEPS, 18))
    problem = ShootingProblem(
        model, parameters, start, controls, nothing, np.full(18, np.inf),
    )  # fmt: skip
    unknown = TrackedPoints(SITES, np.full((BOX_STEPS, 4, 3), np.nan), POINT_SD_M)
    problem = replace(problem, points=unknown)
    clean = simulate_points(problem, truth[None], controls)[0]
    measured = clean + POINT_SD_M * rng.standard_normal(clean.shape)
    points = TrackedPoints(SITES, measured, POINT_SD_M)
    guess = _guess_states(model, controls, measured)
    return replace(problem, points=points, references=guess), truth


def _guess_states(model: mujoco.MjModel, controls: Array, points: Array) -> Array:
    """
    Return the states (T, 18) after each step that targets of the arm and points suggest.

    They are where searches with several windows begin, and are no measurements.
    """
    data, hand = mujoco.MjData(model), model.body('panda_hand').id
    qpos = np.zeros((len(controls), model.nq))
    qpos[:, :7] = controls
    for row, place in zip(qpos, points, strict=True):
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        turned = data.xmat[hand].reshape(3, 3).T @ (place[1:] - place[0]).T
        # about x, then about y
        row[7:] = np.arctan2(turned[2, 1], turned[1, 1]), np.arctan2(turned[0, 2], turned[0, 0])
    qpos[:, 7:] = savgol_filter(qpos[:, 7:], _SMOOTHED, 3, axis=0)
    qpos = np.append(qpos[1:], qpos[-1:], axis=0)  # points are those before a step
    return np.concatenate([qpos, np.gradient(qpos, BOX_STEP_S, axis=0)], axis=1)


def judge_intervals(theta: Array, truth: Array) -> dict[str, float]:
    """Return how many 90 % intervals of particles (N, P) contain the truth (P,), and errors."""
    # with these quantiles, intervals of few draws contain 90 % of new ones
    low, high = np.quantile(theta, [0.05, 0.95], axis=0, method='weibull')
    limits = np.array([(p.lower, p.upper) for p in EMPTY_BOX])
    width = (high - low) / (0.9 * np.ptp(limits, axis=1))
    inside = (low <= truth) & (truth <= high)
    errors = np.abs(np.median(theta, axis=0) - truth)
    groups = {'inertia': slice(0, 6), 'centre': slice(6, 9), 'friction': slice(9, 11)}
    return {
        'inside': float(inside.sum()),
        'of': float(len(truth)),
        **{f'inside_{name}': float(inside[rows].sum()) for name, rows in groups.items()},
        **{f'width_{name}': float(width[rows].mean()) for name, rows in groups.items()},
        'centre_mm': 1e3 * float(errors[6:9].max()),
        'inertia_percent': 100.0 * float((errors[:3] / truth[:3]).max()),
        'friction_percent': 100.0 * float((errors[9:] / truth[9:]).max()),
    }


def judge_weights(theta: Array, truth: Array) -> dict[str, float]:
    """
    Return the shares of particles (N, 4) whose nearest mode is the truth (4,) or its exchange.

    `near` are those whose weights are both within NEAR_M of their places in one of the modes;
    `distance_mm` is the median over particles of the rms distance of both weights.
    """
    modes = np.stack([truth, np.roll(truth, 2)])
    apart = np.linalg.norm((theta[:, None] - modes).reshape(len(theta), 2, 2, 2), axis=-1)
    distances = np.sqrt(np.mean(apart**2, axis=2))
    near = np.all(apart < NEAR_M, axis=2)
    first = distances[:, 0] <= distances[:, 1]
    return {
        'first': float(first.mean()),
        'near_first': float(near[:, 0].mean()),
        'near_second': float(near[:, 1].mean()),
        'distance_mm': 1e3 * float(np.median(distances.min(axis=1))),
    }


def forecast_box(
    problem: ShootingProblem, theta: Array, truth: Array, seed: int
) -> dict[str, float]:
    """Return the log density of points in a motion that was held out, and their rms error."""
    controls = _targets(_HELD_OUT)
    exact = simulate_points(problem, truth[None], controls)[0]
    rng = np.random.default_rng([seed, 2])
    measured = exact + POINT_SD_M * rng.standard_normal(exact.shape)
    predicted = simulate_points(problem, theta, controls)
    value = log_density(
        measured.ravel() / POINT_SD_M, predicted.reshape(len(theta), -1) / POINT_SD_M
    )
    error = np.sqrt(np.mean((predicted - exact) ** 2))
    return {'log_density': value, 'forecast_mm': 1e3 * float(error)}

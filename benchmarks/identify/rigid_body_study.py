"""Study `rigid-body`: the bodies of a Panda by regressions and by our method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import itertools
from typing import Any, ClassVar, Literal

import mujoco
import numpy as np
import numpy.typing as npt

from benchmarks.identify import (
    arm_experiment,
    bayesian_factor_analysis,
    errors_in_variables,
    payload_study,
    regression_study,
)
from benchmarks.identify.arm_experiment import PERIOD_S, ArmStudySetup
from benchmarks.identify.study import Study, StudySettings
from emppi_ros.core.config import key
from emppi_ros.core.paths import ASSETS
from emppi_ros.identify.rigid_body import (
    arm,
    body_posterior,
    excitation_trajectory,
    motion_samples,
    physical_consistency,
    torque_fit,
)
from emppi_ros.identify.rigid_body.excitation_trajectory import FourierMotion
from emppi_ros.identify.rigid_body.regressor import model_parameters, regressor

Array = npt.NDArray[np.float64]
Regression = Callable[[Array, Array], Array]
OURS, TRUTH = 'ours', 'truth'
PROJECTED = ('OLS', 'ridge', 'factors')
_RANK = 1e-8  # relative to the largest singular value: smaller is rounding
LEVELS = (0.02, 0.1, 0.3)
TORQUE_NOISE = 0.05
PERIODS, ROWS = 2, 400
_TEST = 200  # samples of the test motion
RIDGES = ('ridge', 'ridge, projected')  # baselines of tracking


def without_offset(method: Regression) -> Regression:
    """
    Return the regression without an intercept, as torques of bodies have none.

    Each row is followed by its negative, so that cross-validation keeps both in the same fold.
    """

    def regress(x: Array, y: Array) -> Array:
        used = np.abs(x).max(axis=0) > _RANK * np.abs(x).max()  # others are always zero
        signs = np.tile([1.0, -1.0], len(y))
        coefficients = np.zeros(x.shape[1])
        rows = signs[:, None] * np.repeat(x[:, used], 2, axis=0)
        coefficients[used] = method(rows, signs * np.repeat(y, 2))
        return coefficients

    return regress


def weighted_regression(
    model: mujoco.MjModel,
    recording: motion_samples.MotionSamples,
    noise: motion_samples.MotionNoise,
) -> tuple[Array, Array]:
    """Return a regressor (n nv, 12 B), without rotors, and torques, in units of their noise."""
    weight = 1.0 / np.tile(noise.torque, len(recording.torque))
    rows = regressor(model, *recording.states)
    rows[:, physical_consistency.ARMATURE :: physical_consistency.BODY_PARAMETERS] = 0.0
    return rows * weight[:, None], recording.torque.ravel() * weight


def estimate_all(
    model: mujoco.MjModel, recording: motion_samples.MotionSamples
) -> dict[str, Array]:
    """
    Return the parameters (12 B,) of each method from the same noisy samples.

    All methods get torques in units of their estimated noise; ours also gets the estimated noise
    of the motion.
    """
    noise = motion_samples.estimate_noise(recording)
    x, y = weighted_regression(model, recording, noise)
    metric = x.T @ x
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=_RANK)
    estimates = {'OLS': np.asarray(coefficients, dtype=np.float64)}
    others = {name: m for name, m in regression_study.baselines().items() if name != 'OLS'}
    others['correction'] = lambda x, y: errors_in_variables.regress(x, y).coefficients
    others['factors'] = bayesian_factor_analysis.regress
    for name, method in others.items():
        estimates[name] = without_offset(method)(x, y)
    for name in PROJECTED:
        estimates[f'{name}, projected'] = physical_consistency.project(estimates[name], metric)
    prior = body_posterior.InertialPrior()
    known = body_posterior.unconstrained(prior, model.nbody - 1)
    rotors = slice(physical_consistency.ARMATURE, None, physical_consistency.BODY_PARAMETERS)
    known.free[rotors], known.fixed[rotors] = False, -known.like[rotors]
    estimates[OURS] = torque_fit.fit_torques(model, recording, noise, prior, known).parameters
    for parameters in estimates.values():
        parameters[rotors] = 0.0
    return estimates


def are_consistent(parameters: Array) -> Array:
    """Return which bodies (B,) are physically consistent, up to rounding."""
    rows = parameters.reshape(-1, physical_consistency.BODY_PARAMETERS)
    least = [np.linalg.eigvalsh(physical_consistency.pseudo_inertia(row))[0] for row in rows]
    size = np.abs(rows[:, :10]).max(axis=1)
    return (
        (np.array(least) > -1e-9 * size) & (rows[:, 0] > 0.0) & (rows[:, 10:] >= 0.0).all(axis=1)
    )


def record_samples(
    model: mujoco.MjModel, motion: FourierMotion, noise: float, rng: np.random.Generator
) -> motion_samples.MotionSamples:
    """Return noisy samples of a motion."""
    times = PERIOD_S * PERIODS * np.arange(ROWS) / ROWS
    states = excitation_trajectory.evaluate_motion(motion, times)
    clean = motion_samples.MotionSamples(states, arm.motion_torques(model, states))
    return motion_samples.add_noise(clean, noise, TORQUE_NOISE, rng)[0]


def measure(setup: ArmStudySetup, advance: Callable[[], None]) -> list[dict[str, Any]]:
    """Return a row for each noise level; `advance` is called after each trial."""
    model, limits = arm.load(ASSETS / 'panda.xml'), arm_experiment.limits_of('panda')
    best = None
    if setup.excitation == 'chosen':
        best = arm_experiment.optimized_motion(model, limits, setup.seed)
    rows = []
    for noise in LEVELS:
        trials = []
        for trial in range(setup.trials):
            rng = np.random.default_rng([setup.seed, trial, round(1000 * noise)])
            held_out = excitation_trajectory.random_motion(limits, PERIOD_S, rng)
            motion = best or excitation_trajectory.random_motion(limits, PERIOD_S, rng)
            estimates = estimate_all(model, record_samples(model, motion, noise, rng))
            estimates[TRUTH] = model_parameters(model)
            trials.append(
                {name: evaluate_parameters(model, held_out, b) for name, b in estimates.items()}
            )
            advance()
        rows.append({'noise': noise, 'methods': _summarize(trials)})
    return rows


def evaluate_parameters(
    model: mujoco.MjModel, held_out: FourierMotion, parameters: Array
) -> dict[str, float]:
    """
    Return metrics of parameters on another motion.

    `torque_error` is the squared torque error over the variance of each joint, averaged over
    joints; `possible` is the share of consistent bodies; `tracking_rad` is the rms tracking error.
    """
    times = PERIOD_S * np.arange(_TEST) / _TEST
    rows = regressor(model, *excitation_trajectory.evaluate_motion(held_out, times))
    true = (rows @ model_parameters(model)).reshape(-1, model.nv)
    error = (rows @ parameters).reshape(-1, model.nv) - true
    return {
        'torque_error': float(np.mean(np.mean(error**2, axis=0) / true.var(axis=0))),
        'possible': float(are_consistent(parameters).mean()),
        'tracking_rad': arm_experiment.tracking_error(model, held_out, parameters),
    }


def _summarize(trials: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, Any]]:
    """Return means over trials; trials that lost the motion are counted separately."""
    summary = {}
    for name in trials[0]:
        each = {key: np.array([trial[name][key] for trial in trials]) for key in trials[0][name]}
        errors = each['tracking_rad']
        finite = errors[np.isfinite(errors)]
        summary[name] = {
            'torque_error': float(each['torque_error'].mean()),
            'possible': float(each['possible'].mean()),
            'tracking_rad': float(finite.mean()) if len(finite) else np.nan,
            'lost': len(errors) - len(finite),
            'below_percent': {
                other: _percent_below(
                    errors, np.array([trial[other]['tracking_rad'] for trial in trials])
                )
                for other in RIDGES
                if other in trials[0]
            },
        }
    return summary


def _percent_below(errors: Array, others: Array) -> float:
    """Return the reduction of tracking error in percent, where neither is lost."""
    both = np.isfinite(errors) & np.isfinite(others)
    return (
        float(100.0 * (1.0 - errors[both].mean() / others[both].mean())) if both.any() else np.nan
    )


@dataclass(frozen=True)
class RigidBodyStudyOptions:
    """Options of the study `rigid-body`."""

    excitation: Literal['chosen', 'drawn'] = key(
        'chosen',
        doc='the motion to learn from: chosen for its information, or drawn at random',
    )


class RigidBodyStudy(Study):
    """Bodies of a simulated Panda, or the payload of an FR3."""

    description = 'bodies of an arm (panda), or its payload (payload)'
    options = RigidBodyStudyOptions
    cases: ClassVar[Mapping[str, int]] = {'panda': 10, 'payload': payload_study.MOTIONS}

    def run(self, options: RigidBodyStudyOptions, settings: StudySettings) -> dict[str, Any]:
        """Return a row per noise level."""
        of_payload = settings.case == 'payload'
        setup = ArmStudySetup(options.excitation, settings.trials, settings.seed)
        levels = len(payload_study.VARIANTS) * len(payload_study.LEVELS)
        each = levels if of_payload else len(LEVELS)
        with settings.progress('bodies', each * setup.trials, 'trials') as bar:
            done = itertools.count(1)
            measure_rows = payload_study.measure if of_payload else measure
            rows = list(measure_rows(setup, lambda: bar(next(done))))
        kind = {'truth': payload_study.TRUTH, 'rows': rows} if of_payload else {'levels': rows}
        return {'case': settings.case, **setup._asdict(), **kind}

    def show(self, results: Mapping[str, Any]) -> None:
        """Print the errors of each method or recording."""
        if results['case'] == 'payload':
            _show_payload(results['rows'])
        else:
            _show_panda(results['levels'])


def _show_payload(rows: list[dict[str, Any]]) -> None:
    mass = payload_study.TRUTH['mass']
    print(f'the truth is {mass} kg; errors are of mass, centre and friction, rms')
    print(
        f'{"":22} {"rad":>6} {"N m":>4} {"seed":>4} {"mass":>8}    {"sd [kg]":7} {"error/sd":>8} '
        f'{"lag [ms]":>8} {"cpu [s]":>7}'
    )
    for row in rows:
        result = row.get('error') or (
            f'{row["mass"]:8.4f} +- {row["mass_sd"]:7.4f} {row["off_in_sd"]:8.2f} '
            f'{1e3 * row["torque_lag_s"]:8.2f} {row["cpu_s"]:7.1f}'
        )
        print(
            f'{row["variant"]:22} {row["noise_rad"]:6.0e} {row["noise_nm"]:4} {row["seed"]:4} '
            f'{result}'
        )


def _show_panda(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(f'noise {100.0 * row["noise"]:.0f} %')
        print(
            f'{"":20} {"torque":>9} {"possible":>9} {"tracking":>14} {"lost":>5}  '
            f'against {" and ".join(RIDGES)}'
        )
        for name, of in row['methods'].items():
            less = ' '.join(f'{-percent:+6.0f} %' for percent in of['below_percent'].values())
            print(
                f'{name:20} {of["torque_error"]:9.2e} {100.0 * of["possible"]:7.0f} % '
                f'{1e3 * of["tracking_rad"]:9.3f} mrad {of["lost"]:5} {less}'
            )

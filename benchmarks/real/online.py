"""The online belief, replayed over a recording as if it were live."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from scipy.signal import savgol_coeffs

from benchmarks.real.datasets import Score, score_share
from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.belief.measurement_model import Predictor
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.ensemble import State
from emppi_ros.priors import resampling
from emppi_ros.recordings.noise import uneven_difference_noise
from emppi_ros.recordings.recordings import Recording
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.task import Task

PARTICLES = 128
GAIN = 0.2  # of joints: recorded velocities are noisy; 1 and 0.1 were worse on the driven pendulum
HORIZONS_S = (0.02, 0.1)  # of predictions; the first is the time between updates
SETTLED = 0.1  # relative to the final mean
_SETTLED_S = 1.0  # for at least so long
_LEARNING_S = 1.0  # before predictions count
_EVERY = 5  # updates between snapshots, so that predictions hardly overlap
_WINDOW = 9  # samples whose parabola gives a velocity that was not recorded
_PRIOR_SD = 1.0  # of the logarithm of positive parameters
_DRIVE = 'none'  # name of an actuator that does nothing


@dataclass(frozen=True)
class JointStates:
    """Joint states and commands as a robot sends them."""

    time: Array  # (n,) s
    position: Array  # (n, joints)
    velocity: Array  # (n, joints)
    command: Array  # (n, actuators)


@dataclass(frozen=True)
class BeliefSnapshot:
    """The belief at one time, of equally weighted particles, and its learned noise."""

    stamp: float
    theta: Array  # (M, P)
    scale: Array  # (2, joints): learned over configured sd of positions and velocities


@dataclass(frozen=True)
class BeliefReplay:
    """A replayed belief: snapshots from first to last, and what its monitor complains of."""

    snapshots: Sequence[BeliefSnapshot]
    flags: tuple[str, ...]
    sd: Array  # (2,) noise of measured positions and velocities


def joint_states(
    plant: Plant, recording: Recording, velocities: Mapping[str, Array]
) -> JointStates:
    """
    Return the joint states of a recording, whose signals share their times.

    Velocities that are not given are those of a parabola through the last samples: a live system
    does not know later ones.
    """
    signals = recording.signals
    joints = scene.names(plant.model, 'joint')
    time = signals['position', joints[0]].time
    positions = {name: signals['position', name].values for name in joints}
    speeds = [
        velocities[name] if name in velocities else _differentiate(time, values)
        for name, values in positions.items()
    ]
    drives = [s.values for (kind, _), s in signals.items() if kind == 'command']
    command = np.column_stack(drives) if drives else np.zeros((len(time), 1))
    return JointStates(
        time, np.column_stack(list(positions.values())), np.column_stack(speeds), command
    )


def _differentiate(time: Array, values: Array) -> Array:
    """Return the derivative (n,) by the parabola through the last samples."""
    step = float(np.median(np.diff(time)))
    weights = savgol_coeffs(_WINDOW, 2, 1, step, pos=_WINDOW - 1, use='dot')
    padded = np.concatenate([np.full(_WINDOW - 1, values[0]), values])
    slope: Array = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW) @ weights
    return slope


def make_task(plant: Plant, states: JointStates, sd: Array, constant: bool = False) -> Task:
    """
    Return a task with the model and the unknowns of a plant.

    Priors are around the start of the search: of positive parameters lognormal, of others normal
    with a quarter of their range. `sd` (2,) is the noise of positions and velocities. Parameters
    may change over time, as in every task, unless they are `constant`.
    """
    model = _driven(plant)
    model.actuator_ctrllimited[:] = 1
    limit = np.maximum(np.abs(states.command).max(axis=0), 1.0)
    model.actuator_ctrlrange[:] = np.column_stack([-limit, limit])
    entries = {}
    for unknown, parameter in zip(plant.unknowns, plant.parameters, strict=True):
        middle = unknown.initial if unknown.initial > 0.0 else unknown.scale
        prior: dict[str, Any] = {'distribution': 'lognormal', 'mean': middle, 'sd': _PRIOR_SD}
        if unknown.lower < 0.0:
            width = 0.25 * (unknown.upper - unknown.lower)
            prior = {'distribution': 'normal', 'mean': unknown.initial, 'sd': width}
        entries[unknown.name] = {
            'field': parameter.field, 'of': parameter.of, 'element': parameter.element,
            'unit': parameter.unit, 'lower': unknown.lower, 'upper': unknown.upper,
            'prior': prior,
        }  # fmt: skip
    interval = HORIZONS_S[0]
    likelihood = {  # both ends of a prediction are measured
        'joint_position_sd': float(np.hypot(np.sqrt(2.0) * sd[0], interval * sd[1])),
        'joint_velocity_sd': float(np.sqrt(2.0) * sd[1]),
    }
    belief: dict[str, Any] = {
        'particles': PARTICLES,
        'interval_s': interval,
        'likelihood': likelihood,
        'joint_gain': GAIN,
    }
    if constant:
        belief['changes'] = None
    return Task.from_model(
        model, lambda x: np.zeros(x.qpos.shape[:-1]), entries, belief=belief, name='recording'
    )


def _driven(plant: Plant) -> mujoco.MjModel:
    """Return the model of a plant; with an actuator, if it has none, as every robot has."""
    if plant.model.nu:
        return plant.at(plant.initial)
    if plant.scene is None:
        raise IdentificationError('the online belief needs the file of the scene')
    spec = mujoco.MjSpec.from_file(str(plant.scene.path))
    scene.compile_not_simple(spec, registry.not_simple((p.field, p.of) for p in plant.parameters))
    joint = scene.names(plant.model, 'joint')[0]
    spec.add_actuator(name=_DRIVE, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    return spec.compile()


def noise(states: JointStates) -> Array:
    """Return the noise (2,) of positions and velocities, of the noisiest joint."""
    columns = (states.position, states.velocity)
    return np.array([
        max(uneven_difference_noise(states.time, column) for column in values.T)
        for values in columns
    ])  # fmt: skip


def replay(task: Task, states: JointStates, sd: Array, seed: int = 0) -> BeliefReplay:
    """Return the belief after each few updates with joint states, in the order of time."""
    session, rng = BeliefSession(task, seed), np.random.default_rng(seed)
    snapshots, updates = [], 0
    rows = zip(states.time, states.command, states.position, states.velocity, strict=True)
    for stamp, command, position, velocity in rows:
        session.add_command(float(stamp), command)
        session.add_joints(float(stamp), position, velocity)
        if not session.update():
            continue
        if updates % _EVERY == 0:
            snapshots.append(_snapshot(session, rng))
        updates += 1
    if not snapshots:
        raise IdentificationError(f'the belief was never updated: {session.error or "too short"}')
    judgement = session.filter.judgement
    flagged = {
        'misfit': session.filter.monitor.misfit,
        'outside of its prior': judgement.out_of_prior,
        'not identifiable': judgement.unidentifiable,
        'collapsed': judgement.collapsed,
    }
    flags = tuple(f'{what}: {", ".join(names)}' for what, names in flagged.items() if names)
    return BeliefReplay(snapshots, flags, sd)


def _snapshot(session: BeliefSession, rng: np.random.Generator) -> BeliefSnapshot:
    belief = session.filter.belief
    chosen = resampling.systematic(np.exp(belief.log_weights), PARTICLES, rng.random())
    learned = session.filter.statistics[0].noise
    joints = len(session.task.robot.joints)
    scale = np.ones(2 * joints) if learned is None else np.sqrt(learned.variance)
    stamp = session.estimator.joints_stamp
    return BeliefSnapshot(stamp, belief.theta[chosen], scale.reshape(2, joints))


def settling(stamps: Array, low: Array, high: Array, final: float) -> float | None:
    """
    Return the time [s] after which an interval (n,) stays near the final value; None if never.

    Near is within SETTLED of the final value, and it has to be so for the last second at least.
    """
    near = np.maximum(np.abs(low - final), np.abs(high - final)) <= SETTLED * abs(final)
    last = len(near) - int(np.argmin(near[::-1])) if not near.all() else 0
    settled = last < len(near) and stamps[-1] - stamps[last] >= _SETTLED_S
    return float(stamps[last]) if settled else None


def settling_scores(
    replayed: BeliefReplay, begin: float, quantities: Callable[[Array], Mapping[str, float]]
) -> dict[str, Score]:
    """Return the settling time of each quantity, a function of parameters (P,)."""
    stamps = np.array([snapshot.stamp - begin for snapshot in replayed.snapshots])
    values = [[quantities(theta) for theta in snapshot.theta] for snapshot in replayed.snapshots]
    scores = {}
    for name in values[0][0]:
        each = np.array([[sample[name] for sample in row] for row in values])
        low, high = np.quantile(each, [0.05, 0.95], axis=1)
        when = settling(stamps, low, high, float(each[-1].mean()))
        scores[f'{name}: settles after'] = Score(when, 's')
    return scores


def prediction_scores(
    task: Task, replayed: BeliefReplay, states: JointStates, seed: int = 0
) -> dict[str, Score]:
    """
    Return the share of positions inside the 90 % bands of predictions, by horizon and joint.

    Errors have the distribution of the belief's likelihood: Student's t with the learned scale.
    """
    rng, commands = np.random.default_rng(seed), TimeSeries('commands', np.inf, np.inf)
    for stamp, row in zip(states.time, states.command, strict=True):
        commands.append(float(stamp), row)
    predictor = Predictor(task, PARTICLES, task.planner.threads)
    dof = task.belief.likelihood.learned_dof
    inside: dict[float, list[Bools]] = {horizon: [] for horizon in HORIZONS_S}
    for snapshot in replayed.snapshots:
        if snapshot.stamp < states.time[0] + _LEARNING_S:
            continue
        predictor.write(snapshot.theta)
        sd = snapshot.scale * replayed.sd[:, None]
        now = (
            _at(states.time, values, snapshot.stamp)
            for values in (states.position, states.velocity)
        )
        apart = sd[:, None] * rng.standard_normal((2, PARTICLES, sd.shape[1]))
        start = State(*(values + noises for values, noises in zip(now, apart, strict=True)))
        for horizon, hits in inside.items():
            end = snapshot.stamp + horizon
            if end > states.time[-1]:
                continue
            q = predictor.predict((snapshot.stamp, start), end, commands).qpos
            q = q + sd[0] * rng.standard_t(dof, q.shape)
            low, high = np.quantile(q, [0.05, 0.95], axis=0)
            measured = _at(states.time, states.position, end)
            hits.append((low <= measured) & (measured <= high))
    scores = {}
    for horizon, hits in inside.items():
        for joint, column in zip(task.robot.joints, np.transpose(hits), strict=True):
            scores[f'{joint}: inside 90 % after {horizon:g} s'] = score_share(column)
    return scores


def _at(time: Array, values: Array, stamp: float) -> Array:
    """Return interpolated rows (joints,)."""
    return np.array([np.interp(stamp, time, column) for column in values.T])

"""
The belief about a block that is pushed along a line is calibrated, and near the exact posterior.

A pusher with a velocity servo meets a block of unknown mass and dry friction again and again. The
pusher is also pushed at random, and measured without noise. The block moves as the model says,
from a known start, and its position is measured with noise. So each pair of mass and friction
predicts one motion of the block, and the exact likelihood needs no filter: MuJoCo simulates the
motion for all pairs of a grid, with the pusher set to its measured state at every pose.
"""

from typing import NamedTuple

import mujoco
import numpy as np
import pytest
import rail_tasks
from rail_tasks import PERIOD_S
from scipy import stats

from emppi_ros.calibration import belief_scores
from emppi_ros.core.arrays import Array

SUBSTEPS = 4  # per period
START = 0.09  # m, of the block: 1 cm from the pusher
MASS, FRICTION = 0.5, 1.0  # kg and N, medians of the prior
SPREAD = 0.4  # sd of their logarithms, in which all that follows is
SCENE = f"""
<mujoco><option timestep="{PERIOD_S / SUBSTEPS}" gravity="0 0 0" integrator="implicitfast"/>
  <worldbody><site name="goal"/>
    <body name="cart">
      <joint name="x" type="slide" axis="1 0 0"/><geom size="0.03" mass="1"/></body>
    <body name="block" pos="{START} 0 0">
      <joint name="block" type="slide" axis="1 0 0" frictionloss="{FRICTION}"/>
      <geom type="box" size="0.05 0.05 0.05" mass="{MASS}"/></body>
  </worldbody>
  <actuator><velocity name="x" joint="x" kv="20"/></actuator>
</mujoco>
"""
PUSHED_SD, POSE_SD = 0.03, 0.003  # m/s and m


def _lognormal(field, median):
    prior = {'distribution': 'lognormal', 'mean': median, 'sd': SPREAD}
    return {'field': field, 'of': 'block', 'lower': 0.0, 'prior': prior}


PARAMETERS = {
    'mass': _lognormal('body_mass', MASS),
    'friction': _lognormal('dof_frictionloss', FRICTION),
}
BLOCK = {'body': 'block', 'motion': 'jointed', 'position_sd_m': POSE_SD, 'rotation_sd_rad': 0.01}
BELIEF = {
    'particles': 64,
    'substep_s': PERIOD_S / SUBSTEPS,
    'likelihood': {'joint_velocity_sd': PUSHED_SD, 'object_position_sd_m': POSE_SD},
}
UPDATES = 40
COMMANDS = 0.25 + 0.25 * np.sin(2.0 * np.pi * PERIOD_S / 0.5 * np.arange(UPDATES))  # m/s


def _values(z):
    """Return mass [kg] and friction [N] of parameters z (2,), normal in the prior."""
    return np.array([MASS, FRICTION]) * np.exp(SPREAD * z)


class Line:
    """Pusher and block in MuJoCo."""

    def __init__(self):
        self._model = mujoco.MjModel.from_xml_string(SCENE)
        self._data = mujoco.MjData(self._model)

    def _start(self, z):
        """Return the data at the start, with parameters z (2,)."""
        mass, friction = _values(z)
        self._model.body('block').mass[0] = mass
        self._model.dof_frictionloss[1] = friction
        mujoco.mj_setConst(self._model, self._data)
        mujoco.mj_resetData(self._model, self._data)
        return self._data

    def simulate(self, z, rng):
        """Return position and velocity of the pusher, and moves of the block, each (N + 1,)."""
        data, rows = self._start(z), [(0.0, 0.0, 0.0)]
        for command in COMMANDS:
            data.ctrl[0] = command
            mujoco.mj_step(self._model, data, SUBSTEPS)
            data.qvel[0] += rng.normal(0.0, PUSHED_SD)
            rows.append((data.qpos[0], data.qvel[0], data.qpos[1]))
        return np.array(rows).T

    def log_likelihood(self, z, positions, velocities, moves):
        """Return the log density of measured velocities and moves, up to a constant."""
        data, total = self._start(z), 0.0
        for k, command in enumerate(COMMANDS, 1):
            data.ctrl[0] = command
            mujoco.mj_step(self._model, data, SUBSTEPS)
            total -= 0.5 * ((data.qvel[0] - velocities[k]) / PUSHED_SD) ** 2
            total -= 0.5 * ((data.qpos[1] - moves[k]) / POSE_SD) ** 2
            data.qpos[0], data.qvel[0] = positions[k], velocities[k]
        return total


GRID = np.stack(np.meshgrid(*[np.linspace(-3.0, 3.0, 11)] * 2), axis=-1).reshape(-1, 2)
LEAST = 0.05  # effective share of the points; a normal distribution of sd 1 has 0.35


def _exact(line, measured):
    """
    Return mean and sd (2,) of the exact posterior, by grids of 11 x 11.

    The first grid covers three sd of the prior, and each next one three sd of the posterior on the
    one before, along its axes. Where the likelihood is too narrow for a grid, the next one covers
    that of a power of it below 1; the result is that of a second grid without.
    """
    mean, root, power = np.zeros(2), np.eye(2), 0.0
    while True:
        z, before, power = mean + GRID @ root.T, power, 1.0
        likelihood = np.array([line.log_likelihood(row, *measured) for row in z])
        while _size(shares := _shares(z, likelihood, power)) < LEAST * len(GRID):
            power *= 0.8
        mean = shares @ z
        covariance = ((z - mean) * shares[:, None]).T @ (z - mean)
        if before == power == 1.0:
            return mean, np.sqrt(np.diag(covariance))
        root = np.linalg.cholesky(covariance)


def _shares(z, log_likelihood, power):
    """Return the posterior of points z (n, 2) with a power of their likelihood (n,)."""
    log_shares = power * log_likelihood - 0.5 * (z**2).sum(axis=1)
    shares = np.exp(log_shares - log_shares.max())
    return shares / shares.sum()


def _size(shares):
    return 1.0 / (shares @ shares)


def _measure(line, rng):
    """
    Return parameters from the prior (2,), and what is measured of their motion.

    These are position and velocity of the pusher, and poses (N + 1, 3) of the block.
    """
    truth = rng.standard_normal(2)
    positions, velocities, moves = line.simulate(truth, rng)
    poses = np.stack([START + moves, 0.0 * moves, 0.0 * moves], axis=1)
    poses[1:] += rng.normal(0.0, POSE_SD, (UPDATES, 3))  # the start is known
    return truth, positions, velocities, poses


class Run(NamedTuple):
    """A run with parameters from the prior."""

    truth: Array  # (2,)
    mean: Array  # (2,) of the exact posterior
    sd: Array  # (2,)
    seed: int
    measured: tuple[Array, Array, Array]  # of the pusher: position, velocity; poses of the block

    def learn(self, task):
        """Return the last belief of a filter, and its mean and sd (2,)."""
        _, beliefs = rail_tasks.learn(task, self.seed, COMMANDS, *self.measured)
        mean, sd = rail_tasks.unbounded_moments(task, beliefs[-1].belief)
        return beliefs[-1].belief, (mean - np.log([MASS, FRICTION])) / SPREAD, sd / SPREAD


def _run(line, seed):
    truth, *measured = _measure(line, np.random.default_rng([seed, 5]))
    positions, velocities, poses = measured
    mean, sd = _exact(line, (positions, velocities, poses[:, 0] - START))
    return Run(truth, mean, sd, seed, tuple(measured))


def _scores(mean, sd, truth):
    """Return the log scores (P,) of normal distributions with means and sds (P,)."""
    rows = zip(mean, sd, truth, strict=True)
    return np.array([belief_scores.normal_log_score(*row) for row in rows])


def _task(folder, **belief):
    return rail_tasks.write(
        folder, SCENE, 'velocity', PARAMETERS, BELIEF | belief, {'block': BLOCK}
    )


RUNS, EXACT_RUNS = 40, 8
EXACT = {
    'particles': 512,
    'object_gain': 1e-6,  # the block's motion is that of the model: no correction
    'changes': None,
    'window': 1,
    'likelihood': BELIEF['likelihood'] | {'scale': 'fixed'},
    'resampling': {'tempering': None},
}


@pytest.fixture(scope='module')
def runs():
    """Return runs, with their exact posteriors."""
    line = Line()
    return [_run(line, seed) for seed in range(RUNS)]


@pytest.mark.slow
def test_the_exact_posterior_is_calibrated(runs):
    z = np.array([(run.mean - run.truth) / run.sd for run in runs])
    low, high = stats.chi2.ppf([0.005, 0.995], RUNS)
    squares = (z**2).sum(axis=0)
    assert np.all(squares > low) and np.all(squares < high)


@pytest.mark.slow
def test_without_corrections_the_belief_is_the_exact_posterior(runs, tmp_path):
    task = _task(tmp_path, **EXACT)
    rows = []
    for run in runs[:EXACT_RUNS]:
        _, mean, sd = run.learn(task)
        rows.append([(mean - run.mean) / run.sd, np.log(sd / run.sd)])
    # A particle that moved when it was drawn keeps its parent's block, so that a belief scatters
    # more than by its number of particles. In 24 other runs the mean was off by 0.21 sd (rms),
    # and the logarithm of the sd by 0.10, without a bias: four standard errors of the averages.
    shift, stretch = np.mean(rows, axis=0)
    assert np.all(np.abs(shift) < 4.0 * 0.21 / np.sqrt(EXACT_RUNS))
    assert np.all(np.abs(stretch) < 4.0 * 0.10 / np.sqrt(EXACT_RUNS))


@pytest.mark.slow
def test_default_settings_are_calibrated_and_near_the_exact_posterior(runs, tmp_path):
    task = _task(tmp_path)
    rows = []
    for run in runs:
        belief, mean, sd = run.learn(task)
        values = zip(belief.theta.T, _values(run.truth), strict=True)
        inside = [belief_scores.is_inside(belief.log_weights, *pair, 0.9) for pair in values]
        lack = _scores(run.mean, run.sd, run.truth) - _scores(mean, sd, run.truth)
        shift = (mean - run.mean) / run.sd
        rows.append((inside, ((mean - run.truth) / sd) ** 2, lack, shift))
    inside, squares, lack, shift = np.array(rows, dtype=float).transpose(1, 2, 0)
    low, high = stats.binom.ppf([0.005, 0.995], RUNS, 0.9)  # two-sided, 99 %
    assert np.all(low <= inside.sum(axis=1)) and np.all(inside.sum(axis=1) <= high)
    # RUNS of 90 % intervals hardly tell them from 80 % ones, but squared errors do
    assert np.all(squares.sum(axis=1) < stats.chi2.ppf(0.995, RUNS))
    # The gain by which particles correct the block, sums over four poses, noise that is learned,
    # and changes that do not happen make the belief 1.3 times as wide as the exact posterior. In
    # 200 other runs its log score was 0.26 and 0.22 nats lower; the averages of RUNS have a
    # standard error of 0.1, and three of them are added.
    assert np.all(lack.mean(axis=1) < 0.26 + 3.0 * 0.1)
    # The belief is biased: in 120 other runs its mean was 0.42 and 0.31 sd of the exact posterior
    # below that of the exact one, with a scatter of 0.9. Much comes from the gain: with 256
    # particles, one update in the sum, fixed noise and no changes the mass is 0.09, 0.18, 0.34 and
    # 1.34 sd too low with gains of 0.05, 0.1, 0.2 and 0.4. More must not be added.
    assert np.all(np.abs(shift.mean(axis=1)) < 0.42 + 3.0 * 0.9 / np.sqrt(RUNS))

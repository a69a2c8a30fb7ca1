"""
A belief returns from the wrong cause of a change once motion tells the causes apart.

A damped cart on a rail is pushed at random. While the command changes sign so often that the cart
hardly moves, only force over mass matters; then the mass (or the drive) changes. Long pushes
before and after show the damping over the mass, too.
"""

import numpy as np
import pytest
import rail_tasks
from rail_tasks import CART, MASS, PERIOD_S
from scipy import stats

from emppi_ros.calibration import belief_scores

DAMPING, COMMAND, SD = 4.0, 3.0, 0.01
UPDATES, CHANGE, SEEDS = 400, 175, 12
BEFORE, AFTER = (MASS, 1.0), {'mass': (2.0 * MASS, 1.0), 'drive': (MASS, 0.5)}
PARAMETERS = {
    'mass': {
        'field': 'body_mass', 'of': 'cart', 'lower': 0.0,
        'prior': {'distribution': 'lognormal', 'mean': MASS, 'sd': 0.5},
    },
    'drive': {
        'field': 'actuator_gear', 'of': 'x', 'lower': 0.0,
        'prior': {'distribution': 'lognormal', 'mean': 1.0, 'sd': 0.5},
    },
}  # fmt: skip
BELIEF = {
    'particles': 100,
    'substep_s': PERIOD_S,
    'interval_s': PERIOD_S,
    'window': 1,
    'likelihood': {'joint_velocity_sd': SD},
}
SCENE = CART.replace('axis="1 0 0"', f'axis="1 0 0" damping="{DAMPING}"')


def _commands():
    """Return commands (N,): 3 s of long pushes, 2 s of short ones, 3 s of long ones."""
    times = PERIOD_S * np.arange(UPDATES)
    half = np.where((times >= 3.0) & (times < 5.0), 0.04, 0.5)
    return COMMAND * np.where(times // half % 2, -1.0, 1.0)


def _simulate(after, commands, rng):
    """Return positions and velocities (N + 1,); MuJoCo's damping is implicit."""
    velocities = [0.0]
    for k, command in enumerate(commands):
        mass, drive = BEFORE if k < CHANGE else after
        force = drive * command - DAMPING * velocities[-1]
        gained = PERIOD_S * force / (mass + PERIOD_S * DAMPING)
        velocities.append(velocities[-1] + gained + rng.normal(0.0, SD))
    return PERIOD_S * np.cumsum(velocities), np.array(velocities)


@pytest.mark.slow
@pytest.mark.parametrize('changed', list(AFTER))
def test_the_cause_of_a_change_is_known_in_the_end(tmp_path, changed):
    task = rail_tasks.write(tmp_path, SCENE, 'effort', PARAMETERS, BELIEF)
    truth, commands, scores = np.array(AFTER[changed]), _commands(), []
    for seed in range(SEEDS):
        motion = _simulate(truth, commands, np.random.default_rng([seed, 4]))
        _, beliefs = rail_tasks.learn(task, seed, commands, *motion)
        scores.append([belief_scores.score(task, i, beliefs[-1].belief, truth) for i in (0, 1)])
    _, inside_90, squares, _ = np.moveaxis(np.array(scores), -1, 0)
    # Each bound fails in one of 2000 tests of a right belief. Before causes were reconsidered,
    # 7 of 12 intervals held the truth, and the mean square was up to 6.7.
    assert inside_90.sum(axis=0).min() >= stats.binom.ppf(0.0005, SEEDS, 0.9)
    assert squares.mean(axis=0).max() < stats.chi2.ppf(0.9995, SEEDS) / SEEDS

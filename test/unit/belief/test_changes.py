"""Jumps and drift keep their mixture, and the changes that the belief shows are detected."""

import dataclasses
import json

import numpy as np
import pytest
import scipy.stats

from emppi_ros.belief import changes
from emppi_ros.belief.changes import ChangeDetector, DetectedChange, Jumps
from emppi_ros.core import weights
from emppi_ros.journal import snapshot
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import particles
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.resampling import ResamplingConfig
from emppi_ros.tasks.schema import ChangeConfig

UNBOUNDED = Parameter('offset', 'body_ipos', 'b', 0)
OTHER = Parameter('other', 'body_ipos', 'b', 1)
CERTAIN = Parameter('certain', 'body_ipos', 'b', 2)
NORMAL = Prior('normal', mean=0.0, sd=1.0)
PRIOR = JointPrior([UNBOUNDED, OTHER, CERTAIN], [NORMAL, NORMAL, Prior('fixed', value=0.5)])
COLUMNS = np.array([0, 1])
SINGLE = JointPrior([UNBOUNDED], [NORMAL])
JUMPS = ChangeConfig(rate_hz=0.5, drift_s=None)


def _belief(rng, count=64):
    theta = PRIOR.sample(count, rng)
    return Belief(theta, weights.normalize(rng.normal(0.0, 2.0, count)))


def test_only_uncertain_parameters_that_are_listed_change():
    assert changes.changing(None, PRIOR).tolist() == []
    assert changes.changing(ChangeConfig(), PRIOR).tolist() == [0, 1]
    assert changes.changing(ChangeConfig(of=('other', 'certain')), PRIOR).tolist() == [1]
    assert changes.changing(ChangeConfig(of=()), PRIOR).tolist() == []


def test_pruning_keeps_expected_weights_and_heavy_particles(rng):
    log_weights = weights.normalize(rng.normal(0.0, 1.5, 20))
    total, square, draws = np.zeros(20), np.zeros(20), 4000
    for _ in range(draws):
        chosen, kept = changes.prune(log_weights, 15, rng)
        assert len(np.unique(chosen)) == 15
        assert np.exp(kept).sum() == pytest.approx(1.0, abs=1e-12)
        row = np.zeros(20)
        row[chosen] = np.exp(kept)
        total += row
        square += row**2
    mean = total / draws
    error = np.sqrt(np.maximum(square / draws - mean**2, 0.0) / draws)
    # five standard errors of 20 means: one false alarm in 80 000 runs; 1e-12: weights kept exactly
    assert np.all(np.abs(mean - np.exp(log_weights)) < 5.0 * error + 1e-12)
    heavy = np.argsort(log_weights)[-3:]
    assert np.all(error[heavy] < 1e-8)  # the root of a difference of equal squares


def test_pruning_drops_weightless_particles_first():
    log_weights = np.log(np.array([0.5, 0.5, 1e-300, 1e-300]))
    log_weights[2:] = -np.inf
    chosen, kept = changes.prune(log_weights, 3, np.random.default_rng(0))
    assert {0, 1} <= set(chosen.tolist())
    np.testing.assert_allclose(np.sort(np.exp(kept)), [0.0, 0.5, 0.5], atol=1e-15)


def test_jumps_have_their_probability_and_leave_all_others_alone(rng):
    belief = _belief(rng)
    after, jumps = changes.jump(JUMPS, PRIOR, COLUMNS, belief, 0.1, rng, belief.theta)
    assert len(jumps.rows) == 4  # a sixteenth
    shares = np.exp(after.log_weights)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    # two parameters that jump at 0.5 Hz for 0.1 s
    assert shares[jumps.rows].sum() == pytest.approx(-np.expm1(-0.1), rel=1e-12)
    rest = np.setdiff1d(np.arange(64), jumps.rows)
    assert np.array_equal(after.theta[rest], belief.theta[rest])
    before, moved = belief.theta[jumps.origins], after.theta[jumps.rows]
    changed = before != moved
    assert np.array_equal(changed, np.arange(3) == jumps.columns[:, None])  # that column alone


def test_half_of_the_jumps_undo_those_of_the_other_parameters(rng):
    belief = _belief(rng)
    undone = belief.theta + [10.0, 10.0, 0.0]
    after, jumps = changes.jump(JUMPS, PRIOR, COLUMNS, belief, 0.1, rng, undone)
    assert jumps.revised.sum() == 2  # of four
    for row, origin, column, revised in zip(*jumps, strict=True):
        others = np.arange(3) != column
        source = undone if revised else belief.theta
        assert np.array_equal(after.theta[row, others], source[origin, others])
        assert after.theta[row, column] not in (
            belief.theta[origin, column],
            undone[origin, column],
        )


def test_without_rate_share_or_time_nothing_jumps_and_nothing_is_drawn(rng):
    belief, state = _belief(rng), rng.bit_generator.state
    for config, elapsed in (
        (dataclasses.replace(JUMPS, rate_hz=0.0), 0.1),
        (dataclasses.replace(JUMPS, share=0.0), 0.1),
        (JUMPS, 0.0),
    ):
        after, jumps = changes.jump(config, PRIOR, COLUMNS, belief, elapsed, rng, belief.theta)
        assert after is belief and not len(jumps.rows)
    assert rng.bit_generator.state == state


def test_drift_leaves_the_prior_as_it_is(rng):
    parameter = Parameter('mass', 'body_mass', 'b', lower=0.1, upper=3.0)
    prior = JointPrior([parameter], [Prior('normal', mean=0.8, sd=0.05)])
    belief = particles.uniform(prior.sample(4000, rng))
    for _ in range(40):
        belief = changes.drift(prior, np.array([0]), belief, 0.2, rng)
    # nearly normal in log-odds, because its sd is small; 4000 draws against 10 000: the
    # Kolmogorov-Smirnov test fails one correct run in ten thousand
    draws = prior.sample(10_000, rng)[:, 0]
    assert scipy.stats.ks_2samp(belief.theta[:, 0], draws).pvalue > 1e-4


def test_drift_forgets_within_its_time(rng):
    belief = particles.uniform(np.zeros((4000, 1)))
    after = changes.drift(SINGLE, np.array([0]), belief, 0.25, rng)
    # a quarter of the time: half a standard deviation, within five standard errors; the prior's
    # own sd is estimated from 10 000 draws
    assert after.theta.std() == pytest.approx(0.5, rel=5 * (0.5 / 4000 + 0.5 / 10_000) ** 0.5)


def _kalman(measured, sd, step_sd, decay):
    mean, variance, out = 0.0, 1.0, []
    for i, y in enumerate(measured):
        if i:
            mean, variance = decay * mean, decay**2 * variance + step_sd**2
        gain = variance / (variance + sd**2)
        mean, variance = mean + gain * (y - mean), (1.0 - gain) * variance
        out.append((mean, variance**0.5))
    return np.array(out)


@pytest.mark.parametrize('seed', range(3))
def test_drift_and_bayes_rule_are_a_kalman_filter_where_that_is_exact(seed):
    rng = np.random.default_rng(seed)
    share, sd, count = 0.1, 0.5, 20_000
    never = ResamplingConfig(ess_fraction=0.5, shrinkage=1.0)
    measured = rng.normal(0.5, sd, 30)
    belief, ours = particles.uniform(rng.normal(0.0, 1.0, (count, 1))), []
    for i, y in enumerate(measured):
        if i:
            belief = changes.drift(SINGLE, np.array([0]), belief, share, rng)
        belief = particles.reweight(belief, -0.5 * ((belief.theta[:, 0] - y) / sd) ** 2)
        ours.append(
            (
                weights.mean(belief.log_weights, belief.theta)[0],
                weights.covariance(belief.log_weights, belief.theta)[0, 0] ** 0.5,
            )
        )
        belief, _ = particles.resample(never, [UNBOUNDED], belief, rng)
    scale = SINGLE.spread[0]  # the prior's sd as the filter knows it: from 10 000 draws
    kalman = _kalman(measured, sd, share**0.5 * scale, (1.0 - share) ** 0.5)
    # each resampling adds an error of sd / sqrt(n), forgotten within a few updates, and the
    # effective sample size stays above half: five standard errors of a sum of four such; the
    # center of the prior is known to 0.01, of which drift adds 5 % at each update
    error = 5.0 * np.sqrt(4.0 * 2.0 / count) * kalman[:, 1] + 0.01
    assert np.all(np.abs(np.array(ours)[:, 0] - kalman[:, 0]) < error)
    assert np.all(np.abs(np.array(ours)[:, 1] - kalman[:, 1]) < error)


def _exact_mixture(grid, measured, sd, jump):
    """Return the posterior on a grid of a parameter that jumps with probability `jump`."""
    step = grid[1] - grid[0]
    prior = np.exp(-0.5 * grid**2)
    far = np.exp(-0.5 * ((grid[:, None] - grid) / (2.0 * SINGLE.spread[0])) ** 2)
    far /= far.sum(axis=0)
    posterior = prior / prior.sum()
    rows = []
    for i, y in enumerate(measured):
        if i:
            after = 0.5 * prior / prior.sum() + 0.5 * far @ posterior
            posterior = (1.0 - jump) * posterior + jump * after
        posterior = posterior * np.exp(-0.5 * ((grid - y) / sd) ** 2)
        posterior /= posterior.sum()
        mean = posterior @ grid
        rows.append((mean, (posterior @ (grid - mean) ** 2) ** 0.5))
    assert step < 0.1 * sd
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(3))
def test_jumps_and_bayes_rule_are_the_exact_mixture(seed):
    rng = np.random.default_rng(seed)
    sd, elapsed, count = 0.5, 0.1, 20_000
    config = ChangeConfig(rate_hz=0.5, drift_s=None, share=0.25)
    measured = np.concatenate([rng.normal(-0.5, sd, 8), rng.normal(2.5, sd, 8)])
    exact = _exact_mixture(
        np.linspace(-12.0, 12.0, 2401), measured, sd, -np.expm1(-config.rate_hz * elapsed)
    )
    plain = ResamplingConfig(ess_fraction=0.1, shrinkage=1.0)
    belief, ours = particles.uniform(rng.normal(0.0, 1.0, (count, 1))), []
    for i, y in enumerate(measured):
        if i:
            belief, _ = changes.jump(
                config, SINGLE, np.array([0]), belief, elapsed, rng, belief.theta
            )
        belief = particles.reweight(belief, -0.5 * ((belief.theta[:, 0] - y) / sd) ** 2)
        ours.append(
            (
                weights.mean(belief.log_weights, belief.theta)[0],
                weights.covariance(belief.log_weights, belief.theta)[0, 0] ** 0.5,
            )
        )
        belief, _ = particles.resample(plain, [UNBOUNDED], belief, rng)
    # the effective sample size is at least a tenth before the jump is resolved: five standard
    # errors of a value whose sd is at most that of the bimodal posterior, 1.5
    error = 5.0 * 1.5 * np.sqrt(10.0 / count)
    np.testing.assert_allclose(np.array(ours), exact, rtol=0.0, atol=error)
    assert exact[7, 0] < 0.0 and exact[-1, 0] > 2.0  # the jump was followed


COUNT, DT = 8, 0.1
NOBODY = Jumps(*(np.zeros(0, dtype=np.intp) for _ in range(4)))
MEAN = np.array([0.3, 5.0])


def jumps(rows, column, origins=None, revised=False):
    rows = np.asarray(rows)
    origins = rows if origins is None else np.asarray(origins)
    return Jumps(rows, origins, np.full(len(rows), column), np.full(len(rows), revised))


@pytest.fixture
def detector():
    """Return a detector whose start is over."""
    made = ChangeDetector(('mass', 'friction'), COUNT)
    for _ in range(21):
        made.jump(NOBODY, DT, MEAN)
    return made


def belief(weight_of_first, value=0.3):
    """Return a belief whose first particle has a weight and a mass; others have 0.3."""
    theta = np.tile(MEAN, (COUNT, 1))
    theta[0, 0] = value
    shares = np.full(COUNT, (1.0 - weight_of_first) / (COUNT - 1))
    shares[0] = weight_of_first
    return Belief(theta, np.log(shares))


def test_a_change_is_detected_once_most_weight_has_jumped(detector):
    detector.jump(jumps([0], 0), DT, MEAN)
    assert detector.update(1.0, belief(0.49, 1.2)) == []
    (change,) = detector.update(1.1, belief(0.51, 1.2))
    assert change[:2] == (1.1, 'mass')
    assert change[2:] == pytest.approx((0.3, 1.2), rel=1e-12)  # rounding
    assert detector.update(1.2, belief(0.9, 1.2)) == []
    assert list(detector.events) == [change] == detector.since(1.0)
    assert detector.since(1.1) == [] == detector.since(1.0, until=1.05)
    assert detector.since(1.0, until=1.1) == [change]


def test_a_second_change_is_detected_after_the_first_is_over_and_not_before(detector):
    detector.jump(jumps([0], 0), DT, MEAN)
    assert detector.update(0.0, belief(0.9))
    for probability in (0.3, 0.6, 0.21):  # above a fifth the change is not over
        assert detector.update(0.1, belief(probability)) == []
    assert detector.update(0.2, belief(0.1)) == []
    assert detector.update(0.3, belief(0.6))


def test_a_jump_is_forgotten_after_two_seconds(detector):
    detector.jump(jumps([0], 0), DT, MEAN)
    for _ in range(21):
        detector.jump(NOBODY, DT, MEAN)
    assert detector.update(0.0, belief(1.0 - 1e-9)) == []


def test_jumps_at_the_start_are_no_changes():
    detector = ChangeDetector(('mass', 'friction'), COUNT)
    detector.jump(jumps(range(COUNT), 0), DT, MEAN)
    assert detector.update(0.1, belief(0.9)) == []


def test_jumps_follow_their_particles(detector):
    detector.jump(jumps([5], 1), DT, MEAN)
    detector.resample(np.array([5, 5, 5, 5, 5, 0, 1, 2]))
    uniform = particles.uniform(np.tile(MEAN, (COUNT, 1)))
    assert [one.parameter for one in detector.update(0.0, uniform)] == ['friction']
    detector.jump(jumps(range(5), 0, origins=[5] * 5), DT, MEAN)  # of those that did not
    assert [one.parameter for one in detector.update(0.1, uniform)] == ['mass']


def test_a_value_that_needs_several_jumps_is_one_change_from_the_first_value(detector):
    detector.jump(jumps([0], 0), DT, np.array([0.3, 5.0]))
    detector.jump(jumps([1], 0, origins=[0]), DT, np.array([0.7, 5.0]))
    detector.resample(np.full(COUNT, 1))
    (change,) = detector.update(0.0, belief(0.5, 0.3))
    assert change.before == pytest.approx(0.3, rel=1e-12)  # rounding


def test_a_jump_of_another_parameter_replaces_a_recent_one(detector):
    theta = np.tile([1.2, 5.0], (COUNT, 1))
    assert np.array_equal(detector.undone(theta), theta)
    detector.jump(jumps([0], 0), DT, MEAN)
    assert np.array_equal(detector.undone(theta)[0], MEAN)
    assert np.array_equal(detector.undone(theta)[1:], theta[1:])
    detector.jump(jumps([1], 1, origins=[0], revised=True), DT, MEAN)
    detector.resample(np.full(COUNT, 1))
    (change,) = detector.update(0.0, belief(0.5))
    assert change.parameter == 'friction'
    for _ in range(21):
        detector.jump(NOBODY, DT, MEAN)
    assert np.array_equal(detector.undone(theta), theta)  # two seconds later


def test_it_continues_from_a_snapshot(detector):
    detector.jump(jumps([0], 0), DT, MEAN)
    detector.update(1.0, belief(0.9, 1.2))
    other = ChangeDetector(('mass', 'friction'), COUNT)
    snapshot.restore(other, json.loads(json.dumps(snapshot.dump(detector))))
    assert other.events == detector.events and isinstance(other.events[0], DetectedChange)
    for one in (detector, other):
        one.jump(jumps([3], 1, origins=[1]), DT, MEAN)
        one.resample(np.full(COUNT, 3))
    assert other.update(2.0, belief(0.5)) == detector.update(2.0, belief(0.5))
    assert [one.parameter for one in other.events] == ['mass', 'friction']

"""Flags say what is so: of parameters with and without effect, in and out of their prior."""

from collections.abc import Callable
import dataclasses

import command_series
import numpy as np
import pytest

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.belief.belief_monitor import (
    SMALLEST,
    BeliefMonitor,
    InnovationStatistics,
    learned_excess,
    misfit,
    normalized_innovations,
    unresolved,
)
from emppi_ros.belief.measurement_model import Deviation, LearnedNoise
from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.core import weights
from emppi_ros.model.ensemble import State
from emppi_ros.priors import particles
from emppi_ros.priors.distributions import to_bounded
from emppi_ros.state.estimator import Observation
from emppi_ros.tasks.task import Task, load_task

DT, SD = 0.02, 0.01  # s; m/s, the slider's likelihood
SLIP = {
    'field': 'geom_friction',
    'of': 'cart',
    'lower': 0.01,
    'upper': 2.0,
    'prior': {'distribution': 'uniform', 'lower': 0.2, 'upper': 1.0},
}


@pytest.fixture
def with_slip(make_task, task_data):
    """Return a slider that nobody touches, so that its friction does nothing."""
    data = task_data('slider')
    data['parameters']['slip'] = SLIP
    data['simulation']['truth']['slip'] = {'distribution': 'fixed', 'value': 0.5}
    del data['simulation']['wrong']
    data['belief']['particles'] = 100  # a dozen has other spreads, and slopes, by chance
    return make_task('slider', data)


def resting(count, speed=0.0):
    for i in range(count):
        state = State(np.zeros(1), np.array([speed]))
        yield i * DT, Observation(state, state, {})


def pushed(force):
    return command_series.held([force])


def observed(task, count, force):
    """Return a filter that saw a cart stand still, whatever pushed it."""
    one = ParticleFilter(task, np.random.default_rng(0))
    for stamp, moment in resting(count, speed=0.0):
        one.observe(stamp, moment, pushed(force))
    return one


def driven(task, count, force):
    """Return a filter that saw a cart of 2 kg move as it is pushed."""
    one, state = ParticleFilter(task, np.random.default_rng(0)), State(np.zeros(1), np.zeros(1))
    for i in range(count):
        one.observe(i * DT, Observation(state, state, {}), pushed(force))
        speed = (2.0 * state.qvel + force * DT) / (2.0 + 0.5 * DT)  # implicit damping
        state = State(state.qpos + speed * DT, speed)
    return one


def drawn(task, share):
    """Return a belief about the center of the prior, with shares (P,) of its spread."""
    draws = np.random.default_rng(0).standard_normal((200, len(share)))
    spread = task.prior.spread * np.array(share)  # of the logarithm and logit
    return particles.uniform(to_bounded(task.parameters, task.prior.center + spread * draws))


def test_a_parameter_without_effect_is_unidentifiable_and_one_with_effect_is_not(with_slip):
    judgement = driven(with_slip, 130, force=5.0).judgement
    assert judgement.remaining[1] > 0.9 and judgement.remaining[0] < 0.5
    assert judgement.unidentifiable == ['slip']


def test_a_motion_that_shows_nothing_leaves_all_unidentifiable(with_slip):
    assert observed(with_slip, 130, force=0.0).judgement.unidentifiable == ['mass', 'slip']
    assert observed(with_slip, 60, force=0.0).judgement.unidentifiable == []  # too early to say


@pytest.mark.parametrize(
    ('share', 'remaining', 'unknown', 'collapsed'),
    [
        ([1.0, 1.0], [1.0, 1.0], ['mass', 'slip'], []),
        ([0.3, 1.0], [0.3, 1.0], ['slip'], []),
        ([0.3, 0.3], [1.0, 0.3], [], ['mass']),
        ([0.65, 0.65], [1.0, 1.0], [], []),
        ([1.0, 1.0], [0.1, 0.1], [], []),
    ],
)
def test_a_parameter_has_at_most_one_flag(with_slip, share, remaining, unknown, collapsed):
    """A belief much narrower than what is left has collapsed; it is not called unidentifiable."""
    monitor = BeliefMonitor(with_slip)
    monitor.updates = 100
    judgement = monitor.judge(drawn(with_slip, share), np.array(remaining))
    assert judgement.unidentifiable == unknown and judgement.collapsed == collapsed
    assert judgement.out_of_prior == []
    monitor.updates = 99  # too early to say
    judgement = monitor.judge(drawn(with_slip, share), np.array(remaining))
    assert judgement.unidentifiable == judgement.collapsed == []


@pytest.mark.slow
def test_in_a_run_too(with_slip):
    loop = ClosedLoop(with_slip, 0)
    loop.run(4.0, stop_at_success=False)
    assert loop.filter.judgement.unidentifiable == ['slip']


NARROW = 0.002  # so that what the gain does is linear in its logarithm, too


def test_what_is_left_is_that_of_a_kalman_filter(make_task, task_data):
    data = task_data('slider')
    data['parameters'] = {
        'gain': {
            'field': 'actuator_gain',
            'of': 'x',
            'lower': 0.0,
            'prior': {'distribution': 'normal', 'mean': 1.0, 'sd': NARROW},
        }
    }
    data['simulation'] = {'truth': {'gain': {'distribution': 'fixed', 'value': 1.0}}}
    data['belief'] |= {'changes': 'none', 'window': 1, 'particles': 400}
    data['belief']['likelihood']['scale'] = 'fixed'
    task, force, count = make_task('slider', data), 100.0, 60
    speeds = np.random.default_rng(1).normal(0.0, SD, count + 1)
    step = force * DT / (2.0 + 0.5 * DT)  # of the speed: 2 kg, implicit damping
    one = ParticleFilter(task, np.random.default_rng(0))
    for i, noise in enumerate(speeds):  # each speed is predicted from the one before
        before, after = (State(np.zeros(1), np.array([x])) for x in (0.0, step + noise))
        one._last = None if one._last is None else (one._last[0], before)
        one.observe(i * DT, Observation(after, after, {}), pushed(force))
    expected = 1.0 / np.sqrt(1.0 + count * (NARROW * step / SD) ** 2)
    assert expected < 0.6
    # the slope of errors over 400 particles is exact, but for what is shrunk as chance: 2 %
    assert one.judgement.remaining[0] == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
def test_looking_changes_no_bit_of_what_is_believed(monkeypatch):
    beliefs = []
    for look in (True, False):
        if not look:
            monkeypatch.setattr(BeliefMonitor, 'add', lambda *_: None)
        loop = ClosedLoop(load_task('cartpole_swingup'), 3)
        loop.run(0.5)
        beliefs.append(loop.filter.belief)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*beliefs, strict=True))


@pytest.mark.parametrize(
    ('truth', 'flagged', 'seed'),
    [
        ({'pole_mass': 0.9}, ['pole_mass'], 0),  # the prior: 0.05 to 0.6
        pytest.param({'pole_mass': 0.9}, ['pole_mass'], 1, marks=pytest.mark.slow),
        ({'pole_inertia': 0.15}, ['pole_inertia'], 0),  # 0.005 to 0.06
        pytest.param({'pole_mass': 0.3, 'pole_inertia': 0.03}, [], 0, marks=pytest.mark.slow),
        ({'pole_mass': 0.5, 'pole_inertia': 0.05}, [], 1),
    ],
)
def test_a_truth_far_outside_of_the_prior_is_flagged_within_a_run(truth, flagged, seed):
    loop = ClosedLoop(load_task('cartpole_swingup'), seed, truth=truth)
    loop.run(1.0, stop_at_success=False)
    assert loop.filter.judgement.out_of_prior == flagged


def rubbed(task, seed, friction):
    """Return a run's monitor whose robot has joint friction that the model lacks."""
    rubbing = dict.fromkeys(task.robot.commanded, friction)
    task.simulation = dataclasses.replace(task.simulation, joint_friction=rubbing)
    loop = ClosedLoop(task, seed)
    assert loop.filter.monitor.misfit == []
    loop.run(2.0, stop_at_success=False)
    return loop


@pytest.mark.slow
@pytest.mark.parametrize('scale', ['learned', 'fixed'])
def test_what_no_parameter_explains_is_a_misfit_and_a_right_model_has_none(scale):
    for friction, expected in [(6.0, ['joint_velocity']), (0.0, [])]:  # N m
        task = load_task('fr3_follow')
        likelihood = dataclasses.replace(task.belief.likelihood, scale=scale)
        task.belief = dataclasses.replace(task.belief, likelihood=likelihood)
        assert rubbed(task, 1, friction).filter.monitor.misfit[:1] == expected


@pytest.mark.slow
def test_friction_below_the_learned_noise_is_a_misfit_because_its_errors_are_correlated():
    loop = rubbed(load_task('fr3_follow'), 1, 2.0)
    assert loop.filter.statistics[0].noise.power.min() < 0.5
    assert loop.filter.monitor.misfit == ['joint_velocity']


def test_a_misfit_is_not_reported_in_the_first_second(make_task):
    one = ParticleFilter(make_task('slider'), np.random.default_rng(0))
    for i, (stamp, moment) in enumerate(resting(60)):
        one.observe(stamp, moment, pushed(200.0))  # yet it rests: no mass explains that
        assert bool(one.monitor.misfit) == (i > 50)  # 50 updates of 0.02 s after the first
    one.reset()
    assert one.monitor.misfit == []


def test_a_reset_forgets(with_slip):
    one = ParticleFilter(with_slip, np.random.default_rng(0))
    for stamp, moment in resting(70):
        one.observe(stamp, moment, pushed(5.0))
    assert one.monitor.updates and one.monitor.innovations.statistics()
    one.reset()
    assert not one.monitor.updates and not one.monitor.innovations.statistics()
    np.testing.assert_allclose(one.judgement.remaining, np.ones(2), rtol=1e-12)  # rounding


def test_what_is_certain_is_neither_learned_nor_flagged(make_task, task_data):
    data = task_data('slider')
    data['parameters']['mass']['prior'] = {'distribution': 'fixed', 'value': 2.0}
    task = make_task('slider', data)
    judgement = observed(task, 130, force=0.0).judgement
    assert judgement.unidentifiable == judgement.out_of_prior == judgement.collapsed == []
    assert np.array_equal(judgement.remaining, [1.0])


def test_a_model_that_diverges_is_counted(with_slip, monkeypatch):
    assert observed(with_slip, 2, force=1.0).monitor.diverged == 0
    one = ParticleFilter(with_slip, np.random.default_rng(0))
    predict = one._predictor.predict

    def broken(*arguments):
        found = predict(*arguments)
        found.qvel[:3] = np.nan
        return found

    monkeypatch.setattr(one._predictor, 'predict', broken)
    for stamp, moment in resting(3):
        one.observe(stamp, moment, pushed(1.0))
    assert one.monitor.diverged == 6


SPREAD = 0.3  # of a particle's prediction, in those of the measurement


def statistics(rng, bias=0.0, noise=1.0, updates=200, dofs=5, particles=400):
    """Return those of measurements of something drawn from the belief itself."""
    kept = InnovationStatistics()
    uniform = np.full(particles, -np.log(particles))
    for _ in range(updates):
        predicted = rng.normal(0.0, SPREAD, (particles, dofs))
        measured = rng.normal(0.0, SPREAD, dofs) + bias + noise * rng.standard_normal(dofs)
        found = [Deviation('speed', np.arange(dofs), predicted - measured)]
        kept.add(normalized_innovations(uniform, found))
    return kept, *kept.statistics()['speed']


def test_a_right_belief_has_innovations_of_mean_0_and_variance_1(rng):
    kept, mean, variance = statistics(rng)
    # 1000 draws: the mean errs by 0.032, the variance by 0.045; four of these
    assert abs(mean) < 0.13 and abs(variance - 1.0) < 0.18
    assert kept.excess['speed'] < 1.0


def test_a_bias_is_seen_with_its_sign_and_in_its_unit(rng):
    kept, mean, _ = statistics(rng, bias=2.0)
    expected = 2.0 / np.sqrt(1.0 + SPREAD**2)
    assert mean == pytest.approx(expected, abs=0.13)  # as above
    assert kept.excess['speed'] > 1.0


def test_unexplained_noise_is_variance(rng):
    kept, _, variance = statistics(rng, noise=3.0)
    expected = (9.0 + SPREAD**2) / (1.0 + SPREAD**2)
    assert variance == pytest.approx(expected, rel=0.18)  # as above
    assert kept.excess['speed'] > 1.0


def test_the_unit_is_that_of_measurement_and_weighted_predictions(rng):
    values, log_weights = rng.normal(size=(7, 3)), np.log(rng.dirichlet(np.ones(7)))
    found = normalized_innovations(log_weights, [Deviation('x', np.arange(3), values)])['x']
    spread = np.diag(weights.covariance(log_weights, values))
    expected = -weights.mean(log_weights, values) / np.sqrt(1.0 + spread)
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # rounding


def test_who_diverged_does_not_count_and_nobody_is_no_innovation(rng):
    values, log_weights = rng.normal(size=(4, 2)), np.log(rng.dirichlet(np.ones(4)))
    some = values.copy()
    some[1, 0] = np.nan
    kept = [0, 2, 3]
    found = normalized_innovations(log_weights, [Deviation('x', np.arange(2), some)])['x']
    alone = normalized_innovations(
        log_weights[kept], [Deviation('x', np.arange(2), values[kept])]
    )['x']
    assert np.array_equal(found, alone)
    assert normalized_innovations(log_weights, [Deviation('x', 0, np.full((4, 2), np.nan))]) == {}


def test_parts_of_a_quantity_go_together_and_old_ones_are_forgotten(rng):
    parts = [Deviation('x', i, rng.normal(size=(5, 3))) for i in range(2)]
    assert normalized_innovations(np.zeros(5), parts)['x'].shape == (6,)
    kept = InnovationStatistics()
    for value in [100.0] * 50 + [1.0, -1.0] * 100:
        kept.add({'x': np.array([value])})
    assert kept.statistics() == {'x': (0.0, 1.0)}


def test_the_excess_of_a_quantity_is_its_largest_variance_over_four():
    values = np.zeros((5, 2))
    kinds = [('v', values), ('x', values[:, :1]), ('v', values)]
    parts = [Deviation(quantity, 0, some) for quantity, some in kinds]
    excess = learned_excess(parts, np.array([4.0, 8.0, 1.0, 0.0, 4.0]))
    assert excess == {'v': 2.0, 'x': 0.25}


def test_errors_that_persist_are_a_misfit_at_once_and_white_ones_of_that_size_are_not(
    with_slip, rng
):
    for persists in (True, False):
        monitor, belief = BeliefMonitor(with_slip), particles.uniform(np.full((5, 2), 0.5))
        learned = LearnedNoise(np.ones(1), np.ones(1), np.array([5.0 if persists else 1.0]))
        for i in range(70):
            monitor.add(belief, [Deviation('v', 0, np.zeros((5, 1)))], i * DT, learned)
        assert monitor.misfit == (['v'] if persists else [])


def test_a_misfit_ends_only_well_below_the_limit_at_which_it_began():
    raised: list[str] = []
    history = []
    for excess in (0.9, 1.1, 0.9, 0.8, 0.7, 0.9):
        raised = misfit({'speed': excess, 'pose': 0.5}, raised)
        history.append(raised)
    assert history == [[], ['speed'], ['speed'], ['speed'], [], []]


def test_the_innovations_of_each_quantity_exceed_their_limit_separately(rng):
    kept = InnovationStatistics()
    for _ in range(200):
        kept.add({'calm': rng.normal(size=2), 'wild': 2.0 * rng.normal(size=2)})
    # mean squares of 1 and 4, of which 2 is the limit; 400 draws: within 7 %, four of these
    assert kept.excess['calm'] == pytest.approx(0.5, rel=0.3)
    assert kept.excess['wild'] == pytest.approx(2.0, rel=0.3)
    assert misfit(kept.excess, []) == ['wild']


@pytest.mark.parametrize(('factor', 'named'), [(0.5, ['mass']), (2.0, [])])
def test_a_belief_is_unresolved_below_a_thousandth_of_the_prior(
    make_task: Callable[..., Task], factor: float, named: list[str]
) -> None:
    prior = make_task('slider').prior
    ends = np.array([[-1.0], [1.0]]) * factor * SMALLEST * prior.spread
    theta = to_bounded(prior.parameters, prior.center + ends)  # two points: their sd is known
    assert unresolved(prior, particles.uniform(theta)) == named


def test_certain_parameters_are_never_named(
    make_task: Callable[..., Task], task_data: Callable[..., dict]
) -> None:
    data = task_data('slider')
    data['parameters']['mass']['prior'] = {'distribution': 'fixed', 'value': 2.0}
    belief = particles.uniform(np.full((3, 1), 2.0))
    assert unresolved(make_task('slider', data).prior, belief) == []

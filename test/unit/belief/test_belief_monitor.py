"""Flags say what is so: of parameters with and without effect, in and out of their prior."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.belief.belief_monitor import BeliefMonitor
from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.model.ensemble import State
from emppi_ros.priors import particles
from emppi_ros.priors.distributions import to_bounded
from emppi_ros.state.estimator import Observation
from emppi_ros.tasks.task import load_task

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
    return make_task('slider', data)


def resting(count, speed=0.0):
    for i in range(count):
        state = State(np.zeros(1), np.array([speed]))
        yield i * DT, Observation(state, state, {})


def pushed(force):
    return lambda times: np.full((len(times), 1), force)


def observed(task, count, force):
    """Return a filter that saw a cart stand still, whatever pushed it."""
    one = ParticleFilter(task, np.random.default_rng(0))
    for stamp, moment in resting(count, speed=0.0):
        one.observe(stamp, moment, pushed(force))
    return one.monitor


def test_a_parameter_without_effect_is_flagged_and_one_with_effect_is_not(with_slip):
    monitor = observed(with_slip, 130, force=5.0)
    assert monitor.remaining[1] == 1.0 and monitor.remaining[0] < 0.1
    assert monitor.unidentifiable == ['slip']


def test_a_motion_that_shows_nothing_leaves_all_unidentifiable(with_slip):
    monitor = observed(with_slip, 130, force=0.0)
    assert monitor.unidentifiable == ['mass', 'slip']
    assert observed(with_slip, 60, force=0.0).unidentifiable == []  # too early to say


def test_in_a_run_too(with_slip):
    loop = ClosedLoop(with_slip, 0)
    loop.run(4.0, stop_at_success=False)
    assert loop.filter.monitor.unidentifiable == ['slip']


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
    task, force, count = make_task('slider', data), 100.0, 60
    monitor = observed(task, count + 1, force)
    step = force * DT / (2.0 + 0.5 * DT)  # of the speed: 2 kg, implicit damping, one step
    expected = 1.0 / np.sqrt(1.0 + count * (NARROW * step / SD) ** 2)
    assert expected < 0.6
    # 10 000 draws tell the prior's sd to 0.7 %, five steps of physics are not one: 1 %
    assert monitor.remaining[0] == pytest.approx(expected, rel=0.01)


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
    found = loop.filter.monitor.out_of_prior(loop.filter.belief)
    assert found == flagged


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


def test_friction_below_the_learned_noise_is_a_misfit_because_its_errors_are_correlated():
    loop = rubbed(load_task('fr3_follow'), 1, 2.0)
    noise = loop.filter.statistics[0].noise
    assert np.sqrt(noise.variance).max() > 0.3 and noise.power < 0.5
    assert loop.filter.monitor.misfit == ['joint_velocity', 'payload_mass']


def test_a_misfit_is_not_reported_in_the_first_second(make_task):
    one = ParticleFilter(make_task('slider'), np.random.default_rng(0))
    for i, (stamp, moment) in enumerate(resting(60)):
        one.observe(stamp, moment, pushed(200.0))  # yet it rests: no mass explains that
        assert bool(one.monitor.misfit) == (i > 50)  # 50 updates of 0.02 s after the first
    one.reset()
    assert one.monitor.misfit == []


def test_particles_that_agree_without_a_reason_have_collapsed(with_slip):
    monitor = observed(with_slip, 130, force=5.0)  # which shows the mass, and nothing of slip
    spread = with_slip.prior.spread * np.array([0.3, 0.05])  # of the logarithm and logit
    draws = np.random.default_rng(0).standard_normal((200, 2))
    theta = to_bounded(with_slip.parameters, with_slip.prior.center + spread * draws)
    assert monitor.collapsed(particles.uniform(theta)) == ['slip']
    theta[:] = theta[0]
    assert monitor.collapsed(particles.uniform(theta)) == ['mass', 'slip']
    early = observed(with_slip, 60, force=5.0)
    assert early.collapsed(particles.uniform(theta)) == []


def test_a_reset_forgets(with_slip):
    one = ParticleFilter(with_slip, np.random.default_rng(0))
    for stamp, moment in resting(70):
        one.observe(stamp, moment, pushed(5.0))
    assert one.monitor.updates and one.monitor.innovations.statistics()
    one.reset()
    assert not one.monitor.updates and not one.monitor.innovations.statistics()
    assert np.array_equal(one.monitor.remaining, np.ones(2))


def test_what_is_certain_is_neither_learned_nor_flagged(make_task, task_data):
    data = task_data('slider')
    data['parameters']['mass']['prior'] = {'distribution': 'fixed', 'value': 2.0}
    task = make_task('slider', data)
    monitor = observed(task, 130, force=0.0)
    assert monitor.unidentifiable == []
    assert monitor.out_of_prior(particles.uniform(np.full((12, 1), 2.0))) == []
    assert np.array_equal(monitor.remaining, [1.0])


def test_a_model_that_diverges_is_counted(with_slip, monkeypatch):
    monitor = observed(with_slip, 2, force=1.0)
    assert monitor.diverged == 0
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

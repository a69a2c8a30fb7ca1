"""Costs are taken at x_0 .. x_H, where MuJoCo's own forward kinematics would take them."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError, SceneError
from emppi_ros.model.ensemble import Ensemble, Records, State
from emppi_ros.tasks.cost import Cost, at_plan_steps, bind_condition, bind_residual
from emppi_ros.tasks.residuals import norm
from emppi_ros.tasks.schema import Condition

M, K, H = 3, 2, 5
TERMS = {
    'reach': {'residual': 'distance', 'of': 'tip', 'to': 'goal', 'weight': 2.0},
    'slow': {
        'residual': 'joint_velocity',
        'joints': ['elbow'],
        'norm': 'squared',
        'weight': 0.1,
        'terminal_weight': 3.0,
    },
    'there': {
        'residual': 'joint_position',
        'joints': ['elbow'],
        'targets': [1.0],
        'norm': 'l1',
        'terminal_weight': 1.5,
    },
    'speed': {'residual': 'sensor', 'sensor': 'elbow_speed', 'norm': 'positive', 'weight': 0.3},
    'effort': {'residual': 'control', 'norm': 'squared', 'weight': 0.01},
}


def _roll_out(model, cost, substeps, start):
    rng = np.random.default_rng(3)
    controls = np.repeat(rng.normal(0.0, 0.5, (M, K, H, model.nu)), substeps, axis=2)
    controls = np.concatenate([controls, controls[:, :, -1:]], axis=2)
    records = Ensemble(model, [], M, K).rollout(start, controls, cost.record)
    return records, controls


def _naive(model, cost, start, controls, substeps):
    """Return running and terminal cost of one rollout from mj_forward at each plan step."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start
    stages = []
    for h in range(H + 1):
        data.ctrl[:] = controls[h * substeps]
        mujoco.mj_forward(model, data)
        values = cost.values({name: np.array(getattr(data, name)) for name in cost.record})
        stages.append(values)
        for control in controls[h * substeps : (h + 1) * substeps] if h < H else ():
            data.ctrl[:] = control
            mujoco.mj_step(model, data)
    running = [sum(t.weight * stage[t.name] for t in cost.terms) for stage in stages[:-1]]
    return running, sum(t.terminal_weight * stages[-1][t.name] for t in cost.terms)


@pytest.mark.parametrize('substeps', [1, 4])
@pytest.mark.parametrize('per_model', [False, True])
def test_costs_are_those_of_forward_kinematics_at_each_plan_step(two_link, substeps, per_model):
    cost = Cost.bind(two_link, TERMS, 'test')
    shape = (M, 2) if per_model else (2,)
    rng = np.random.default_rng(6)
    start = State(rng.normal(0.0, 0.5, shape), rng.normal(0.0, 1.0, shape))
    records, controls = _roll_out(two_link, cost, substeps, start)
    costs = cost.evaluate(records, start, substeps)
    assert costs.running.shape == (M, K, H) and costs.terminal.shape == (M, K)
    for m in range(M):
        here = State(start.qpos[m], start.qvel[m]) if per_model else start
        for k in range(K):
            running, terminal = _naive(two_link, cost, here, controls[m, k], substeps)
            # the states are the same bits; sums of five terms may be taken in another order
            np.testing.assert_allclose(costs.running[m, k], running, rtol=1e-14)
            np.testing.assert_allclose(costs.terminal[m, k], terminal, rtol=1e-14)


@pytest.mark.parametrize('substeps', [1, 3])
def test_fields_at_plan_steps_are_the_states_bit_for_bit(block, substeps):
    start = State(block.qpos0.copy(), np.full(block.nv, 0.1))
    controls = np.full((M, K, H * substeps + 1, 1), 0.8)
    names = ('qpos', 'qvel', 'xpos', 'site_xmat', 'sensordata')
    records = Ensemble(block, [], M, K).rollout(start, controls, names)
    fields = at_plan_steps(records, start, substeps)
    data = mujoco.MjData(block)
    data.qpos[:], data.qvel[:] = start
    data.ctrl[:] = 0.8
    for h in range(H + 1):
        mujoco.mj_forward(block, data)
        for name in names[:4]:
            expected = np.array(getattr(data, name))
            assert np.array_equal(fields[name][1, 1, h].ravel(), expected.ravel()), (name, h)
        for _ in range(substeps):
            mujoco.mj_step(block, data)


@pytest.mark.parametrize('bad', ['diverged', 'running', 'terminal'])
def test_a_rollout_with_one_cost_that_is_no_number_costs_infinity_as_a_whole(two_link, bad):
    cost = Cost.bind(two_link, {'there': {**TERMS['there'], 'weight': 1.0}}, 'test')
    qpos = np.zeros((M, K, H + 1, 2))
    diverged = np.zeros((M, K), dtype=bool)
    if bad == 'diverged':
        diverged[1, 0] = True
    else:
        qpos[1, 0, 2 if bad == 'running' else H - 1] = np.nan
    records = Records({'qpos': qpos}, diverged)
    costs = cost.evaluate(records, State(np.zeros(2), np.zeros(2)), 1)
    infinite = np.zeros((M, K), dtype=bool)
    infinite[1, 0] = True
    assert np.array_equal(np.isinf(costs.terminal), infinite)
    assert np.array_equal(np.isinf(costs.running), np.repeat(infinite[..., None], H, axis=2))


def test_weights_scale_terms_and_terms_add_up(two_link):
    start = State(np.array([0.3, 0.2]), np.array([0.1, 0.4]))
    whole = Cost.bind(two_link, TERMS, 'test')
    records, controls = _roll_out(two_link, whole, 2, start)
    total = whole.evaluate(records, start, 2)
    running, terminal = 0.0, 0.0
    for name, term in TERMS.items():
        double = {**term, 'weight': 2 * term.get('weight', 0.0)}
        double['terminal_weight'] = 2 * term.get('terminal_weight', 0.0)
        part = Cost.bind(two_link, {name: double}, 'test')
        costs = part.evaluate(_roll_out(two_link, part, 2, start)[0], start, 2)
        running, terminal = running + costs.running / 2, terminal + costs.terminal / 2
    # doubling and halving are exact; five terms are summed in another order
    np.testing.assert_allclose(total.running, running, rtol=1e-14)
    np.testing.assert_allclose(total.terminal, terminal, rtol=1e-14)


@pytest.mark.parametrize(
    ('term', 'kind', 'match'),
    [
        ({'residual': 'control', 'weight': 1, 'norm': 'l3'}, ConfigError, 'norm: .*l1, l2, squ'),
        ({'residual': 'control'}, ConfigError, 'both 0: the term has no effect'),
        (
            {'residual': 'control', 'weight': -1},
            ConfigError,
            'weight: found -1, expected a non-negative number',
        ),
        (
            {'residual': 'control', 'weight': 1, 'deadzone': -2.0},
            ConfigError,
            'deadzone: found -2.0, expected a non-negative number',
        ),
        ({'residual': 'control', 'weigth': 1}, ConfigError, 'both 0|weigth'),
        ({'residual': 'control', 'weight': 1, 'gain': 1}, ConfigError, "unknown key 'gain'"),
        ({'weight': 1}, ConfigError, "missing key 'residual'"),
        ({'residual': 'height', 'of': 'x', 'weight': 1}, SceneError, "geom 'x'.*site:tip"),
        ('far', ConfigError, "expected a mapping of keys, found 'far'"),
    ],
    ids=str,
)
def test_a_wrong_term_is_an_error_that_names_it(two_link, term, kind, match):
    with pytest.raises(kind, match=f'test: wrong.*({match})'):
        Cost.bind(two_link, {'wrong': term}, 'test')


@pytest.mark.parametrize('norm', ['l1', 'l2', 'squared', 'positive'])
def test_a_term_costs_what_is_beyond_its_dead_zone(two_link, norm):
    def value(deadzone: float, speed: float) -> float:
        term = {'residual': 'sensor', 'sensor': 'elbow_speed', 'norm': norm, 'weight': 1.0}
        cost = Cost.bind(two_link, {'speed': {**term, 'deadzone': deadzone}}, 'test')
        return float(cost.values({'sensordata': np.array([0.0, 0.0, 0.0, speed])})['speed'])

    assert value(2.0, 1.9) == value(2.0, 2.0) == 0.0
    assert value(2.0, 5.0) == pytest.approx(value(0.0, 3.0), rel=1e-14)  # rounding
    assert value(0.0, 5.0) == (25.0 if norm == 'squared' else 5.0)


def test_a_term_is_smoothed_beyond_its_dead_zone(two_link):
    term = {'residual': 'sensor', 'sensor': 'elbow_speed', 'weight': 1.0}
    cost = Cost.bind(two_link, {'speed': {**term, 'deadzone': 2.0, 'smoothing': 4.0}}, 'test')
    value = cost.values({'sensordata': np.array([0.0, 0.0, 0.0, 5.0])})['speed']
    assert value == pytest.approx(1.0, rel=1e-14)  # 3 beyond, and sqrt(3^2 + 4^2) - 4


def test_a_cost_without_terms_is_an_error(two_link):
    with pytest.raises(ConfigError, match='test: needs at least one term'):
        Cost.bind(two_link, {}, 'test')


def test_terms_add_up_to_the_cost_of_whole_rollouts(two_link):
    start = State(np.array([0.3, 0.2]), np.array([0.1, 0.4]))
    cost = Cost.bind(two_link, TERMS, 'test')
    records, _ = _roll_out(two_link, cost, 2, start)
    records.diverged[1, 0] = True
    terms, costs = cost.per_term(records, start, 2), cost.evaluate(records, start, 2)
    assert list(terms) == list(TERMS)
    # thirty numbers are summed in another order
    total = costs.running.sum(axis=-1) + costs.terminal
    np.testing.assert_allclose(sum(terms.values()), total, rtol=1e-13)
    assert np.isinf(sum(terms.values())).sum() == 1


def test_several_conditions_hold_where_each_does(two_link):
    distance = {'residual': 'distance', 'of': 'tip', 'to': 'goal'}
    first = {'residual': distance, 'below': 0.4, 'hold_s': 0.5}
    calm = {'residual': {'residual': 'joint_velocity', 'joints': ['elbow']}, 'below': 2.0}
    condition = config.build(Condition, [first, calm], 'success')
    assert condition.hold_s == 0.5 and len(condition.also) == 1
    whole = bind_condition(two_link, condition, 'success')
    parts = [bind_residual(two_link, entry['residual'], '') for entry in (first, calm)]
    alone = bind_condition(two_link, config.build(Condition, first, 'success'), 'success')
    rng, data = np.random.default_rng(0), mujoco.MjData(two_link)
    hold = []
    for _ in range(200):
        data.qpos[:], data.qvel[:] = rng.uniform(-1.5, 1.5, (2, two_link.nv))
        data.qvel *= 2.0
        mujoco.mj_forward(two_link, data)
        each = [norm(part, data) for part in parts]
        hold.append(each[0] < 0.4 and each[1] < 2.0)
        assert (norm(whole, data) < 0.4) == hold[-1]
        assert norm(alone, data) == each[0]
    assert 0.05 < np.mean(hold) < 0.95  # both cases occur
    with pytest.raises(ConfigError, match='hold_s: give it with the first'):
        config.build(Condition, [first, first], 'success')


def test_distances_that_are_not_between_pairs_are_errors(two_link):
    for wrong in ({'of': ['tip'], 'to': []}, {'of': [], 'to': []}):
        with pytest.raises(ConfigError, match='expected pairs'):
            bind_residual(two_link, {'residual': 'distances', **wrong}, '')
    with pytest.raises(ConfigError, match='either `to` or `point`'):
        bind_residual(two_link, {'residual': 'distance', 'of': 'tip'}, '')

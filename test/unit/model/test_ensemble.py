"""The ensemble is a plain loop of mj_step for every model and rollout, only quicker."""

from pathlib import Path
import tracemalloc

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import ConfigError, ParameterError, SceneError
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.parameters import Parameter, with_parameters

M, K, STEPS = 3, 2, 60
RECORD = ('qpos', 'qvel', 'site_xpos', 'xmat', 'sensordata', 'ctrl')
MASS = Parameter('mass', 'body_mass', 'lower', lower=0.01)
AXIS = Parameter('axis', 'jnt_axis', 'elbow', 0)
STIFFNESS = Parameter('stiffness', 'jnt_stiffness', 'shoulder', lower=0.0)
THETA = np.array([[0.2, 0.0], [0.5, 0.3], [2.0, -1.0]])


def _start(models=None, seed=4):
    rng = np.random.default_rng(seed)
    shape = (2,) if models is None else (models, 2)
    return State(rng.normal(0.0, 0.5, shape), rng.normal(0.0, 0.5, shape))


def _controls(seed=5, steps=STEPS):
    return np.random.default_rng(seed).normal(0.0, 0.6, (M, K, steps, 2))


def _loop(model, start, controls):
    """Return records and the final state of mj_step in a loop."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start
    rows = {name: [] for name in RECORD}
    for control in controls:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        for name in RECORD:
            rows[name].append(np.array(getattr(data, name)).ravel())
    return {name: np.array(values) for name, values in rows.items()}


@pytest.mark.parametrize('per_model', [False, True])
def test_a_rollout_is_a_loop_of_mj_step_bit_for_bit(two_link, per_model):
    ensemble = Ensemble(two_link, [MASS, AXIS], M, K)
    ensemble.write(THETA)
    start, controls = _start(M if per_model else None), _controls()
    records = ensemble.rollout(start, controls, RECORD)
    assert not records.diverged.any()
    for m in range(M):
        model = with_parameters(two_link, [MASS, AXIS], THETA[m])
        here = State(start.qpos[m], start.qvel[m]) if per_model else start
        for k in range(K):
            expected = _loop(model, here, controls[m, k])
            for name in RECORD:
                ours = records.fields[name][m, k].reshape(STEPS, -1)
                assert np.array_equal(ours, expected[name]), (m, k, name)


def test_each_rollout_may_begin_in_a_state_of_its_own(two_link):
    rng = np.random.default_rng(3)
    starts, controls = State(*rng.normal(0.0, 0.5, (2, M, K, 2))), _controls()
    ensemble = Ensemble(two_link, [MASS, AXIS], M, K, threads=1)
    ensemble.write(THETA)
    together = ensemble.rollout(starts, controls, ('qpos',)).fields['qpos'].copy()
    for k in range(K):
        one = State(starts.qpos[:, k], starts.qvel[:, k])
        alone = ensemble.rollout(one, controls, ('qpos',)).fields['qpos']
        assert np.array_equal(together[:, k], alone[:, k])


def test_contacts_are_the_same_bits_too(block):
    mass = Parameter('mass', 'body_mass', 'block', lower=0.01)
    ensemble = Ensemble(block, [mass], M, K)
    theta = np.array([[0.1], [0.4], [1.5]])
    ensemble.write(theta)
    start = State(block.qpos0.copy(), np.zeros(block.nv))
    controls = np.random.default_rng(1).uniform(0.0, 1.0, (M, K, 80, 1))
    fields = ensemble.rollout(start, controls, ('qpos',)).fields
    for m in range(M):
        model = with_parameters(block, [mass], theta[m])
        data = mujoco.MjData(model)
        for control in controls[m, 1]:
            data.ctrl[:] = control
            mujoco.mj_step(model, data)
        assert np.array_equal(fields['qpos'][m, 1, -1], data.qpos)
    assert fields['qpos'][:, :, -1, 1].min() > 0.01  # the block was pushed


def test_a_rollout_forgets_the_one_before_it(block):
    ensemble = Ensemble(block, [], 2, 2)
    start = State(block.qpos0.copy(), np.zeros(block.nv))
    push, rest = np.full((2, 2, 50, 1), 1.0), np.zeros((2, 2, 50, 1))
    first = ensemble.rollout(start, push, ('qpos',)).fields['qpos'].copy()
    ensemble.rollout(start, rest, ('qpos',))
    assert np.array_equal(ensemble.rollout(start, push, ('qpos',)).fields['qpos'], first)


def test_one_thread_and_two_give_the_same_bits(block):
    runs = []
    for threads in (1, 2):
        ensemble = Ensemble(block, [], 4, 3, threads=threads)
        start = State(block.qpos0.copy(), np.zeros(block.nv))
        controls = np.random.default_rng(2).uniform(-1.0, 1.0, (4, 3, 60, 1))
        runs.append(ensemble.rollout(start, controls, ('qpos', 'xpos')).fields)
    assert all(runs[0][name].tobytes() == runs[1][name].tobytes() for name in runs[0])


def test_a_prediction_is_the_end_of_a_rollout(two_link):
    ensemble = Ensemble(two_link, [MASS, AXIS], M, K)
    ensemble.write(THETA)
    start, controls = _start(M), _controls()[0, 0]
    same = np.broadcast_to(controls, (M, K, STEPS, 2))
    fields = ensemble.rollout(start, same, ('qpos', 'qvel')).fields
    predicted = ensemble.predict(start, controls, two_link.opt.timestep)
    assert np.array_equal(predicted.qpos, fields['qpos'][:, 0, -1])
    assert np.array_equal(predicted.qvel, fields['qvel'][:, 0, -1])


def test_a_prediction_uses_its_own_substep_and_gives_the_models_back(two_link):
    ensemble = Ensemble(two_link, [MASS, AXIS], M, K)
    ensemble.write(THETA)
    start, controls = _start(), _controls()
    before = ensemble.rollout(start, controls, ('qpos',)).fields['qpos'].copy()
    predicted = ensemble.predict(start, controls[0, 0], 0.0013)
    for m in range(M):
        model = with_parameters(two_link, [MASS, AXIS], THETA[m])
        model.opt.timestep = 0.0013
        assert np.array_equal(predicted.qpos[m], _loop(model, start, controls[0, 0])['qpos'][-1])
    assert np.array_equal(ensemble.rollout(start, controls, ('qpos',)).fields['qpos'], before)


def test_a_prediction_over_no_time_stays_and_shares_nothing(two_link):
    start = _start()
    predicted = Ensemble(two_link, [], M, K).predict(start, np.empty((0, 2)), 0.005)
    assert np.array_equal(predicted.qpos, np.tile(start.qpos, (M, 1)))
    predicted.qpos[0] = 9.0
    assert np.all(predicted.qpos[1] == start.qpos)


def test_writing_again_is_writing_to_a_fresh_ensemble(two_link):
    ensemble = Ensemble(two_link, [MASS, AXIS], M, K)
    rng = np.random.default_rng(8)
    theta = THETA.copy()
    ensemble.write(theta)
    for _ in range(5):
        theta = theta.copy()
        theta[rng.integers(M)] = rng.uniform(0.1, 2.0), rng.normal()
        ensemble.write(theta)
    fresh = Ensemble(two_link, [MASS, AXIS], M, K)
    fresh.write(theta)
    start, controls = _start(), _controls()
    ours = ensemble.rollout(start, controls, RECORD).fields
    theirs = fresh.rollout(start, controls, RECORD).fields
    assert all(np.array_equal(ours[name], theirs[name]) for name in RECORD)
    assert np.array_equal(ensemble.theta, theta)


def test_a_rejected_write_leaves_the_models_as_they_were(two_link):
    ensemble = Ensemble(two_link, [MASS, AXIS], M, K)
    ensemble.write(THETA)
    start, controls = _start(), _controls()
    before = ensemble.rollout(start, controls, ('qpos',)).fields['qpos'].copy()
    bad = THETA.copy()
    bad[2] = np.nan, 1.0
    with pytest.raises(ParameterError, match='mass: nan is not within'):
        ensemble.write(bad)
    ensemble.write(THETA)
    assert np.array_equal(ensemble.rollout(start, controls, ('qpos',)).fields['qpos'], before)


def test_the_nominal_model_is_never_changed(two_link):
    mass = two_link.body_mass.copy()
    ensemble = Ensemble(two_link, [MASS, AXIS], M, K)
    ensemble.write(THETA)
    ensemble.predict(_start(), _controls()[0, 0], 0.001)
    assert np.array_equal(two_link.body_mass, mass)
    assert two_link.opt.timestep == 0.005


def _diverging(model, monkeypatch, tmp_path):
    """Return an ensemble whose middle model is so stiff that it diverges."""
    monkeypatch.chdir(tmp_path)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER.value
    ensemble = Ensemble(model, [STIFFNESS], M, K)
    ensemble.write(np.array([[0.0], [1e9], [1.0]]))
    return ensemble


def test_a_stiff_model_diverges_alone_and_in_silence(two_link, monkeypatch, tmp_path, capfd):
    ensemble = _diverging(two_link, monkeypatch, tmp_path)
    start, controls = _start(), _controls()
    records = ensemble.rollout(start, controls, RECORD)
    assert records.diverged.tolist() == [[False] * K, [True] * K, [False] * K]
    for m, stiffness in ((0, 0.0), (2, 1.0)):
        model = with_parameters(two_link, [STIFFNESS], np.array([stiffness]))
        for k in range(K):
            expected = _loop(model, start, controls[m, k])
            assert np.array_equal(records.fields['qpos'][m, k], expected['qpos'])
    assert capfd.readouterr() == ('', '')
    assert list(Path.cwd().iterdir()) == []  # MuJoCo would leave a MUJOCO_LOG.TXT


def test_divergence_is_forgotten_by_the_next_rollout(two_link, monkeypatch, tmp_path):
    ensemble = _diverging(two_link, monkeypatch, tmp_path)
    assert ensemble.rollout(_start(), _controls(), ('qpos',)).diverged.any()
    ensemble.write(np.zeros((M, 1)))
    assert not ensemble.rollout(_start(), _controls(), ('qpos',)).diverged.any()


def test_a_prediction_that_diverges_is_nan_and_no_place_where_it_stopped(
    two_link, monkeypatch, tmp_path, capfd
):
    ensemble = _diverging(two_link, monkeypatch, tmp_path)
    predicted = ensemble.predict(_start(), _controls()[0, 0], two_link.opt.timestep)
    for values in predicted:
        assert np.isnan(values[1]).all()
        assert np.isfinite(values[[0, 2]]).all()
    assert capfd.readouterr() == ('', '')


def test_predictions_and_rollouts_of_ever_other_lengths_keep_no_memory(two_link):
    """A live belief's intervals differ each time: an hour of them must not add up."""
    ensemble = Ensemble(two_link, [], M, K)
    controls = np.zeros((M, K, 200, two_link.nu))

    tracemalloc.start()
    try:
        for n in [*range(1, 200), 1]:
            ensemble.predict(_start(), controls[0, 0, :n], two_link.opt.timestep)
            ensemble.rollout(_start(), controls[:, :, :n], ('qpos',))
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)  # not what Python caches
    kept = sum(trace.size for trace in snapshot.filter_traces([arrays]).traces)
    one_longest = M * K * 199 * two_link.nq * 8
    assert kept < one_longest  # all lengths would be a hundred times as much


def test_a_state_that_is_nan_diverges_in_its_model_only(two_link, monkeypatch, tmp_path, capfd):
    ensemble = _diverging(two_link, monkeypatch, tmp_path)
    ensemble.write(np.zeros((M, 1)))
    start = _start(M)
    start.qpos[2, 0] = np.nan
    records = ensemble.rollout(start, _controls(), ('qpos',))
    assert records.diverged.tolist() == [[False] * K, [False] * K, [True] * K]
    assert capfd.readouterr() == ('', '')
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize('bad', [np.nan, np.inf, 1e300])
def test_a_control_that_is_no_number_diverges_in_its_rollout_only(two_link, bad):
    ensemble = Ensemble(two_link, [], M, K)
    controls = _controls()
    controls[1, 0, 7, 1] = bad
    diverged = ensemble.rollout(_start(), controls, ('qpos',)).diverged
    assert np.argwhere(diverged).tolist() == [[1, 0]]


def test_parameters_of_the_wrong_shape_are_an_error(two_link):
    ensemble = Ensemble(two_link, [MASS], M)
    with pytest.raises(ParameterError, match=r'shape \(3, 2\); this ensemble has \(3, 1\).*mass'):
        ensemble.write(THETA)


def test_an_ensemble_of_a_body_that_is_not_there_is_an_error(two_link):
    with pytest.raises(SceneError, match='unknown body'):
        Ensemble(two_link, [Parameter('p', 'body_mass', 'box', lower=0.1)], M)
    with pytest.raises(ConfigError, match='both write'):
        Ensemble(two_link, [MASS, MASS], M)


def test_external_forces_are_those_of_mj_step_bit_for_bit(two_link):
    ensemble = Ensemble(two_link, [MASS, AXIS], M, K)
    ensemble.write(THETA)
    start, controls = _start(), _controls()
    applied = np.random.default_rng(9).normal(0.0, 0.3, (M, K, STEPS, 2))
    records = ensemble.rollout(start, controls, ('qpos', 'qvel'), applied)
    for m in range(M):
        model = with_parameters(two_link, [MASS, AXIS], THETA[m])
        for k in range(K):
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = start
            for step in range(STEPS):
                data.ctrl[:], data.qfrc_applied[:] = controls[m, k, step], applied[m, k, step]
                mujoco.mj_step(model, data)
                assert np.array_equal(records.fields['qpos'][m, k, step], data.qpos)
    without = ensemble.rollout(start, controls, ('qpos',))  # forces are forgotten
    assert np.array_equal(without.fields['qpos'][0, 0], _loop(
        with_parameters(two_link, [MASS, AXIS], THETA[0]), start, controls[0, 0]
    )['qpos'])  # fmt: skip


def test_steps_are_those_by_which_the_clocks_advance(two_link):
    ensemble, start = Ensemble(two_link, [], M, K), State(np.zeros(2), np.zeros(2))
    before, advanced = Ensemble.steps, 0.0
    for count in (5, 7):
        ensemble.rollout(start, np.zeros((M, K, count, 2)), ())
        advanced += np.sum(ensemble.batch.bind('time'))
    ensemble.predict(start, np.zeros((4, 2)), two_link.opt.timestep)
    advanced += np.sum(ensemble.batch.bind('time')[::K])  # one rollout of each model
    expected = M * K * 12 + M * 4
    assert Ensemble.steps - before == round(advanced / two_link.opt.timestep) == expected


def test_filters_of_actuators_have_settled_at_the_controls_before():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="j" axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/>'
        '</body></worldbody><actuator><general joint="j" dyntype="filterexact" dynprm="0.1" '
        'gainprm="3" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>'
    )
    ensemble = Ensemble(model, (), 1)
    start = State(np.array([0.1]), np.array([0.2]))
    controls = np.linspace(0.5, -0.4, 20)[:, None]
    for before, settled in ((None, 0.5), (np.array([7.0]), 1.0)):
        fields = ensemble.rollout(start, controls[None, None], ['qpos'], before=before).fields
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = start
        data.act[0] = settled
        for row, qpos in zip(controls, fields['qpos'][0, 0], strict=True):
            data.ctrl[:] = row
            mujoco.mj_step(model, data)
            assert data.qpos == pytest.approx(qpos, abs=1e-12)

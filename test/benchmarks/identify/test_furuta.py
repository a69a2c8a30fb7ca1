"""The pendulums of the paper of `states`: what is recorded, predicted and reported."""

import numpy as np
import pytest

from benchmarks.identify import friction_models, furuta, pendulums
from benchmarks.identify.families import FAMILIES

PULSE_RAD = 2.0 * np.pi / 4096


@pytest.mark.parametrize('kind', furuta.RECORDINGS)
def test_a_recording_starts_at_rest_and_is_what_encoders_read(kind):
    motion, finer = (furuta.record(case, 1) for case in (kind, f'{kind}, 1 ms'))
    for one in (motion, finer):
        pulses = one.qpos / PULSE_RAD
        np.testing.assert_allclose(pulses, np.round(pulses), atol=1e-8)  # rounding of 1e5 pulses
    assert np.array_equal(motion.qpos[0], finer.qpos[0])
    start = motion.qpos[:4] if kind == 'release' else motion.qpos[:2]
    assert np.abs(start - start[0]).max() < 0.01  # rad, in 20 or 10 ms
    assert motion.ctrl.any() == (kind != 'release')
    assert not np.array_equal(motion.qpos, finer.qpos)


def test_a_rollout_with_true_parameters_differs_by_the_encoders_only():
    plant, motion = pendulums.furuta_plant(), furuta.record('pulse', 1)
    # half a pulse at the start, of a motion that does not diverge
    assert furuta.rollout_error(plant, pendulums.FURUTA_TRUTH, motion) < 20.0 * PULSE_RAD
    wrong = pendulums.FURUTA_TRUTH * np.array([1.1 if i == 12 else 1.0 for i in range(13)])
    assert furuta.rollout_error(plant, wrong, motion) > 100.0 * PULSE_RAD


def test_a_turn_more_is_no_error():
    plant, motion = pendulums.furuta_plant(), furuta.record('pulse', 1)
    turned = motion.qpos.copy()
    turned[2:, 0] += 2.0 * np.pi
    other = pendulums.observe(turned, motion.ctrl)
    errors = [furuta.rollout_error(plant, pendulums.FURUTA_TRUTH, m) for m in (motion, other)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)


@pytest.mark.slow
def test_a_recording_of_the_model_is_identified_and_predicts_the_others():
    values = furuta.measure('swing-up', furuta.OURS, 1)
    assert set(values) == set(FAMILIES['furuta-weight'].measures)
    assert values['inertia'] < 1.0 and values['gain'] < 0.1 and values['tilt'] < 1.0
    true = furuta.measure('swing-up', furuta.TRUE, 1)
    for kind in furuta.RECORDINGS:
        assert values[kind] < 1.5 * true[kind] + PULSE_RAD
    # the gain moves nothing in a release: it stays where the search began
    assert furuta.measure('release', furuta.OURS, 1)['gain'] == pytest.approx(31.3, abs=0.1)


@pytest.mark.slow
def test_friction_models_rank_as_in_the_paper():
    viscous, dry, stribeck = (
        friction_models.measure('release', method, 3)
        for method in FAMILIES['friction-models'].methods
    )
    assert viscous['cost'] > dry['cost'] > stribeck['cost']
    # encoders alone cost pulse^2 / 12; states fit about a tenth of it
    assert 0.8 < stribeck['cost'] / (PULSE_RAD**2 / 12.0) < 1.3
    assert viscous['rollout'] > stribeck['rollout']
    assert stribeck['inertia'] < 0.1

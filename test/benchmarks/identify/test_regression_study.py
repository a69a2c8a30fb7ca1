"""The benchmark of regression: data as in the paper, correct baselines, and a table."""

import importlib
import json

import numpy as np
import pytest

from benchmarks.identify import regression_study
from benchmarks.identify.regression_study import RELEVANT, RegressionSetup
from emppi_ros.cli import main
from emppi_ros.core.errors import IdentificationError

TRUE = np.arange(1.0, 11.0)


@pytest.mark.parametrize('covariance', ['wishart', 'mild'])
def test_generated_data_match_the_papers_description(covariance):
    setup = RegressionSetup(30, 60, input_snr=2.0, rows=40_000, covariance=covariance)
    data = regression_study.generate_data(setup, np.random.default_rng(3))
    assert data.x.shape == data.clean_x.shape == (40_000, 100)
    # variances of 40 000 normal draws have standard errors of sqrt(2 / 40 000) = 0.7 %; five of
    # these, for both
    ratio = data.clean_x[:, :RELEVANT].var(axis=0) / data.x[:, :RELEVANT].var(axis=0)
    np.testing.assert_allclose(ratio, 2.0 / 3.0, rtol=0.07)
    assert data.clean_y.var() / data.y.var() == pytest.approx(5.0 / 6.0, rel=0.07)
    np.testing.assert_allclose(data.x[:, 40:].var(axis=0), 1.0, rtol=0.035)
    np.testing.assert_allclose(data.clean_y, data.clean_x[:, :10] @ TRUE, rtol=1e-9)
    for x in (data.x, data.clean_x):  # the same convex combinations of noisy and clean inputs
        mixed = np.linalg.lstsq(x[:, :10], x[:, 10:40], rcond=None)[0]
        assert mixed.min() > -1e-9
        np.testing.assert_allclose(mixed.sum(axis=0), 1.0, rtol=1e-9)


def test_true_coefficients_have_error_zero_and_zero_coefficients_error_one():
    data = regression_study.generate_data(RegressionSetup(0, 90, 5.0), np.random.default_rng(0))
    assert regression_study.prediction_error(np.r_[TRUE, np.zeros(90)], data) < 1e-20  # rounding
    # the squared standard error of the mean of 1000 outputs is a thousandth
    assert regression_study.prediction_error(np.zeros(100), data) == pytest.approx(1.0, abs=0.02)


def test_without_noise_all_baselines_recover_the_coefficients():
    pytest.importorskip('sklearn', reason='the extra `identify` is not installed')
    rng = np.random.default_rng(1)
    x = rng.normal(2.0, 3.0, (400, 4))
    b = np.array([1.0, -2.0, 3.0, 0.5])
    for name, method in regression_study.baselines().items():
        # regularized methods shrink: the LASSO by a thousandth of its largest weight
        np.testing.assert_allclose(method(x, x @ b + 1.0), b, rtol=0.02, err_msg=name)


@pytest.mark.parametrize('covariance', ['wishart', 'mild'])  # one for each of the two methods
def test_every_method_leaves_out_a_constant_input(covariance):
    setup = RegressionSetup(0, 5, 2.0, covariance=covariance)
    data = regression_study.generate_data(setup, np.random.default_rng(0))
    more = np.insert(data.x, 3, 1e9 + 0.1, axis=1)  # so large that its mean is rounded
    found = regression_study.regress_noisy_inputs(more, data.y)
    assert found[3] == 0.0
    np.testing.assert_array_equal(
        np.delete(found, 3), regression_study.regress_noisy_inputs(data.x, data.y)
    )
    with pytest.raises(IdentificationError, match='none changes'):
        regression_study.regress_noisy_inputs(more[:, 3:4], data.y)


def test_total_least_squares_is_unbiased_if_all_columns_have_equal_noise():
    pytest.importorskip('sklearn', reason='the extra `identify` is not installed')
    from benchmarks.identify import regression_baselines

    rng = np.random.default_rng(2)
    t = rng.standard_normal((200_000, 2))
    b = np.array([1.0, -0.5])
    x, y = t + 0.5 * rng.standard_normal(t.shape), t @ b + 0.5 * rng.standard_normal(len(t))
    # standard errors of about 1 / sqrt(200 000) = 0.002; times five
    np.testing.assert_allclose(regression_baselines.total_least_squares(x, y), b, atol=0.012)
    # ... and least squares underestimates by 1 / (1 + 0.25)
    np.testing.assert_allclose(regression_baselines.least_squares(x, y), 0.8 * b, atol=0.012)
    # a redundant input, whose noise is correlated, has a small effect
    again = regression_baselines.total_least_squares(np.column_stack([x, x @ [0.3, 0.7]]), y)
    np.testing.assert_allclose(again[:2] + again[2] * np.array([0.3, 0.7]), b, atol=0.05)


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    def missing(_name):
        raise ModuleNotFoundError(name='sklearn')

    monkeypatch.setattr(importlib, 'import_module', missing)
    with pytest.raises(IdentificationError, match=r"sklearn is not .*'emppi_ros\[identify\]'"):
        regression_study.baselines()


def test_the_command_prints_every_panel_and_method(monkeypatch, capsys):
    methods = {'default': regression_study.own_methods()['default']}
    others = {'mean': lambda x, y: np.zeros(x.shape[1])}
    monkeypatch.setattr(regression_study, 'own_methods', lambda: methods)
    monkeypatch.setattr(regression_study, 'baselines', lambda: others)
    assert main(['bench', 'identify', '--trials', '1', '--rows', '200', '--json']) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    panels = [(p['input_snr'], p['redundant'], p['irrelevant']) for p in found['panels']]
    assert panels == [
        (snr, *mixture) for snr in (2.0, 5.0) for mixture in regression_study.MIXTURES
    ]
    for panel in found['panels']:
        assert set(panel['errors']) == {'default', 'mean'} and panel['best_baseline'] == 'mean'
        ratio = 1.0 - panel['errors']['default'] / panel['errors']['mean']
        assert panel['below_best_percent']['default'] == pytest.approx(100.0 * ratio)
    assert main(['bench', 'identify', '--trials', '1', '--rows', '200']) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(panels)

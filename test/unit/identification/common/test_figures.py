"""Pictures of a posterior say what its particles are."""

import numpy as np
import pytest

from emppi_ros.identification.common import figures
from emppi_ros.identification.common.plant import UnknownParameter


def test_pairs_have_intervals_correlations_and_the_truth() -> None:
    rng = np.random.default_rng(0)
    mass = rng.normal(2.0, 0.1, 400)
    theta = np.stack([mass, 3.0 * mass + rng.normal(0.0, 0.4, 400), np.full(400, 0.5)], axis=1)
    unknowns = [UnknownParameter(name, unit, 1.0) for name, unit in
                (('mass', 'kg'), ('damping', 'N s/m'), ('length', 'm'))]  # fmt: skip
    figure = figures.draw_pairs(unknowns, theta, np.array([2.1, 6.0, 0.5]))
    axes = np.reshape(figure.axes, (3, 3))
    lines = [line.get_xdata()[0] for line in axes[0, 0].lines]
    assert lines[:3] == pytest.approx(np.quantile(mass, [0.05, 0.5, 0.95]).tolist())
    assert lines[3] == pytest.approx(2.1)
    (words,) = axes[0, 1].texts
    assert float(words.get_text()) == pytest.approx(np.corrcoef(theta.T[:2])[0, 1], abs=0.006)
    assert axes[0, 2].texts[0].get_text() == '+0.00'  # no spread, no correlation
    assert axes[2, 1].get_xlabel() == 'damping [N s/m]'
    assert not any(line.get_color() == 'tab:red' for line in figures.draw_pairs(
        unknowns, theta).axes[0].lines)  # fmt: skip

"""The sysid method rejects divergent steps, and reports divergent starts."""

import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.csvgd import csvgd, window_search
from emppi_ros.identify.csvgd.shooting import MultipleShooting


def test_a_step_that_diverges_is_not_taken_and_a_start_that_does_is_an_error(swing, monkeypatch):
    found = window_search.ResidualFunction(MultipleShooting(swing, 1, 3, threads=1), 1e4)
    z = csvgd.initial_particles(found.shooter)[0]
    before, simulate = found.value(z), found.shooter.simulate

    def diverging(point):
        windows = simulate(point)
        return windows._replace(diverged=~windows.diverged)

    monkeypatch.setattr(found.shooter, 'simulate', diverging)
    assert np.all(found.value(z + 0.1) ** 2 > 1e90)
    with pytest.raises(IdentificationError, match='the model diverges'):
        window_search.ResidualFunction(found.shooter, 1e4).value(z)
    monkeypatch.undo()
    np.testing.assert_array_equal(found.value(z), before)

"""Particles that workers of a cluster simulate: the same bits, and an error if it goes away."""

import importlib

import numpy as np
import pytest

from emppi_ros.core.errors import ClusterError, IdentificationError
from emppi_ros.identify.csvgd import csvgd
from emppi_ros.identify.csvgd.csvgd import Settings
from emppi_ros.identify.csvgd.simulation import Recipe, Simulation
from emppi_ros.parallel import workers

SETTINGS = Settings(particles=5, iterations=10, windows=3)  # on two threads: blocks of 3 and 2


def test_a_cluster_changes_no_bit_and_is_an_error_when_it_dies(cluster, swing, monkeypatch):
    module = importlib.import_module('emppi_ros.parallel.cluster')
    monkeypatch.setattr(module, 'PATIENCE_S', 0.5)
    monkeypatch.setattr(module, 'LOOK_S', 0.1)
    here = csvgd.infer(swing, SETTINGS, 1)
    recipe = Recipe(swing, SETTINGS.windows, SETTINGS.likelihood)
    with workers.shared(recipe, cluster.address) as share:
        there = csvgd.infer(swing, SETTINGS, 1, share=share)
        for one, other in zip(there, here, strict=True):
            np.testing.assert_array_equal(one, other)
        simulation, z = Simulation(recipe, 5, share=share), here.z.copy()
        z[3:, -1] = np.nan  # all of one block
        np.testing.assert_array_equal(np.isfinite(simulation.density(z).log_p), [1, 1, 1, 0, 0])
        z[:, -1] = np.nan
        with pytest.raises(IdentificationError, match='all particles diverge'):
            simulation.density(z)
    seen = []

    def kill(now):
        seen.append(now.iteration)
        if now.iteration == 4:
            cluster.kill('worker')

    def infer():
        with workers.shared(recipe, cluster.address) as share:
            csvgd.infer(swing, SETTINGS, 1, kill, share=share)

    with pytest.raises(ClusterError, match=f'cluster at {cluster.address} went away: '):
        infer()
    assert seen == [0, 1, 2, 3, 4]

"""One process, several, or a cluster give the same rows; a lost cluster is an error."""

import dataclasses
import importlib
import itertools
import time

import pytest

from benchmarks.paper.cells import Row
from benchmarks.paper.compute import compute
from benchmarks.row_store import RowStore, complete
from emppi_ros.core.errors import ClusterError, ConfigError
from emppi_ros.parallel import workers

CLOCK = {'plan_ms': None, 'plan_p99_ms': None, 'compute_s': 0.0}


def _bits(rows):
    """Return rows without what the clock says, by their keys."""
    return {row.key: repr(dataclasses.replace(row, **CLOCK)) for row in rows}


@pytest.mark.slow
def test_several_processes_give_the_rows_of_one(small_cells):
    pytest.importorskip('joblib', reason='joblib is not installed (extra `bench`)')
    cells = small_cells(3)
    assert _bits(workers.spread(compute, cells, jobs=2)) == _bits(
        workers.spread(compute, cells, jobs=1)
    )


def test_work_without_threads_is_spread_too():
    pytest.importorskip('joblib', reason='joblib is not installed (extra `bench`)')
    assert sorted(workers.spread(abs, [-1, -2], jobs=2)) == [1, 2]


@pytest.mark.parametrize(
    ('arguments', 'extra', 'missing'),
    [((2, None), 'bench', 'joblib'), ((1, 'tcp://x:1'), 'cluster', 'distributed')],
)
def test_a_missing_package_names_its_extra(monkeypatch, arguments, extra, missing):
    def absent(name):
        raise ModuleNotFoundError(f'No module named {missing!r}', name=missing)

    monkeypatch.setattr(importlib, 'import_module', absent)
    with pytest.raises(
        ConfigError, match=rf"'{missing}' is not installed: .*emppi_ros\[{extra}\]"
    ):
        workers.check(*arguments)


def test_one_process_needs_no_package(monkeypatch, small_cells):
    monkeypatch.setattr(importlib, 'import_module', None)
    workers.check(1, None)
    assert len(list(workers.spread(compute, small_cells(1), jobs=1))) == 1


@pytest.mark.slow
def test_a_cluster_that_dies_is_an_error_and_its_rows_are_kept(
    cluster, tmp_path, monkeypatch, small_cells
):
    module = importlib.import_module('emppi_ros.parallel.cluster')
    monkeypatch.setattr(module, 'PATIENCE_S', 1.0)
    monkeypatch.setattr(module, 'LOOK_S', 0.1)
    cells, kept = small_cells(60), RowStore(tmp_path / 'out', Row)

    def compute_missing(missing):
        return workers.spread(compute, missing, scheduler=cluster.address)

    def kills(kind, after):
        return lambda done: cluster.kill(kind) if done == after else None

    first = complete(kept, cells[:4], compute_missing)
    assert _bits(first) == _bits(workers.spread(compute, cells[:4], jobs=1))
    with pytest.raises(ClusterError, match='went away: it has no worker any more'):
        complete(kept, cells, compute_missing, kills('worker', 7))
    count = len(RowStore(tmp_path / 'out', Row).finished(cells))
    assert 7 <= count < len(cells)
    cluster.add_worker()
    with pytest.raises(ClusterError, match='went away: its scheduler no longer answers'):
        complete(kept, cells, compute_missing, kills('scheduler', count + 2))
    assert count + 2 <= len(RowStore(tmp_path / 'out', Row).finished(cells)) < len(cells)


def test_an_unreachable_scheduler_is_an_error(monkeypatch, small_cells):
    module = pytest.importorskip('emppi_ros.parallel.cluster', reason='Dask is not installed')
    monkeypatch.setattr(module, 'CONNECT_S', 0.5)
    for address in ('tcp://127.0.0.1:1', 'nothing://here', 'tcp://127.0.0.1:port'):
        with pytest.raises(ClusterError, match=f'--scheduler {address}: no scheduler answers'):
            list(workers.spread(compute, small_cells(1), scheduler=address))


class Fake:
    """Stands in for a client of a cluster that is not as it should be."""

    def __init__(self, wrong: Exception | None = None, spec: object = True) -> None:
        self._wrong, self._spec, self.closed = wrong, spec, False

    def submit(self, *_: object, **__: object) -> 'Fake':
        return self

    def result(self, timeout: float) -> None:
        if self._wrong is not None:
            raise self._wrong

    def run(self, *_: object) -> dict[str, object]:
        return {'tcp://worker': self._spec}

    def close(self, timeout: float) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ('fake', 'words'),
    [
        (Fake(wrong=TimeoutError()), 'no worker that does anything'),
        (Fake(wrong=ModuleNotFoundError()), 'a worker has no emppi_ros'),
        (Fake(spec=None), 'a worker has no emppi_ros, or an older one'),
    ],
)
def test_an_unsuitable_cluster_is_refused_with_a_reason(monkeypatch, small_cells, fake, words):
    module = pytest.importorskip('emppi_ros.parallel.cluster', reason='Dask is not installed')
    monkeypatch.setattr(module, 'Client', lambda *_, **__: fake)
    with pytest.raises(ClusterError, match=f'--scheduler tcp://x:1: .*{words}'):
        list(workers.spread(compute, small_cells(1), scheduler='tcp://x:1'))
    assert fake.closed


def test_waiting_for_a_lost_cluster_ends(monkeypatch, make_row):
    module = pytest.importorskip('emppi_ros.parallel.cluster', reason='Dask is not installed')
    monkeypatch.setattr(module, 'LOOK_S', 0.01)
    monkeypatch.setattr(module, 'PATIENCE_S', 0.02)
    looks = itertools.chain(['gone', None, None], itertools.repeat('gone'))  # well in between

    def hangs():
        yield make_row()
        time.sleep(3600)

    found = module.watched(hangs, lambda: next(looks))
    assert next(found) == make_row()
    with pytest.raises(ClusterError, match='gone'):
        next(found)


def test_an_error_of_a_cell_is_not_blamed_on_the_cluster():
    module = pytest.importorskip('emppi_ros.parallel.cluster', reason='Dask is not installed')

    def fails():
        raise ConfigError('a cell is wrong')
        yield

    with pytest.raises(ConfigError, match='a cell is wrong'):
        list(module.watched(fails, lambda: 'gone'))

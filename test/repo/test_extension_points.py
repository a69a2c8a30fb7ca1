"""
Each extension point takes a new entry through its registry alone.

The dummies stand for a new file; `monkeypatch.setitem` stands for the line that registers it.
Backends, identification methods and benchmark studies have such a test beside their own tests.
"""

from collections.abc import Callable
import dataclasses
from dataclasses import dataclass
from pathlib import Path
import re

import command_series
import mujoco
import numpy as np
import pytest

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.core.config import key
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.fields import FIELDS, Access, Field
from emppi_ros.model.parameters import nominal_values, with_parameters
from emppi_ros.priors import prior_file
from emppi_ros.priors.distributions import DISTRIBUTIONS, Distribution
from emppi_ros.priors.resampling import RESAMPLERS
from emppi_ros.strategies import risk
from emppi_ros.strategies.risk import MEASURES
from emppi_ros.strategies.strategy import STRATEGIES, Strategy, white_noise
from emppi_ros.tasks.norms import NORMS
from emppi_ros.tasks.residuals import RESIDUALS, Residual
from emppi_ros.tasks.task import Task
from emppi_ros.tasks.validation import initial_cost

ROOT = Path(__file__).resolve().parents[2]
Load = Callable[..., Task]


@pytest.fixture
def load(make_task, task_data) -> Load:
    """Return a function that loads the slider task with one value of its YAML replaced."""

    def load(path: tuple[str, ...], value: object) -> Task:
        data = task_data('slider')
        place = data
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
        return make_task('slider', data)

    return load


def run(task: Task) -> ClosedLoop:
    loop = ClosedLoop(task, seed=0)
    loop.run(0.2, stop_at_success=False)
    return loop


@dataclass(frozen=True)
class Offset:
    """Position of a joint minus an offset."""

    joint: str = key(doc='a joint')
    offset: float = key(0.0, doc='offset [m]')

    def bind(self, model: mujoco.MjModel) -> Residual:
        row = model.jnt_qposadr[model.joint(self.joint).id]
        return Residual(('qpos',), lambda f: f['qpos'][..., [row]] - self.offset)


def test_a_residual_is_one_class_and_one_line(monkeypatch, load) -> None:
    monkeypatch.setitem(RESIDUALS, 'offset', Offset)
    term = {'residual': 'offset', 'joint': 'x', 'offset': 0.3, 'weight': 2.0}
    task = load(('cost',), {'offset': term})
    assert initial_cost(task) == {'offset': pytest.approx(0.3)}
    assert run(task).plan is not None


def test_a_norm_is_one_function_and_one_line(monkeypatch, load) -> None:
    monkeypatch.setitem(NORMS, 'huber', lambda r: np.sum(np.sqrt(1.0 + r**2) - 1.0, axis=-1))
    task = load(('cost', 'reach', 'norm'), 'huber')
    assert initial_cost(task) == {'reach': pytest.approx(np.sqrt(1.25) - 1.0)}
    assert run(task).plan is not None


def test_a_field_is_one_entry_with_reader_and_writer(monkeypatch, load) -> None:
    def read(model: mujoco.MjModel, index: int, element: int) -> float:
        return float(model.dof_damping[model.jnt_dofadr[index]])

    def write(expand, nominal, index, element, values) -> None:
        expand('dof_damping')[:, nominal.jnt_dofadr[index]] = values

    field = Field('joint', 'N s/m', 'a copy', floor=0.0, access=Access(read, write))
    monkeypatch.setitem(FIELDS, 'drag', field)
    prior = {'distribution': 'uniform', 'lower': 0.1, 'upper': 2.0}
    entry = {'field': 'drag', 'of': 'x', 'lower': 0.01, 'unit': 'N s/m', 'prior': prior}
    task = load(('parameters', 'mass'), entry)
    assert nominal_values(task.parameters, task.model) == [0.5]
    assert with_parameters(task.model, task.parameters, np.array([1.5])).dof_damping[0] == 1.5
    loop = run(task)
    assert np.all((loop.planner.ensemble.theta > 0.01) & (loop.planner.ensemble.theta != 0.5))


def test_a_resampler_is_one_function_and_one_line(monkeypatch, load) -> None:
    def mode(config, z, log_weights, rng):
        parents = np.full(len(z), np.argmax(log_weights))
        return z[parents], parents

    monkeypatch.setitem(RESAMPLERS, 'mode', mode)
    task = load(('belief', 'resampling'), {'scheme': 'mode', 'ess_fraction': 2.0})
    fixed = dataclasses.replace(task.belief.likelihood, scale='fixed')
    task.belief = dataclasses.replace(task.belief, likelihood=fixed, changes=None)
    assert np.ptp(run(task).filter.belief.theta) == 0.0


def test_a_strategy_is_two_functions_and_one_line(monkeypatch, load) -> None:
    def uniform(costs, log_prior, temperature):
        return np.full_like(costs, 1.0 / len(costs))

    monkeypatch.setitem(STRATEGIES, 'mean', Strategy(white_noise, uniform, True, False))
    loop = run(load(('planner', 'strategy'), 'mean'))
    _, info = loop.planner.plan_from(loop.task.start(), 0.0, 0.05, command_series.held([0.1]))
    assert np.allclose(info.weights.sum(axis=0), 1.0 / info.weights.shape[1])


def test_a_measure_of_risk_is_one_function_and_one_line(monkeypatch) -> None:
    monkeypatch.setitem(MEASURES, 'best', lambda costs, belief: costs.min(axis=0))
    assert risk.choose('best')(np.array([[[2.0]], [[1.0]]]), np.ones(2)) == 1.0


def test_a_prior_distribution_is_one_entry(monkeypatch, load, tmp_path) -> None:
    def sample(rng, count, lower, upper):
        return rng.triangular(lower, 0.5 * (lower + upper), upper, count)

    def log_density(x, lower, upper):
        return np.log(np.maximum(0.5 * (upper - lower) - np.abs(x - 0.5 * (lower + upper)), 0.0))

    triangular = Distribution(('lower', 'upper'), sample, log_density)
    monkeypatch.setitem(DISTRIBUTIONS, 'triangular', triangular)
    prior = {'distribution': 'triangular', 'lower': 1.0, 'upper': 3.0}
    task = load(('parameters', 'mass', 'prior'), prior)
    assert run(task).planner.ensemble.theta.min() > 0.01
    draws = task.prior.sample(1000, np.random.default_rng(0))
    assert draws.min() > 1.0 and draws.max() < 3.0
    entry = prior_file.ParameterPrior('kg', prior=task.priors[0])
    prior_file.write(tmp_path / 'p.yaml', prior_file.PriorFile('test', (), {'mass': entry}))
    assert task.with_prior(str(tmp_path / 'p.yaml')).prior.priors == [*task.priors]


@pytest.mark.parametrize(
    ('registry', 'path', 'value'),
    [
        (RESIDUALS, ('cost', 'reach', 'residual'), 'none'),
        (NORMS, ('cost', 'reach', 'norm'), 'none'),
        (FIELDS, ('parameters', 'mass', 'field'), 'none'),
        (RESAMPLERS, ('belief', 'resampling'), {'scheme': 'none'}),
        (DISTRIBUTIONS, ('parameters', 'mass', 'prior'), {'distribution': 'none'}),
        (STRATEGIES, ('planner', 'strategy'), 'none'),
    ],
    ids=['residual', 'norm', 'field', 'resampler', 'distribution', 'strategy'],
)
def test_an_unknown_name_is_an_error_that_lists_what_is_registered(
    monkeypatch, load, registry, path, value
) -> None:
    monkeypatch.setitem(registry, 'dummy', next(iter(registry.values())))
    with pytest.raises(ConfigError, match="'none'") as error:
        load(path, value)
    assert all(re.search(rf'\b{re.escape(name)}\b', str(error.value)) for name in registry)


def test_contributing_lists_every_extension_point() -> None:
    table = (
        (ROOT / 'CONTRIBUTING.md').read_text().split('## Extension points')[1].split('\n## ')[0]
    )
    rows = [line.split('|') for line in table.splitlines() if line.startswith('| ')][2:]
    assert len(rows) == 21
    for _, _, where, line, test, _ in rows:
        for path in re.findall(r'`([\w./]+/[\w./]*)`', where + line + test):
            assert (ROOT / path).exists(), path
        name, registry = re.search(r'`([A-Z_]+)` in `([\w./]+)`', line).groups()
        assert re.search(rf'^{name}\b.*=', (ROOT / registry).read_text(), re.MULTILINE), line
        assert name in (ROOT / re.search(r'`(.+)`', test)[1]).read_text(), test

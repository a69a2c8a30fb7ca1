"""The experiments of `emppi bench csvgd`; a new one is an entry here."""

from collections.abc import Mapping

from benchmarks.csvgd import box, pendulums
from benchmarks.csvgd.cells import CsvgdCell, Experiment, Judged, estimate
from benchmarks.csvgd.estimators import ESTIMATORS, SamplerBudget
from emppi_ros.core.errors import BenchError

PENDULUM_BUDGET = SamplerBudget(24, 100)
EMPTY_BUDGET, WEIGHTS_BUDGET = SamplerBudget(24, 50), SamplerBudget(24, 80)
WINDOWS, BOX_WINDOWS = 10, 4
_DIVERGENCES = {
    'kl_real_sim': 'KL(real, simulated) [nats]',
    'kl_sim_real': 'KL(simulated, real) [nats]',
    'mmd': 'MMD^2',
}
_PENDULUMS = tuple((name, windows) for name in ESTIMATORS for windows in (1, WINDOWS))
_BOX_CODE = ('benchmarks/csvgd/box.py', 'emppi_ros/model/assets/panda.xml')
_PENDULUM_CODE = ('benchmarks/csvgd/pendulums.py', 'benchmarks/assets/double_pendulum.xml')


def _simulated(cell: CsvgdCell) -> Judged:
    problem, _ = pendulums.pendulum(cell.seed)
    theta = estimate(cell, problem)
    return pendulums.compare_simulated(problem, theta, cell.seed), theta


def _real(cell: CsvgdCell) -> Judged:
    if cell.folder is None:
        raise BenchError('real-pendulum: give the folder of the recordings: --data FOLDER')
    first, *held_out = pendulums.read_real(cell.folder)
    problem = pendulums.real_problem(first)
    theta = estimate(cell, problem)
    return pendulums.compare_real(problem, held_out, theta, cell.seed), theta


def _empty(cell: CsvgdCell) -> Judged:
    problem, truth = box.box_problem(1, cell.seed)
    theta = estimate(cell, problem)
    values = box.judge_intervals(theta, truth)
    return values | box.forecast_box(problem, theta, truth, cell.seed), theta


def _weights(cell: CsvgdCell) -> Judged:
    problem, truth = box.box_problem(2, cell.seed)
    theta = estimate(cell, problem)
    values = box.judge_weights(theta, truth)
    return values | box.forecast_box(problem, theta, truth, cell.seed), theta


EXPERIMENTS: Mapping[str, Experiment] = {
    'simulated-pendulum': Experiment(
        'eleven parameters of a simulated double pendulum', _PENDULUMS, PENDULUM_BUDGET, 1,
        {**_DIVERGENCES, 'error': 'rms error of states, in units of their spread'},
        _simulated, _PENDULUM_CODE,
    ),
    'real-pendulum': Experiment(
        'the same of a real one (needs --data)', _PENDULUMS, PENDULUM_BUDGET, 1,
        {
            **_DIVERGENCES,
            'error': 'median error of angles over half a second [rad]',
            'error_quarter': 'the same over its first quarter [rad]',
        },
        _real, _PENDULUM_CODE, recorded=True,
    ),
    'empty-box': Experiment(
        'inertia, centre and friction of a box that a Panda shakes', [('csvgd', 1)],
        EMPTY_BUDGET, 6, {}, _empty, _BOX_CODE,
    ),
    'weights': Experiment(
        'places of two weights in the box', [*((name, 1) for name in ESTIMATORS),
        ('csvgd', BOX_WINDOWS)], WEIGHTS_BUDGET, 2,
        {
            'first': 'share of particles nearer to the first mode',
            'near': f'share within {1e3 * box.NEAR_M:g} mm, in the first and the second mode',
            'distance_mm': 'median distance to the nearest mode [mm]',
            'log_density': 'log density of the held-out motion [nats a number]',
            'forecast_mm': 'rms error of points in it [mm]',
        },
        _weights, _BOX_CODE, pictured=True,
    ),
}  # fmt: skip

"""The registry of strategies: `planner: strategy` of a task."""

from emppi_ros.strategies import cem, emppi, mppi, predictive_sampling
from emppi_ros.strategies.strategy import Strategy

STRATEGIES: dict[str, Strategy] = {
    'emppi': emppi.STRATEGY,
    'mppi': mppi.STRATEGY,
    'cem': cem.STRATEGY,
    'predictive_sampling': predictive_sampling.STRATEGY,
}

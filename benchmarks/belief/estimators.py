"""
Estimators: the protocol that all of them fulfil, and their registry.

To add one, derive a class from `GaussianEstimator`, or fulfil `ParameterEstimator`, in a module of
its own, and name it in ESTIMATORS.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
import importlib
import time
from typing import Any, Protocol

import numpy as np
from scipy import stats

from emppi_ros.belief.particle_filter import FilterUpdate, ParticleFilter
from emppi_ros.core.arrays import Array
from emppi_ros.priors import particles
from emppi_ros.priors.distributions import to_bounded
from emppi_ros.priors.particles import Belief
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import Commands
from emppi_ros.tasks.task import Task

_LOG2_DRAWS = 7  # 128 draws: the 5 % quantile of a Gaussian to 0.03 sd


class ParameterEstimator(Protocol):
    """Estimates the parameters of a task; a `ParticleFilter` is one."""

    @property
    def belief(self) -> Belief:
        """The current belief."""
        ...

    def observe(
        self, stamp: float, observation: Observation, commands: Commands
    ) -> FilterUpdate | None:
        """Update with measurements of time `stamp` [s]; None without a prediction to compare."""
        ...

    def restart(self) -> None:
        """Start again from the next measurement, as after a jump; keep the belief."""
        ...

    def activate(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints active: a stage's grasp."""
        ...


@dataclass(frozen=True)
class EstimatorKind:
    """One line of the registry."""

    description: str  # shown in the help and in the report
    controller: str = 'emppi'  # controller of the closed loop; others than 'emppi' have no belief
    changes: Mapping[str, Any] = field(default_factory=dict)  # changed keys of the task file
    # 'module:Class' of an estimator beside the particle filter, made from task and seed
    made_by: str = ''
    # whether the planner uses its belief. Others get the same measurements and commands as the
    # particle filter of the same world and seed
    in_loop: bool = True

    @property
    def believes(self) -> bool:
        """Whether it has a belief to score."""
        return self.controller == 'emppi'


EMPPI, FROZEN, UKF, WINDOW, WINDOW_LOOP, PRIOR, TRUTH = (
    'emppi', 'frozen', 'ukf', 'window', 'window-loop', 'prior-mean', 'truth',
)  # fmt: skip
_WINDOW = 'benchmarks.belief.window:WindowEstimator'
ESTIMATORS: dict[str, EstimatorKind] = {
    EMPPI: EstimatorKind("the task's particle filter"),
    FROZEN: EstimatorKind(
        'a particle filter of constant parameters with a Gaussian likelihood of fixed scale',
        changes={
            'belief': {
                'changes': None,
                'likelihood': {'scale': 'fixed', 'dof': None},
                'resampling': {'tempering': None},
            }
        },
    ),
    UKF: EstimatorKind(
        'a dual unscented Kalman filter (FilterPy)',
        made_by='benchmarks.belief.kalman:KalmanEstimator',
        in_loop=False,
    ),
    WINDOW: EstimatorKind(
        'least squares over the last 2 s (mujoco.minimize)', made_by=_WINDOW, in_loop=False
    ),
    WINDOW_LOOP: EstimatorKind(
        'the same least squares, whose belief the planner uses', made_by=_WINDOW
    ),
    PRIOR: EstimatorKind("no estimator: plans with the prior's mean", controller='mppi-mean'),
    TRUTH: EstimatorKind('no estimator: plans with the true values', controller='mppi-true'),
}


def make(kind: EstimatorKind, task: Task, seed: int) -> ParameterEstimator:
    """Return a new estimator; only then is its module imported."""
    module, _, name = kind.made_by.partition(':')
    estimator: ParameterEstimator = getattr(importlib.import_module(module), name)(task, seed)
    return estimator


class GaussianEstimator:
    """
    Base of estimators with a Gaussian belief in unbounded coordinates of the uncertain parameters.

    Attributes
    ----------
    mean : (U,) array
        Mean in unbounded coordinates.
    covariance : (U, U) array
        Covariance.

    """

    def __init__(self, task: Task) -> None:
        """Start from the prior's moments."""
        self.task = task
        prior = task.prior
        self.uncertain = np.flatnonzero(prior.spread > 0.0)
        self.spread = prior.spread[self.uncertain]
        rows = np.ix_(self.uncertain, self.uncertain)
        self.prior_covariance = prior.correlation[rows] * np.outer(self.spread, self.spread)
        self.mean, self.covariance = prior.center[self.uncertain], self.prior_covariance
        self._normal = standard_normal(len(self.uncertain))

    def to_theta(self, z: Array) -> Array:
        """Return the parameters (M, P) of unbounded coordinates (M, U)."""
        full = np.tile(self.task.prior.center, (len(z), 1))
        full[:, self.uncertain] = z
        return to_bounded(self.task.parameters, full)

    @property
    def belief(self) -> Belief:
        """The belief as particles of equal weight with its mean and covariance."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return particles.uniform(self.to_theta(self.mean + self._normal @ root.T))


def standard_normal(columns: int) -> Array:
    """Return evenly spread draws (n, columns) with mean 0 and covariance 1 to rounding."""
    if not columns:
        return np.zeros((1, 0))
    sobol = stats.qmc.Sobol(columns, seed=0).random_base2(max(_LOG2_DRAWS, columns.bit_length()))
    draws = stats.norm.ppf(np.clip(sobol, 1e-6, 1.0 - 1e-6))
    draws -= draws.mean(axis=0)
    root = np.linalg.cholesky(draws.T @ draws / len(draws))
    return np.linalg.solve(root, draws.T).T


@dataclass
class Record:
    """Beliefs of an estimator over time [s], and the processor time of its updates [s]."""

    beliefs: list[tuple[float, Belief]] = field(default_factory=list)
    update_s: list[float] = field(default_factory=list)


class Observers:
    """Estimators in place of a particle filter: the first is used, the others only observe."""

    def __init__(
        self,
        original: ParticleFilter,
        first: ParameterEstimator,
        observing: Mapping[str, ParameterEstimator],
    ) -> None:
        """Record the first one under the name ''; `original` has the monitor of the session."""
        self._first, self._all = first, {'': first, **observing}
        self.monitor = original.monitor
        # without a particle filter there are none
        detecting = first if isinstance(first, ParticleFilter) else original
        self.changes = detecting.changes
        self.records = {name: Record() for name in self._all}

    @property
    def belief(self) -> Belief:
        """The belief of the first estimator."""
        return self._first.belief

    def observe(
        self, stamp: float, observation: Observation, commands: Commands
    ) -> FilterUpdate | None:
        """Let all estimators observe; return the update of the first."""
        result = None
        for name, estimator in self._all.items():
            started = time.process_time()
            update = estimator.observe(stamp, observation, commands)
            spent = time.process_time() - started
            if update is not None:
                self.records[name].update_s.append(spent)
                self.records[name].beliefs.append((stamp, estimator.belief))
            if name == '':
                result = update
        return result

    def restart(self) -> None:
        """Restart all estimators."""
        for estimator in self._all.values():
            estimator.restart()

    def activate(self, equalities: Sequence[int]) -> None:
        """Activate equality constraints in all estimators."""
        for estimator in self._all.values():
            estimator.activate(equalities)

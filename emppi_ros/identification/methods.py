"""
Identification methods: recordings of a plant in, samples of the posterior of its unknowns out.

To add one, derive a class from `Method` in a module of its own, and name it in METHODS: `emppi
identify --method NAME` then offers it, with a flag for each of its options.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
import pkgutil
from typing import Any, ClassVar

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import key, positive
from emppi_ros.identification.common.figures import Convergence, HeldOutForecast
from emppi_ros.identification.common.plant import Plant
from emppi_ros.priors import prior_file
from emppi_ros.priors.prior_file import ParameterPrior, PriorFile
from emppi_ros.recordings.cleaning import WHOLE
from emppi_ros.recordings.recordings import Recording

METHODS = {  # name -> module:class
    'states': 'emppi_ros.identification.states.method:StatesMethod',
    'csvgd': 'emppi_ros.identification.csvgd.method:CsvgdMethod',
    'rigid-body': 'emppi_ros.identification.rigid_body.method:RigidBodyMethod',
    'shooting': 'emppi_ros.identification.shooting.method:ShootingMethod',
    'sysid': 'emppi_ros.identification.sysid:SysidMethod',
    'bayessim': 'emppi_ros.identification.bayessim.method:BayesSimMethod',
    'filter': 'emppi_ros.identification.filter.method:FilterMethod',
}

Advance = Callable[..., None]  # amount done so far, optional note
ProgressBar = Callable[[str, float, str], AbstractContextManager[Advance]]  # name, total, unit


@contextmanager
def no_progress(name: str, total: float, unit: str) -> Iterator[Advance]:
    """Show no progress."""
    yield lambda *_: None


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run that do not depend on the method."""

    step_s: float | None = None  # time step of the model; None: that of the scene or task
    lag_s: float = 0.0  # by which commands were shifted
    held_out: float = 0.0  # last share of each recording, which is forecast
    seed: int = 0
    threads: int = 0  # 0: all cores
    out: Path | None = None  # the prior; checkpoints lie beside it
    overwrite: bool = False  # ignore checkpoints of a run with other settings
    progress: ProgressBar = no_progress
    scheduler: str | None = None  # address of a Dask cluster; None: compute here


@dataclass(frozen=True)
class Identification:
    """
    The posterior that a method returns.

    `samples` (N, P) are of all parameters, for figures; the prior contains those `in_prior`, from
    `prior_samples` if given. `forecasts` and `to_mjcf` are called only if they are needed.
    """

    summary: dict[str, Any]  # 'parameters': name -> value, sd, unit, knowledge; and diagnostics
    samples: Array
    in_prior: Sequence[int]
    settings: Mapping[str, Any]  # recorded in the prior
    prior_samples: Callable[[], Array] | None = None  # (n, len(in_prior))
    convergence: Convergence | None = None
    forecasts: Callable[[], Sequence[HeldOutForecast]] = tuple  # of the held-out parts
    to_mjcf: Callable[[], str] | None = None  # if it is more than the values in `summary`

    def to_prior(
        self, method: str, plant: Plant, recordings: Sequence[Recording], lag_s: float = 0.0
    ) -> PriorFile:
        """Return the prior for `emppi run --prior`, of equally weighted samples."""
        drawn = self.prior_samples
        samples = self.samples[:, self.in_prior] if drawn is None else drawn()
        columns = {}
        for index, column in zip(self.in_prior, samples.T, strict=True):
            unknown = plant.unknowns[index]
            inside = prior_file.within(column, unknown.lower, unknown.upper)
            columns[unknown.name] = ParameterPrior(unknown.unit, tuple(inside.tolist()))
        parts = [str(recording.span) for recording in recordings if recording.span != WHOLE]
        return PriorFile(
            method=method,
            sources=tuple(source for recording in recordings for source in recording.sources),
            parameters=columns,
            weights=(1.0,) * len(samples),
            settings={**self.settings, 'lag_s': lag_s, **({'spans_s': parts} if parts else {})},
            diagnostics=self.summary,
        )


def count(default: int, doc: str) -> Any:
    """Return a field for a number of things, at least one."""
    return key(default, check=lambda value: value >= 1, allowed='a positive integer', doc=doc)


def spread() -> Any:
    """Return the field `spread`, for methods whose posterior is linearised."""
    return positive(3.0, 'factor on the linearised standard deviations, which are too small')


def particles(default: int) -> Any:
    """Return the field `particles`, for methods that return particles."""
    return count(default, 'number of particles')


def window() -> Any:
    """Return the field `window`, for methods that simulate a recording in parallel windows."""
    return positive(0.5, 'length in s of the windows that are simulated in parallel')


def noise() -> Any:
    """Return the field `noise`, for methods that weigh residuals by the measurement noise."""
    return key(
        {},
        doc='standard deviations of measurements, such as position/hinge=0.001 (default: '
        'estimated by smoothing)',
    )


class Method(ABC):
    """An identification method: recordings in, posterior out."""

    description: ClassVar[str]  # a line of `emppi identify --help`
    options: ClassVar[type]  # frozen dataclass; each field is a command-line option
    held_out: ClassVar[float | None] = 0.0  # share, if none is given; None: it cannot forecast
    long_running: ClassVar[bool] = False  # it writes checkpoints, and can compute on a cluster
    with_joint_errors: ClassVar[bool] = False  # intervals contain errors of inferred joints

    def systems(self, options: Any, recordings: int) -> int:
        """Return the number of systems that so many recordings are of."""
        return 1

    def check(self, options: Any, plant: Plant, recordings: int, run: RunSettings) -> None:  # noqa: B027
        """Raise ConfigError for options that do not fit together, before recordings are read."""

    def default_step(self, plant: Plant, recordings: Sequence[Recording]) -> float:
        """Return the time step of the model if none is given: that of the scene."""
        return float(plant.model.opt.timestep)

    @abstractmethod
    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: Any, run: RunSettings
    ) -> Identification:
        """Return the posterior; IdentificationError if the recordings do not fit the plant."""


def load(name: str) -> Method:
    """Return the method of a name in METHODS; only then is its module imported."""
    method: Method = pkgutil.resolve_name(METHODS[name])()
    return method


def load_all() -> dict[str, Method]:
    """Return all methods by name."""
    return {name: load(name) for name in METHODS}

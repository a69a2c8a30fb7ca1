"""The runs of the benchmark: a film by seed, and the parameters of its mechanism by a method."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
import functools
import hashlib
from pathlib import Path
import tempfile
import time

import numpy as np
import numpy.typing as npt

from emppi_ros.bench import hardware
from emppi_ros.bench.identify import csvgd_baselines
from emppi_ros.bench.video import control, films, pipeline
from emppi_ros.bench.video.films import FILE, Film
from emppi_ros.bench.video.pipeline import Followed, InferredMechanism
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError, EmppiError, unknown
from emppi_ros.identify import methods
from emppi_ros.identify.bayessim.starts import find_starts
from emppi_ros.identify.csvgd import recordings as csvgd_recordings
from emppi_ros.identify.csvgd.recordings import WindowConfig
from emppi_ros.identify.methods import RunSettings

Array = npt.NDArray[np.float64]
SEEDS = range(100, 105)  # settings were chosen with 1 to 3
OWN = 'shooting'
LONGEST_WINDOW_S = 2.0  # of `shooting`: weak damping takes time to show
PARTICLES, ITERATIONS = 40, 200  # of the samplers
SWING_UPS = 3  # for each film and method
_QUICK_ITERATIONS = 5
_LEVEL = 0.9


@dataclass(frozen=True)
class ParameterResult:
    """An estimate with its 90 % interval, and the truth."""

    value: float
    low: float
    high: float
    truth: float

    @property
    def error(self) -> float:
        """Error relative to the truth."""
        return abs(self.value / self.truth - 1.0)

    @property
    def inside(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high


@dataclass(frozen=True)
class VideoRow:
    """
    The result of a film and a method.

    Attributes
    ----------
    refused : str
        Why there is no result; '' if there is one.
    axis_deg, pivot_mm : float
        Errors: of the worse axis, and of the hinge; None if the tree is wrong.
    track_p95_mm : float
        95 % quantile of the errors of the parts' frames, of the worse part.
    parameters : mapping
        Name -> result.
    rewards, rewards_with_truth : tuple of float
        Of swing-ups with models of the posterior, and with the true parameters, which only rows of
        the first method have.

    """

    method: str
    seed: int
    digest: str
    refused: str
    axis_deg: float | None
    pivot_mm: float | None
    track_p95_mm: float
    parameters: Mapping[str, ParameterResult]
    rewards: tuple[float, ...]
    rewards_with_truth: tuple[float, ...]
    compute_s: float
    made_by: str

    @property
    def key(self) -> tuple[object, ...]:
        """The cell that this is the result of."""
        return self.method, self.seed

    @property
    def error(self) -> float:
        """Normalized mean absolute error: the mean of relative errors of all parameters."""
        return float(np.mean([one.error for one in self.parameters.values()]))


@dataclass(frozen=True)
class VideoCell:
    """A method on the film of a seed."""

    method: str
    seed: int
    quick: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Identifies the cell."""
        return self.method, self.seed

    @property
    def digest(self) -> str:
        """Identifies the scene and the size of the run."""
        return hashlib.sha256((paths.ASSETS / FILE).read_bytes() + bytes(self.quick)).hexdigest()


def make_cells(chosen: Sequence[str], seeds: Sequence[int], quick: bool) -> list[VideoCell]:
    """Return the cells; ConfigError if a method is unknown."""
    for name in chosen:
        if name not in METHODS:
            raise ConfigError(f'--methods: {unknown("method", name, METHODS)}')
    return [VideoCell(name, seed, quick) for seed in seeds for name in chosen]


def compute(cell: VideoCell) -> VideoRow:
    """Make the film, track it, infer the mechanism, and estimate its parameters."""
    began = time.perf_counter()
    film, followed = _followed(cell.seed)
    p95 = 1e3 * float(np.max(np.quantile(followed.errors, 0.95, axis=0)))
    row = VideoRow(
        cell.method, cell.seed, cell.digest, '', None, None, p95, {}, (), (), 0.0,
        hardware.label(),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        try:
            mechanism = pipeline.infer_mechanism(followed, film, cell.seed, Path(folder))
            samples = METHODS[cell.method](mechanism, film, cell)
            rewards = [_swing_ups(mechanism, film, samples, cell, folder)]
            if cell.method == OWN:
                rewards.append(_swing_ups(mechanism, film, None, cell, folder))
        except EmppiError as error:
            refused = str(error).replace(folder, '')
            return replace(row, refused=refused, compute_s=time.perf_counter() - began)
    angle, pivot = pipeline.geometry_errors(mechanism.tree)
    names = [one.name for one in mechanism.plant.unknowns]
    low, middle, high = np.quantile(samples, [0.05, 0.5, 0.95], axis=0).tolist()
    return replace(
        row,
        axis_deg=angle,
        pivot_mm=pivot,
        parameters={
            name: ParameterResult(*numbers, film.truth[name])
            for name, *numbers in zip(names, middle, low, high, strict=True)
        },
        rewards=rewards[0],
        rewards_with_truth=rewards[1] if len(rewards) > 1 else (),
        compute_s=time.perf_counter() - began,
    )


@functools.lru_cache(maxsize=1)  # the cells of all methods follow one another
def _followed(seed: int) -> tuple[Film, Followed]:
    film = films.make(seed)
    return film, pipeline.follow(film)


def _swing_ups(
    mechanism: InferredMechanism, film: Film, samples: Array | None, cell: VideoCell, folder: str
) -> tuple[float, ...]:
    seeds = range(1 if cell.quick else SWING_UPS)
    return tuple(
        control.reward(mechanism, film.truth, samples, seed, Path(folder)) for seed in seeds
    )


def _identified(mechanism: InferredMechanism, film: Film, cell: VideoCell) -> Array:
    """Return the samples (N, P) of an identification method."""
    method = methods.load(cell.method)
    options = method.options()
    if cell.method == OWN:
        options = replace(options, longest_window=LONGEST_WINDOW_S)
    run = RunSettings(seed=cell.seed, threads=1)
    return method.identify(mechanism.plant, [mechanism.recording], options, run).samples


def _sampled(mechanism: InferredMechanism, film: Film, cell: VideoCell) -> Array:
    """Return the particles (N, P) of a sampler with single shooting over the whole film."""
    seconds = float(film.time[-1] - film.time[0]) - 2.0 / films.RATE_HZ
    problem = csvgd_recordings.prepare(
        mechanism.plant, [mechanism.recording], WindowConfig(seconds, 0.0), {}
    ).problem
    (start,) = find_starts(problem)
    known = replace(problem, start=start.mean, first_steps=())
    iterations = _QUICK_ITERATIONS if cell.quick else ITERATIONS
    sample = csvgd_baselines.BASELINES[cell.method]
    theta, _ = sample(known, PARTICLES, iterations, 'product', cell.seed)
    return theta


METHODS: Mapping[str, Callable[[InferredMechanism, Film, VideoCell], Array]] = {
    OWN: _identified,
    'sysid': _identified,
    'CMA-ES': _sampled,
    'emcee': _sampled,
}

"""The runs of the benchmark: a film by mechanism and seed, and its parameters by a method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
import functools
import hashlib
from pathlib import Path
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np

from benchmarks import ASSETS
from benchmarks.study import Computed, Run, computed
from benchmarks.video import (
    baselines,
    control,
    films,
    forecast,
    image_refinement,
    pipeline,
    pushes,
)
from benchmarks.video.baselines import load_library
from benchmarks.video.films import Film
from benchmarks.video.forecast import ForecastProblem, ImageErrors
from benchmarks.video.mechanisms import MECHANISMS
from benchmarks.video.pipeline import Followed, InferredMechanism
from emppi_ros.articulation.topology import KinematicTree
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError, IdentificationError
from emppi_ros.identification import methods
from emppi_ros.identification.bayessim.simulations import find_starts
from emppi_ros.identification.methods import RunSettings
from emppi_ros.identification.multiple_shooting import training_data, windows
from emppi_ros.identification.multiple_shooting.training_data import ShootingProblem
from emppi_ros.identification.shooting.estimation import ShootingEstimate
from emppi_ros.identification.shooting.method import fit_growing
from emppi_ros.recordings.motion import Motion, resample_and_split

SEEDS = range(100, 110)  # settings were chosen with 1 to 3, and from 200 on
WHOLE = SEEDS[:5]  # films with all methods, forecasts and control; others tell about intervals
OWN, TREE = 'shooting', 'tree'  # TREE: of films without forces, which show no parameters
IMAGES = 'images'  # refines OWN
STARTS = '-starts'  # of the names of baselines that have the windows and starts of `shooting`
POINTS = frozenset({'Adam', f'Adam{STARTS}'})  # methods without a posterior
LONGEST_WINDOW_S = 2.0  # of `shooting`: weak damping takes time to show
# models of simulated films are exact but for their joints, whose errors are in the intervals: no
# other errors of the model widen these, as they do by default
OPTIONS: Mapping[str, Mapping[str, float]] = {
    OWN: {'longest_window': LONGEST_WINDOW_S, 'widen': 1.0},
    'sysid': {'spread': 1.0},
    'csvgd': {},
}
EVERYWHERE = frozenset({OWN, 'sysid', TREE})  # methods on all films
PARTICLES, ITERATIONS = 40, 100  # of the samplers
TRIALS = 3  # of each control task, for each film and method
TRUTH, REST = 'true parameters', 'no motion'  # forecasts to compare with
_QUICK_ITERATIONS = 5
_LIBRARIES = {'CMA-ES': 'cma', 'emcee': 'emcee'}
# methods for Table II of the paper, of a cart-pole: without seeds they have no other films, and no
# rewards, which do not tell methods apart
CARTPOLE = 'cartpole'
OF_CARTPOLE = frozenset({'csvgd', IMAGES, f'Adam{STARTS}', f'CMA-ES{STARTS}', f'emcee{STARTS}'})


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
class VideoRun(Run):
    """A method on the film of a mechanism with a seed."""

    mechanism: str
    method: str
    seed: int


@dataclass(frozen=True)
class VideoRow(VideoRun, Computed):
    """The result of a film and a method."""

    refused: str = ''  # why there is no result; '' if there is one
    # errors: of the worst axis, and of the worst hinge; None if the tree is wrong
    axis_deg: float | None = None
    pivot_mm: float | None = None
    # 95 % quantile of the errors of the parts' frames, of the worst part
    track_p95_mm: float = 0.0
    parameters: Mapping[str, ParameterResult] = field(default_factory=dict)  # name -> result
    # how far parts of a film without forces are elsewhere if some of the truth is doubled [mm]
    doubled_mm: Mapping[str, float] = field(default_factory=dict)
    # errors of a forecast with the parameters found, by the name of the method. Rows of the first
    # method also have those with the true parameters, and without motion. Films in SEEDS that are
    # not WHOLE have neither forecasts nor rewards
    forecast: Mapping[str, ImageErrors] = field(default_factory=dict)
    # control task -> rewards with models of the posterior
    rewards: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    # the same with the true parameters, which only rows of the first method have
    rewards_with_truth: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """Normalized mean absolute error: the mean of relative errors of all parameters."""
        return float(np.mean([parameter.error for parameter in self.parameters.values()]))


@dataclass(frozen=True)
class VideoCell(VideoRun):
    """A run to compute."""

    quick: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether forecasts and control follow."""
        return self.seed in WHOLE or self.seed not in SEEDS

    @property
    def digest(self) -> str:
        """Identifies the scene and the size of the run."""
        mechanism = MECHANISMS[self.mechanism]
        arm = pushes.ARM.read_bytes() if mechanism.pushed else b''
        scene = (ASSETS / mechanism.file).read_bytes() + arm
        return hashlib.sha256(scene + bytes(self.quick)).hexdigest()


def compute(cell: VideoCell) -> VideoRow:
    """
    Make the film, track it, infer the mechanism, and estimate its parameters.

    IdentificationError if a package is missing that the method or the comparison of images needs.
    """
    for module in ('skimage.metrics', _LIBRARIES.get(cell.method.removesuffix(STARTS), 'numpy')):
        load_library(module)
    began = time.perf_counter()
    seen = _seen(cell.mechanism, cell.seed)
    worst = np.max(np.quantile(seen.followed.errors, 0.95, axis=0))
    results: dict[str, Any] = {'track_p95_mm': 1e3 * float(worst)}
    with tempfile.TemporaryDirectory() as folder:
        try:
            results |= _identify(cell, seen, Path(folder))
        except EmppiError as error:
            results['refused'] = str(error).replace(folder, '')
    return VideoRow(**computed(cell, began), **results)


class _Seen(NamedTuple):
    """A film, its tracks, and their tree or why it is wrong."""

    film: Film
    followed: Followed
    tree: KinematicTree | IdentificationError


@functools.lru_cache(maxsize=1)  # the cells of all methods follow one another
def _seen(mechanism: str, seed: int) -> _Seen:
    pushed = MECHANISMS[mechanism].pushed
    film = (pushes if pushed else films).make(MECHANISMS[mechanism], seed)
    followed = pipeline.follow(pushes.without_arm(film) if pushed else film)
    try:
        return _Seen(film, followed, pipeline.infer_tree(followed, film, seed))
    except IdentificationError as error:
        return _Seen(film, followed, error)


@functools.lru_cache(maxsize=1)
def _new_film(mechanism: str, seed: int) -> ForecastProblem:
    film, _, tree = _seen(mechanism, seed)
    assert isinstance(tree, KinematicTree)
    return forecast.prepare(film, tree, seed)


def _identify(cell: VideoCell, seen: _Seen, folder: Path) -> dict[str, Any]:
    """Return parameters, forecasts and rewards, as fields of a row."""
    film, _, tree = seen
    if isinstance(tree, IdentificationError):
        raise tree
    angle, pivot = pipeline.geometry_errors(tree, film.mechanism)
    if cell.method == TREE:
        doubled = pushes.doubled(film.mechanism, cell.seed)
        return {'axis_deg': angle, 'pivot_mm': pivot, 'doubled_mm': doubled}
    mechanism = pipeline.write_mechanism(tree, film, folder)
    samples = METHODS[cell.method](mechanism, film, cell)
    low, middle, high = np.quantile(samples, [0.05, 0.5, 0.95], axis=0)
    names = [unknown.name for unknown in mechanism.plant.unknowns]
    true = np.array([film.truth[name] for name in names])
    own = cell.method == OWN
    thetas = {cell.method: middle} | ({TRUTH: true} if own else {})
    numbers = zip(*(values.tolist() for values in (middle, low, high, true)), strict=True)
    return {
        'axis_deg': angle,
        'pivot_mm': pivot,
        'parameters': {
            name: ParameterResult(*of_name) for name, of_name in zip(names, numbers, strict=True)
        },
        'forecast': _forecast(mechanism, cell, thetas) if cell.is_whole else {},
        'rewards': _rewards(mechanism, film, samples, cell, folder),
        'rewards_with_truth': _rewards(mechanism, film, None, cell, folder) if own else {},
    }


def _forecast(
    mechanism: InferredMechanism, cell: VideoCell, thetas: Mapping[str, Array]
) -> dict[str, ImageErrors]:
    """Return the errors of forecasts with some parameters (P,) by name, and without motion."""
    problem, plant = _new_film(cell.mechanism, cell.seed), mechanism.plant
    motions = {name: forecast.forecast(problem, plant, theta) for name, theta in thetas.items()}
    if cell.method == OWN:
        motions[REST] = forecast.at_rest(problem, plant)
    return {name: forecast.compare(problem, plant, qpos) for name, qpos in motions.items()}


def _rewards(
    mechanism: InferredMechanism, film: Film, samples: Array | None, cell: VideoCell, folder: Path
) -> dict[str, tuple[float, ...]]:
    """Return the rewards of the control tasks, if the mechanism has any."""
    seeds = range(1 if cell.quick else TRIALS)
    controlled = film.mechanism.swings_up and cell.is_whole and cell.method not in OF_CARTPOLE
    tasks = control.TASKS if controlled else ()
    return {
        name: tuple(control.reward(name, mechanism, film, samples, s, folder) for s in seeds)
        for name in tasks
    }


def _identified(mechanism: InferredMechanism, film: Film, cell: VideoCell) -> Array:
    """Return the samples (N, P) of an identification method."""
    method = methods.load(cell.method)
    options = method.options(**OPTIONS[cell.method])
    run = RunSettings(seed=cell.seed, threads=1)
    return method.identify(mechanism.plant, [mechanism.recording], options, run).samples


def _sampled(mechanism: InferredMechanism, film: Film, cell: VideoCell) -> Array:
    """Return the particles (N, P) of a sampler with single shooting over the whole film."""
    sample = baselines.BASELINES[cell.method]
    problem = _single_shooting(mechanism, film)
    return sample(problem, PARTICLES, _iterations(cell), cell.seed)[0]


def _climbed(mechanism: InferredMechanism, film: Film, cell: VideoCell) -> Array:
    """Return the best (1, P) of searches by Adam, with as many simulations as the samplers."""
    starts = max(PARTICLES // (1 + len(mechanism.plant.unknowns)), 1)
    problem = _single_shooting(mechanism, film)
    return baselines.adam(problem, starts, _iterations(cell))[0]


def _sampled_in_windows(mechanism: InferredMechanism, film: Film, cell: VideoCell) -> Array:
    """Return the particles (N, P) of a sampler with the windows and starts of `shooting`."""
    sample = baselines.BASELINES[cell.method.removesuffix(STARTS)]
    problem, starts = _windows(mechanism)
    return sample(problem, PARTICLES, _iterations(cell), cell.seed, starts)[0]


def _climbed_in_windows(mechanism: InferredMechanism, film: Film, cell: VideoCell) -> Array:
    """Return the best (1, P) of searches by Adam with the windows and starts of `shooting`."""
    searches = max(PARTICLES // (1 + len(mechanism.plant.unknowns)), 1)
    problem, starts = _windows(mechanism)
    return baselines.adam_in_windows(problem, searches, _iterations(cell), starts)[0]


def _refined(mechanism: InferredMechanism, film: Film, cell: VideoCell) -> Array:
    """Return samples (N, P) from the images, beginning with what `shooting` estimates."""
    motion, fitted = fit_windows(mechanism)
    return image_refinement.refine(mechanism, film, motion, fitted, cell.seed)


def fit_windows(mechanism: InferredMechanism) -> tuple[Motion, ShootingEstimate]:
    """Return the motion of a film, and what `shooting` estimates from it."""
    plant = mechanism.plant
    ((motion, _),) = resample_and_split([mechanism.recording], plant.model, plant.bodies, 0.0)
    lengths = [windows.shortest_length(motion)]
    while 2 * lengths[-1] * plant.model.opt.timestep <= LONGEST_WINDOW_S * (1.0 + 1e-9):
        lengths.append(2 * lengths[-1])
    return motion, fit_growing(plant, motion, lengths, 1, lambda _: None).chosen


def _windows(mechanism: InferredMechanism) -> tuple[ShootingProblem, Array]:
    """Return the film in the windows of `shooting`, and the starts (W, S) that it estimates."""
    _, fitted = fit_windows(mechanism)
    seconds = fitted.windows.length * mechanism.plant.model.opt.timestep
    data = training_data.prepare(mechanism.plant, [mechanism.recording], seconds, 0.0, {})
    return data.problem, fitted.starts[: data.windows]


def _iterations(cell: VideoCell) -> int:
    return _QUICK_ITERATIONS if cell.quick else ITERATIONS


def _single_shooting(mechanism: InferredMechanism, film: Film) -> ShootingProblem:
    """Return the whole film as one window, from the start that its first images show."""
    seconds = float(film.time[-1] - film.time[0]) - 2.0 / films.RATE_HZ
    problem = training_data.prepare(
        mechanism.plant, [mechanism.recording], seconds, 0.0, {}
    ).problem
    (start,) = find_starts(problem)
    return replace(problem, start=start.mean, first_steps=())


METHODS: Mapping[str, Callable[[InferredMechanism, Film, VideoCell], Array]] = {
    OWN: _identified,
    'sysid': _identified,
    'Adam': _climbed,
    'CMA-ES': _sampled,
    'emcee': _sampled,
    'csvgd': _identified,
    f'Adam{STARTS}': _climbed_in_windows,
    f'CMA-ES{STARTS}': _sampled_in_windows,
    f'emcee{STARTS}': _sampled_in_windows,
    IMAGES: _refined,
}

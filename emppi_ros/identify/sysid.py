"""
The reference: one estimate by MuJoCo's own least squares, and how sure it is.

It is what `mujoco.sysid` does (its optimizer is `mujoco.minimize.least_squares`, its covariance
that of `calculate_intervals`), on the windows of `stein`: their starts are unknowns, and that they
meet is one more residual, which hardens. `mujoco.sysid` itself asks for `mujoco[sysid]`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from mujoco import minimize
import numpy as np
import numpy.typing as npt
import scipy.linalg

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common import options as fields
from emppi_ros.identify.common import prior_output
from emppi_ros.identify.common.figures import Convergence, HeldOutForecast
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.prior_output import knowledge_level
from emppi_ros.identify.common.recordings import Recording
from emppi_ros.identify.csvgd import csvgd, shooting, target_density
from emppi_ros.identify.csvgd import recordings as csvgd_recordings
from emppi_ros.identify.csvgd import report as csvgd_report
from emppi_ros.identify.csvgd.csvgd import CsvgdPosterior
from emppi_ros.identify.csvgd.method import HELD_OUT
from emppi_ros.identify.csvgd.problem import LIMIT
from emppi_ros.identify.csvgd.recordings import TrainingData, WindowConfig
from emppi_ros.identify.csvgd.report import SystemResult, summarize
from emppi_ros.identify.csvgd.shooting import MultipleShooting
from emppi_ros.identify.methods import Identification, Method, RunSettings

Array = npt.NDArray[np.float64]
HARDENING = 0.0, 1e4, 1e10  # of windows' meeting: at first each is fitted by itself
ITERATIONS = 50  # of each
_FAR = 1e3  # spreads of a state: no start is beyond
_STEP = 1e-6
_DIVERGED = 1e50  # a residual, whose square is a number yet


@dataclass(frozen=True)
class SysidOptions:
    """Options of the method `sysid`."""

    window: float = fields.window()
    noise: Mapping[str, float] = fields.noise()
    spread: float = fields.spread()


class SysidMethod(Method):
    """MuJoCo's least squares over windows, with a linearised posterior."""

    description = "one estimate by MuJoCo's least squares over windows, as a reference"
    options = SysidOptions
    held_out = HELD_OUT

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: SysidOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Fit all recordings together."""
        cut = WindowConfig(options.window, run.held_out)
        learned = csvgd_recordings.prepare(plant, recordings, cut, options.noise)
        costs: list[float] = []
        most = len(HARDENING) * ITERATIONS
        with run.progress('sysid', most, 'iterations') as advance:

            def progress(done: int, cost: float) -> None:
                costs.append(-cost)
                advance(done, f'log likelihood {-cost:.4g}')

            found = estimate(learned, plant.initial, progress, run.threads)
            advance(most)
        count = len(plant.unknowns)
        knowledge = [knowledge_level(share) for share in found.sd(count)]
        kept = prior_output.excited(knowledge)
        posterior = as_posterior(learned, found)
        one = csvgd_report.select_converged(learned, posterior, run.threads)
        csvgd_report.check(plant, learned, one)
        forecasts = csvgd_report.forecast(learned, one, run.threads)
        summary = summarize(plant, SystemResult(learned, posterior, one, forecasts))
        for row, value, sd, known in zip(
            summary['parameters'].values(), *in_units(learned, found), knowledge, strict=True
        ):
            row.update(value=float(value), sd=float(sd), knowledge=known)
        names = [unknown.name for unknown in plant.unknowns]
        directions = prior_output.unobservable_directions(found.covariance[:count, :count])
        summary['unexcited_directions'] = prior_output.describe_directions(directions, names)
        del summary['particles'], summary['stranded']
        theta = learned.problem.theta(draw(found, count, options.spread, run.seed))

        def futures() -> list[HeldOutForecast]:
            many = csvgd_report.with_particles(one, theta)
            return csvgd_report.futures(learned, csvgd_report.forecast(learned, many, run.threads))

        return Identification(
            summary,
            theta,
            kept,
            {
                **asdict(cut),
                'step_s': float(plant.model.opt.timestep),
                'spread': options.spread,
                'seed': run.seed,
            },
            convergence=Convergence('log likelihood', np.array(costs)),
            forecasts=futures,
        )


class Estimate(NamedTuple):
    """Coordinates of one estimate, and their covariance."""

    z: Array  # (D,): parameters, and starts of windows, as of a particle
    covariance: Array  # (D, D), with the uniform prior's variance before
    log_p: float
    defect: float  # between windows, root mean square, in units of the states' spread

    def sd(self, unknown: int) -> Array:
        """Standard deviations (P,) of the parameters, in that of the uniform prior."""
        return np.sqrt(np.diag(self.covariance)[:unknown])


class _Residuals:
    """Residuals at a point and their derivatives, from one simulation."""

    def __init__(self, shooter: MultipleShooting, stiffness: float) -> None:
        self.shooter, self.stiffness = shooter, stiffness
        self.measured = np.isfinite(shooter.problem.noise)
        self._at: bytes = b''
        self._value = np.empty(0)

    def value(self, z: Array) -> Array:
        """Return residuals (n, k) at points (D, k), or (D,)."""
        columns = []
        for point in z.reshape(len(z), -1).T:
            self._update(point)
            columns.append(self._value)
        return np.stack(columns, axis=1)

    def slope(self, z: Array, _: Array) -> Array:
        """Return derivatives (n, D) at a point."""
        self._update(z.ravel())
        return self._slope

    def _update(self, point: Array) -> None:
        if point.tobytes() == self._at:
            return
        shooter, self._at = self.shooter, point.tobytes()
        windows = shooter.simulate(point[None])
        if windows.diverged.any():
            if not self._value.size:
                raise IdentificationError('the model diverges: limits or time step are too large')
            self._value = np.full_like(self._value, _DIVERGED)  # no step is taken there
            return
        noise = (shooter.problem.noise / shooter.problem.scale)[self.measured]
        off = (windows.states[0] - shooter.measurements()[0])[..., self.measured] / noise
        slopes = np.moveaxis(windows.slopes[0][..., self.measured] / noise, 0, -1)
        whole = np.zeros((*off.shape, shooter.size))
        whole[..., : shooter.unknown] = slopes[..., : shooter.unknown]
        for window in range(shooter.first, shooter.windows):
            own = shooting.start_slice(shooter, window)
            whole[window, ..., own] = slopes[window, ..., shooter.unknown :]
        defects, normals = target_density.continuity(shooter, point[None], windows)
        hard = np.sqrt(self.stiffness)
        self.defect = float(np.sqrt(np.mean(defects**2))) if defects.size else 0.0
        self._value = np.concatenate([off.ravel(), hard * defects[0]])
        self._slope = np.concatenate([whole.reshape(-1, shooter.size), hard * normals[0]])
        self.count = off.size


def estimate(
    learned: TrainingData, start: Array, progress: Callable[[int, float], None], threads: int = 0
) -> Estimate:
    """
    Return the estimate that a search from parameters `start` (P,) ends at.

    `progress` is told of iterations, and the cost.
    """
    shooter = MultipleShooting(learned.problem, 1, learned.windows, threads)
    z = csvgd.initial_particles(shooter)[0]
    z[: shooter.unknown] = learned.problem.coordinates(start)
    reach = np.full(shooter.size, _FAR)
    reach[: shooter.unknown] = LIMIT
    done = 0
    for stiffness in HARDENING:
        found = _Residuals(shooter, stiffness)

        def tell(trace: list[minimize.IterLog], before: int = done) -> None:
            progress(before + len(trace), float(trace[-1].objective))

        z, trace = minimize.least_squares(
            z,
            found.value,
            [-reach, reach],
            found.slope,
            max_iter=ITERATIONS,
            verbose=minimize.Verbosity.SILENT,
            iter_callback=tell,
        )
        z, done = z.ravel(), done + len(trace)
    value, slope = found.value(z)[:, 0], found.slope(z, z)
    free = max(found.count - len(z), 1)
    noise = float(np.sum(value[: found.count] ** 2)) / free
    rows, walls = slope[: found.count], slope[found.count :]
    information = rows.T @ rows / noise
    known = np.arange(shooter.unknown)
    information[known, known] += 1.0  # what the uniform prior knows, as a variance
    cost = 0.5 * float(np.sum(value[: found.count] ** 2))
    along = scipy.linalg.null_space(walls) if len(walls) else np.eye(len(z))  # windows still meet
    covariance = along @ np.linalg.solve(along.T @ information @ along, along.T)
    return Estimate(z, covariance, -cost, found.defect)


def draw(found: Estimate, unknown: int, spread: float, seed: int) -> Array:
    """Return coordinates (n, P) of particles within the limits."""
    box = np.full(unknown, -LIMIT), np.full(unknown, LIMIT)
    covariance = spread**2 * found.covariance[:unknown, :unknown]
    rng = np.random.default_rng(seed)
    return prior_output.draw_within_bounds(
        found.z[:unknown], covariance, np.ones(unknown), box, rng
    )


def as_posterior(learned: TrainingData, found: Estimate) -> CsvgdPosterior:
    """Return the estimate as a posterior of one particle."""
    theta = learned.problem.theta(found.z[None, : len(learned.problem.parameters)])
    return CsvgdPosterior(theta, np.array([found.log_p]), found.z[None], 0.0, found.defect, 0)


def in_units(learned: TrainingData, found: Estimate) -> tuple[Array, Array]:
    """Return the parameters (P,) and their standard deviations, in their units."""
    count = len(learned.problem.parameters)
    z = found.z[:count]
    step = np.where(z > 0.0, -_STEP, _STEP)
    theta = learned.problem.theta(z)
    slope = (learned.problem.theta(z + step) - theta) / step
    return theta, slope * found.sd(count)

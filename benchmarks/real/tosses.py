"""
Contact properties of a cube from tosses on a table, and forecasts of other tosses.

No identification method fits: a tossed cube has no joints, and contact forces are not known from
motion. Therefore whole tosses are simulated from their first recorded states, and samples of the
posterior come from the tempered sequential Monte Carlo of the method `filter`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.filter import smc
from emppi_ros.identification.filter.smc import SmcConfig
from emppi_ros.identification.multiple_shooting.windows import make_ensemble
from emppi_ros.model.ensemble import State
from emppi_ros.priors import distributions
from emppi_ros.priors.distributions import Prior

RATE_HZ = 148.0
HALF_WIDTH_M = 0.0524
SUBSTEPS = 4  # of physics between two rows
GRAVITY = 9.81
FREE_M = 0.005  # above the table, a corner does not touch it
SAMPLES = 64
FREEDOM = 4.0  # of Student's t: some tosses end on another face
_FIRST_DRAWS = 128  # from the prior, of which the best gives the scale of the errors
_SMALLEST = (0.001, 0.01)  # m and rad: scale of the errors, at least
_CHUNK = 32  # models at once, for memory
_CORNERS = HALF_WIDTH_M * np.array(
    [[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float
)


@dataclass(frozen=True)
class Tosses:
    """T tosses from the first recorded row to rest, in the state of the model."""

    starts: State  # the first rows, (T, 7) and (T, 6)
    # (T, L, 7): recorded poses, the last one repeated to the length of the longest toss
    poses: Array
    rows: npt.NDArray[np.intp]  # (T,): number of rows of each toss

    @property
    def seen(self) -> Bools:
        """Where a row was recorded (T, L)."""
        return np.arange(self.poses.shape[1]) < self.rows[:, None]

    @property
    def last(self) -> Array:
        """The poses at rest (T, 7)."""
        return self.poses[:, -1]


def from_rows(owner: Array, poses: Array, velocities: Array) -> Tosses:
    """
    Return tosses from rows (n,), (n, 7), (n, 6); `owner` numbers the toss of each row.

    Velocities are those of the centre [m/s], and angular in the frame of the cube [rad/s]. A
    recorded velocity is the motion since the row before, hence half a period old. The start
    makes up for gravity since then, and for that of half a physics step, by which semi-implicit
    steps are ahead.
    """
    rows = [np.flatnonzero(owner == number) for number in np.unique(owner)]
    longest = max(len(chosen) for chosen in rows)
    index = np.array([np.pad(chosen, (0, longest - len(chosen)), 'edge') for chosen in rows])
    starts = velocities[index[:, 0]].copy()
    starts[:, 2] -= 0.5 * GRAVITY / RATE_HZ * (1.0 - 1.0 / SUBSTEPS)
    counts = np.array([len(chosen) for chosen in rows])
    return Tosses(State(poses[index[:, 0]], starts), poses[index], counts)


def simulate(plant: Plant, thetas: Array, starts: State, length: int, threads: int = 0) -> Array:
    """
    Return poses (N, T, length, 7) of tosses with parameters (N, P).

    Starts are (T, 7), (T, 6) for all, or (N, T, 7), (N, T, 6). Where a simulation diverges, poses
    are not finite.
    """
    count, tosses = len(thetas), starts.qpos.shape[-2]
    first = np.broadcast_to(starts.qpos, (count, tosses, 7))
    speeds = np.broadcast_to(starts.qvel, (count, tosses, 6))
    plant.model.opt.timestep = 1.0 / (RATE_HZ * SUBSTEPS)
    models = min(count, _CHUNK)
    ensemble = make_ensemble(plant, models, tosses, threads)
    controls = np.zeros((models, tosses, SUBSTEPS * (length - 1), plant.model.nu))
    poses = np.empty((count, tosses, length, 7))
    poses[:, :, 0] = first
    for begin in range(0, count, models):
        part = np.minimum(np.arange(begin, begin + models), count - 1)  # the last one fills up
        ensemble.write(thetas[part])
        records = ensemble.rollout(State(first[part], speeds[part]), controls, ('qpos',))
        simulated = records.fields['qpos'][:, :, SUBSTEPS - 1 :: SUBSTEPS]
        poses[part, :, 1:] = np.where(records.diverged[..., None, None], np.nan, simulated)
    return poses


def errors(poses: Array, recorded: Array) -> tuple[Array, Array]:
    """Return differences of positions (..., 3) [m] and rotation vectors (..., 3) [rad]."""
    apart = _rotation(recorded).inv() * _rotation(np.broadcast_to(poses, np.shape(poses)))
    turned = apart.as_rotvec().reshape(*np.shape(poses)[:-1], 3)
    return poses[..., :3] - recorded[..., :3], turned


def _rotation(poses: Array) -> Rotation:
    return Rotation.from_quat(poses[..., 3:].reshape(-1, 4)[:, [1, 2, 3, 0]])


def corner_heights(poses: Array) -> Array:
    """Return the heights (..., 8) of the corners in poses (..., 7) [m]."""
    up = _rotation(poses).inv().apply([0.0, 0.0, 1.0])  # in the frame of the cube
    above: Array = (up @ _CORNERS.T).reshape(*poses.shape[:-1], len(_CORNERS))
    return above + poses[..., 2:3]


def lowest_corner(poses: Array) -> Array:
    """Return the height (...,) of the lowest corner in poses (..., 7) [m]."""
    return np.asarray(corner_heights(poses).min(axis=-1))


def first_contact(tosses: Tosses) -> npt.NDArray[np.intp]:
    """Return the first row (T,) at which a corner may touch the table."""
    return np.argmax(lowest_corner(tosses.poses) < FREE_M, axis=1)


def estimate(plant: Plant, tosses: Tosses, seed: int = 0, threads: int = 0) -> Array:
    """
    Return samples (SAMPLES, P) of the posterior, from a uniform prior within the bounds.

    The rows of a toss are not independent: a toss counts as one observation, whose log likelihood
    is the mean of those of its rows. IdentificationError if all simulations diverge.
    """
    rng = np.random.default_rng(seed)
    priors = [Prior('uniform', lower=p.lower, upper=p.upper) for p in plant.parameters]
    drawn = distributions.sample(plant.parameters, priors, _FIRST_DRAWS, rng)
    length = tosses.poses.shape[1]
    sizes = np.concatenate([  # in parts, for memory
        _sizes(simulate(plant, part, tosses.starts, length, threads), tosses)
        for part in np.split(drawn, len(drawn) // _CHUNK)
    ])  # fmt: skip
    sizes[~np.isfinite(sizes)] = np.inf
    typical = np.median(sizes, axis=(2, 3))
    if not np.isfinite(typical).all(axis=1).any():
        raise IdentificationError('all simulations diverge')
    best = np.argmin(np.sum(typical / np.median(typical, axis=0), axis=1))
    smallest = np.reshape(_SMALLEST, (-1, 1))
    scale = np.maximum(np.median(sizes[best], axis=1) / np.sqrt(3.0), smallest)

    def log_likelihood(thetas: Array) -> Array:
        poses = simulate(plant, thetas, tosses.starts, length, threads)
        return log_likelihoods(poses, tosses, scale).sum(axis=1)

    config = SmcConfig(SAMPLES, power=1.0)
    return smc.infer(plant.parameters, priors, log_likelihood, config, rng).theta


def _sizes(poses: Array, tosses: Tosses) -> Array:
    """Return the lengths (N, 2, T, L) of the errors of positions and rotations."""
    both = _finite_errors(poses, tosses)
    return np.stack([np.linalg.norm(error, axis=-1) for error in both], axis=1)


def _finite_errors(poses: Array, tosses: Tosses) -> tuple[Array, Array]:
    """Return the errors (N, T, L, 3); not finite for tosses that diverge."""
    sound = np.isfinite(poses).all(axis=(2, 3), keepdims=True)
    recorded = np.broadcast_to(tosses.poses, poses.shape)
    moved, turned = errors(np.where(sound, poses, recorded), recorded)
    return np.where(sound, moved, np.nan), np.where(sound, turned, np.nan)


def log_likelihoods(poses: Array, tosses: Tosses, scale: Array) -> Array:
    """
    Return the log likelihood (N, T) of each toss for poses (N, T, L, 7), up to a constant.

    `scale` (2, L) is that of errors of positions and rotations. -inf where a toss diverges.
    """
    total = np.zeros(poses.shape[:2])
    weights = tosses.seen / tosses.rows[:, None]
    for error, width in zip(_finite_errors(poses, tosses), scale, strict=True):
        density = np.log1p((error / width[:, None]) ** 2 / FREEDOM).sum(axis=-1)
        total -= 0.5 * (FREEDOM + 1.0) * (weights * density).sum(axis=-1)
    return np.where(np.isnan(total), -np.inf, total)


def restitution(damping_ratio: float) -> float:
    """
    Return the restitution of a contact with a damping ratio, as in `solref`.

    A spring and a damper push, and never pull: the contact ends when their force is zero
    (Schwager and Poeschel, *Coefficient of restitution and linear-dashpot model revisited*, 2007).
    """
    if damping_ratio < 1.0:
        root = np.sqrt(1.0 - damping_ratio**2)
        phase = np.arctan2(2.0 * damping_ratio * root, 2.0 * damping_ratio**2 - 1.0)
        return float(np.exp(-damping_ratio / root * phase))
    if damping_ratio == 1.0:
        return float(np.exp(-2.0))
    root = np.sqrt(damping_ratio**2 - 1.0)
    log = np.log((damping_ratio + root) / (damping_ratio - root))
    return float(np.exp(-damping_ratio / root * log))


def damping_ratio(wanted: float) -> float:
    """Return the damping ratio of a contact with a restitution between 0.0001 and 0.99."""
    return float(brentq(lambda ratio: restitution(ratio) - wanted, 1e-3, 60.0))

"""Stein's direction: particles climb a density together, and keep a distance."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from emppi_ros.identify.csvgd.target_density import Evaluation, select_particles

Array = npt.NDArray[np.float64]
_MIN_BANDWIDTH = 1e-12  # of a bandwidth: particles in one place repel nobody
MOMENT_DECAY = 0.9, 0.99  # of the slope's mean, and of its square's
_EPSILON = 1e-12
MAX_STEP = 0.5  # of a step, in any coordinate: half a standard deviation of the prior
MAX_LOSS = 5.0  # nats that a particle may lose in a step, as its neighbours push it
MORE_DAMPING, LESS_DAMPING = 4.0, 0.5
MIN_DAMPING, MAX_DAMPING = 1e-4, 1e8  # of damping


def squared_distances(x: Array, y: Array) -> Array:
    """Return the squared distances (N, M) between the rows of x (N, D) and of y (M, D)."""
    return cdist(x, y, 'sqeuclidean')


def median_bandwidth(x: Array) -> float:
    """Return h of exp(-|x - y|^2 / h): the median heuristic of Liu and Wang (2016), for (N, D)."""
    apart = squared_distances(x, x)[np.triu_indices(len(x), 1)]
    return max(float(np.median(apart)) / np.log(len(x)), _MIN_BANDWIDTH) if len(x) > 1 else 1.0


def rbf_kernel(x: Array, bandwidth: float) -> tuple[Array, Array]:
    """
    Return the kernel (N, N) of all pairs, and what drives particles apart (N, D).

    The second is the sum over j of the derivative of k(x_j, x_i) by x_j.
    """
    kernel = np.exp(-squared_distances(x, x) / bandwidth)
    return kernel, (2.0 / bandwidth) * (kernel.sum(axis=1)[:, None] * x - kernel @ x)


def svgd_direction(x: Array, score: Array, bandwidth: float | None = None) -> Array:
    """
    Return the direction (N, D) in which SVGD moves particles (Liu and Wang 2016, eq. 8).

    Parameters
    ----------
    x, score : (N, D) arrays
        Particles, and the derivatives of the log density there.
    bandwidth : float
        Of the kernel exp(-|x - y|^2 / h); by the median heuristic if None.

    """
    kernel, apart = rbf_kernel(x, median_bandwidth(x) if bandwidth is None else bandwidth)
    return (kernel @ score + apart) / len(x)


class DampedStepper:
    """Moves N particles, each damped by itself."""

    def __init__(self, particles: int) -> None:
        """Begin with a damping of one."""
        self._damping: Array = np.ones(particles)

    @property
    def memory(self) -> tuple[Array, ...]:
        """What later steps depend on."""
        return (self._damping.copy(),)

    @memory.setter
    def memory(self, parts: tuple[Array, ...]) -> None:
        (damping,) = parts
        self._damping = damping.copy()


class Adam:
    """Adam (Kingma and Ba 2015); its state is its moments."""

    def __init__(self, density: Callable[[Array], Evaluation], rates: Array) -> None:
        """Begin at rest; `rates` are the lengths of steps to come, in coordinates."""
        self._density, self._rates = density, rates
        self._mean: Array = np.zeros(())
        self._square: Array = np.zeros(())
        self._count = 0

    @property
    def memory(self) -> tuple[Array, ...]:
        """What later steps depend on."""
        return self._mean, self._square, np.array(self._count)

    @memory.setter
    def memory(self, parts: tuple[Array, ...]) -> None:
        self._mean, self._square, count = parts
        self._count = int(count)

    def step(
        self, z: Array, now: Evaluation, multipliers: Array, stiffness: float
    ) -> tuple[Array, Evaluation]:
        """
        Return particles (N, D) after a step, and the density there.

        `multipliers` (N, C) and `stiffness`, the second derivative of the constraints'
        penalty, are in nats; Stein's direction is an average over particles, and they are not.
        """
        pull = np.einsum('nc,ncd->nd', multipliers + stiffness * now.defects, now.normals)
        slope = svgd_direction(z, now.score) - pull / len(z)
        moved = z + self.follow(slope)
        return moved, self._density(moved)

    def follow(self, slope: Array) -> Array:
        """Return the step that follows a slope, each entry at most about a rate long."""
        a, b = MOMENT_DECAY
        rate = self._rates[min(self._count, len(self._rates) - 1)]
        self._count += 1
        self._mean = a * self._mean + (1.0 - a) * slope
        self._square = b * self._square + (1.0 - b) * slope**2
        size = np.sqrt(self._square / (1.0 - b**self._count)) + _EPSILON
        return rate * self._mean / (1.0 - a**self._count) / size


class SteinNewton(DampedStepper):
    """Steps of all particles; its state is how much each is damped."""

    def __init__(self, density: Callable[[Array], Evaluation], particles: int) -> None:
        """Begin with steps about half as long as Newton's."""
        super().__init__(particles)
        self._density = density

    def step(
        self, z: Array, now: Evaluation, multipliers: Array, stiffness: float
    ) -> tuple[Array, Evaluation]:
        """
        Return particles (N, D) after a step, and the density there.

        `multipliers` (N, C) and `stiffness`, the second derivative of the constraints'
        penalty, are in nats.
        """

        def merit(at: Evaluation) -> Array:
            force = multipliers + 0.5 * stiffness * at.defects
            return at.log_p - np.sum(force * at.defects, axis=1)

        step = newton_direction(z, now, multipliers, stiffness, self._damping)
        length = np.maximum(np.abs(step).max(axis=1), MAX_STEP)
        moved = z + step * (MAX_STEP / length)[:, None]
        new = self._density(moved)
        kept = ~(merit(new) > merit(now) - MAX_LOSS)
        self._damping *= np.where(kept, MORE_DAMPING, LESS_DAMPING)
        self._damping = np.clip(self._damping, MIN_DAMPING, MAX_DAMPING)
        return select_particles(~kept, (moved, new), (z, now))


def newton_direction(
    z: Array, now: Evaluation, multipliers: Array, stiffness: float, damping: Array
) -> Array:
    """
    Return the step (N, D) of each particle at z (N, D), before it is cut to length.

    `damping` (N,) is how much of each curvature's own diagonal is added to it.
    """
    # the kernel measures in standard deviations of the posterior, not of the prior: what is
    # far apart in these has nothing to say about another's slope
    root = np.linalg.cholesky(now.curvature.mean(axis=0) + np.eye(z.shape[1]))
    kernels, apart = rbf_kernel(z @ root, median_bandwidth(z @ root))
    drive = kernels @ now.score + apart @ root.T
    pull = np.einsum('nc,ncd->nd', multipliers + stiffness * now.defects, now.normals)
    curvature = np.einsum('ij,jkl->ikl', kernels**2, now.curvature, optimize=True)
    curvature += stiffness * now.normals.swapaxes(1, 2) @ now.normals
    own = np.einsum('ndd->nd', curvature)  # a view
    own += damping[:, None] * own + 1.0
    return np.linalg.solve(curvature, (drive - pull)[..., None])[..., 0]

"""
Update rules of Stein variational gradient descent (SVGD): with Adam, and with curvature.

The update with curvature is a Stein variational Newton method (Detommaso et al., NeurIPS 2018),
block by block: each particle solves for its own step, with the kernel-weighted Gauss-Newton
curvature of all particles and that of its constraints. As in the Levenberg-Marquardt method, a
step that makes a particle much worse is rejected and repeated with more damping.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from emppi_ros.identify.csvgd.target_density import Evaluation, select_particles

Array = npt.NDArray[np.float64]
_MIN_BANDWIDTH = 1e-12  # coinciding particles do not repel one another
MOMENT_DECAY = 0.9, 0.99  # of the first and second moment
_EPSILON = 1e-12
MAX_STEP = 0.5  # in any coordinate: half a standard deviation of the prior
MAX_LOSS = 5.0  # nats; a step may lower the density, as neighbours repel a particle
MORE_DAMPING, LESS_DAMPING = 4.0, 0.5  # factors after a rejected or accepted step
MIN_DAMPING, MAX_DAMPING = 1e-4, 1e8


def median_bandwidth(x: Array) -> float:
    """Return h of exp(-|x - y|^2 / h) by the median heuristic of Liu and Wang (2016)."""
    apart = cdist(x, x, 'sqeuclidean')[np.triu_indices(len(x), 1)]
    return max(float(np.median(apart)) / np.log(len(x)), _MIN_BANDWIDTH) if len(x) > 1 else 1.0


def rbf_kernel(x: Array, bandwidth: float) -> tuple[Array, Array]:
    """
    Return the kernel matrix (N, N) and the repulsive term (N, D) of all particles.

    The repulsive term is the sum over j of the derivative of k(x_j, x_i) by x_j.
    """
    kernel = np.exp(-cdist(x, x, 'sqeuclidean') / bandwidth)
    return kernel, (2.0 / bandwidth) * (kernel.sum(axis=1)[:, None] * x - kernel @ x)


def svgd_direction(x: Array, score: Array, bandwidth: float | None = None) -> Array:
    """
    Return the SVGD direction (N, D) of particles x (N, D) (Liu and Wang 2016, eq. 8).

    The kernel is exp(-|x - y|^2 / bandwidth), by default with the median heuristic.
    """
    kernel, apart = rbf_kernel(x, median_bandwidth(x) if bandwidth is None else bandwidth)
    return (kernel @ score + apart) / len(x)


class DampedStepper:
    """Base of updates with curvature: keeps one damping factor per particle."""

    def __init__(self, particles: int) -> None:
        """Start with a damping of one."""
        self._damping: Array = np.ones(particles)

    @property
    def memory(self) -> tuple[Array, ...]:
        """State to checkpoint: later steps depend on it."""
        return (self._damping.copy(),)

    @memory.setter
    def memory(self, parts: tuple[Array, ...]) -> None:
        (damping,) = parts
        self._damping = damping.copy()


class Adam:
    """SVGD steps scaled by Adam (Kingma and Ba 2015)."""

    def __init__(self, density: Callable[[Array], Evaluation], rates: Array) -> None:
        """Start at rest; `rates` are the learning rates of the steps, in coordinates."""
        self._density, self._rates = density, rates
        self._mean: Array = np.zeros(())
        self._square: Array = np.zeros(())
        self._count = 0

    @property
    def memory(self) -> tuple[Array, ...]:
        """State to checkpoint: later steps depend on it."""
        return self._mean, self._square, np.array(self._count)

    @memory.setter
    def memory(self, parts: tuple[Array, ...]) -> None:
        self._mean, self._square, count = parts
        self._count = int(count)

    def step(
        self, z: Array, now: Evaluation, multipliers: Array, stiffness: float
    ) -> tuple[Array, Evaluation]:
        """
        Return the particles (N, D) after one step, and the density there.

        `multipliers` (N, C) and `stiffness`, the second derivative of the constraint penalty, are
        in nats. The SVGD direction is an average over particles, so they are divided by N.
        """
        pull = np.einsum('nc,ncd->nd', multipliers + stiffness * now.defects, now.normals)
        slope = svgd_direction(z, now.score) - pull / len(z)
        moved = z + self.follow(slope)
        return moved, self._density(moved)

    def follow(self, slope: Array) -> Array:
        """Return the Adam step along a gradient; each entry is at most about one rate long."""
        a, b = MOMENT_DECAY
        rate = self._rates[min(self._count, len(self._rates) - 1)]
        self._count += 1
        self._mean = a * self._mean + (1.0 - a) * slope
        self._square = b * self._square + (1.0 - b) * slope**2
        size = np.sqrt(self._square / (1.0 - b**self._count)) + _EPSILON
        return rate * self._mean / (1.0 - a**self._count) / size


class SteinNewton(DampedStepper):
    """Stein variational Newton steps with Levenberg-Marquardt damping of each particle."""

    def __init__(self, density: Callable[[Array], Evaluation], particles: int) -> None:
        """Start with a damping of one: steps about half as long as Newton's."""
        super().__init__(particles)
        self._density = density

    def step(
        self, z: Array, now: Evaluation, multipliers: Array, stiffness: float
    ) -> tuple[Array, Evaluation]:
        """Return the particles (N, D) after one step, and the density there, as `Adam.step`."""

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
    Return the step (N, D) of each particle z (N, D), before its length is limited.

    `damping` (N,) is the multiple of each curvature's own diagonal that is added to it.
    """
    # the kernel's metric is the posterior's curvature, not the prior's: particles that are far
    # apart in it do not influence each other
    root = np.linalg.cholesky(now.curvature.mean(axis=0) + np.eye(z.shape[1]))
    kernels, apart = rbf_kernel(z @ root, median_bandwidth(z @ root))
    drive = kernels @ now.score + apart @ root.T
    pull = np.einsum('nc,ncd->nd', multipliers + stiffness * now.defects, now.normals)
    curvature = np.einsum('ij,jkl->ikl', kernels**2, now.curvature, optimize=True)
    curvature += stiffness * now.normals.swapaxes(1, 2) @ now.normals
    own = np.einsum('ndd->nd', curvature)  # a view
    own += damping[:, None] * own + 1.0
    return np.linalg.solve(curvature, (drive - pull)[..., None])[..., 0]

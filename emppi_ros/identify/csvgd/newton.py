"""
Stein's direction with curvature (Detommaso et al., NeurIPS 2018), block by block.

Each particle solves for its own step, with the kernel-weighted Gauss-Newton curvature of all
and that of its constraints, as Levenberg and Marquardt do: a step that makes its particle
much worse is taken back, and tried again with more damping.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from emppi_ros.identify.csvgd import kernel
from emppi_ros.identify.csvgd.damping import Damped
from emppi_ros.identify.csvgd.target import Evaluation, choose

Array = npt.NDArray[np.float64]
LONGEST = 0.5  # of a step, in any coordinate: half a standard deviation of the prior
WORSE = 5.0  # nats that a particle may lose in a step, as its neighbours push it
CALMER, BOLDER = 4.0, 0.5
LEAST, MOST = 1e-4, 1e8  # of damping


class Newton(Damped):
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

        step = direction(z, now, multipliers, stiffness, self._damping)
        length = np.maximum(np.abs(step).max(axis=1), LONGEST)
        moved = z + step * (LONGEST / length)[:, None]
        new = self._density(moved)
        kept = ~(merit(new) > merit(now) - WORSE)
        self._damping *= np.where(kept, CALMER, BOLDER)
        self._damping = np.clip(self._damping, LEAST, MOST)
        return choose(~kept, (moved, new), (z, now))


def direction(
    z: Array, now: Evaluation, multipliers: Array, stiffness: float, damping: Array
) -> Array:
    """
    Return the step (N, D) of each particle at z (N, D), before it is cut to length.

    `damping` (N,) is how much of each curvature's own diagonal is added to it.
    """
    # the kernel measures in standard deviations of the posterior, not of the prior: what is
    # far apart in these has nothing to say about another's slope
    root = np.linalg.cholesky(now.curvature.mean(axis=0) + np.eye(z.shape[1]))
    kernels, apart = kernel.rbf(z @ root, kernel.median_bandwidth(z @ root))
    drive = kernels @ now.score + apart @ root.T
    pull = np.einsum('nc,ncd->nd', multipliers + stiffness * now.defects, now.normals)
    curvature = np.einsum('ij,jkl->ikl', kernels**2, now.curvature, optimize=True)
    curvature += stiffness * now.normals.swapaxes(1, 2) @ now.normals
    own = np.einsum('ndd->nd', curvature)  # a view
    own += damping[:, None] * own + 1.0
    return np.linalg.solve(curvature, (drive - pull)[..., None])[..., 0]

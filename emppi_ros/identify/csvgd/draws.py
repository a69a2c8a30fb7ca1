"""
Draws about Newton's step, with its curvature H, damped by d: u + G^-1 s + G^-1 R n, G = H + d.

With R R' = H + 2 d and n of standard normal numbers, as stochastic Newton has them for d = 0
(Martin, Wilcox, Burstedde and Ghattas, SIAM J. Sci. Comput. 2012). Of a Gaussian they are
reversible with any damping, so that Metropolis and Hastings accept all; a curved ridge is followed
by short steps, and what is stiff is drawn anew by each.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

Array = npt.NDArray[np.float64]


class Point(NamedTuple):
    """Where particles are in U coordinates, and a log density there."""

    u: Array  # (N, U)
    log_p: Array  # (N,)
    score: Array  # (N, U)
    curvature: Array  # (N, U, U): minus its second derivative, at least nearly; not negative


def newton(here: Point, damping: Array) -> Array:
    """Return Newton's step (N, U), with a damping (N,) added to all curvatures."""
    return np.linalg.solve(_damped(here, damping), here.score[..., None])[..., 0]


def propose(here: Point, damping: Array, normal: Array) -> Array:
    """Return coordinates (N, U) drawn about Newton's step, from standard normal numbers (N, U)."""
    noise = _root(here, damping) @ normal[..., None]
    return here.u + newton(here, damping) + np.linalg.solve(_damped(here, damping), noise)[..., 0]


def log_density(here: Point, u: Array, damping: Array) -> Array:
    """Return the log density (N,), but for a constant, of drawing coordinates (N, U) from here."""
    whole, root = _damped(here, damping), _root(here, damping)
    away = whole @ (u - here.u - newton(here, damping))[..., None]
    normal = np.linalg.solve(root, away)[..., 0]
    volume = np.log(np.einsum('...uu->...u', root)).sum(axis=-1)
    return np.linalg.slogdet(whole)[1] - volume - 0.5 * np.sum(normal**2, axis=-1)


def some(points: Point, index: npt.NDArray[np.int_]) -> Point:
    """Return some of the points, each as often as it is named."""
    return Point(*(part[index] for part in points))


def log_mixture(points: Point, u: Array, damping: float) -> Array:
    """Return the log density (M,), but for a constant, of drawing u (M, U) from any point of K."""
    each = Point(*(part[:, None] for part in points))
    return logsumexp(log_density(each, u, np.full((len(points.u), 1), damping)), axis=0)


def _damped(here: Point, damping: Array) -> Array:
    return here.curvature + damping[..., None, None] * np.eye(here.u.shape[-1])


def _root(here: Point, damping: Array) -> Array:
    return np.linalg.cholesky(_damped(here, 2.0 * damping))

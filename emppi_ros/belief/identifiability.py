"""
What measurements say about each parameter, whatever a filter makes of it.

That particles have drawn together proves nothing: of a parameter that no prediction depends on,
resampling alone leaves ever fewer values. So we look at the predictions: how far each moves, in
units of its standard deviation, when a parameter moves by that of its prior. The information of
all measurements adds up, and with the prior's it bounds from below what is left of the standard
deviation (Van Trees' inequality; in practice the local identifiability of Rothenberg,
Econometrica 1971). Of parameters that only their ratio shows, both stay wide.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_UNKNOWN = 0.9  # of the prior's standard deviation left: next to nothing was learned


def information(jacobian: Array) -> Array:
    """Return the Fisher information (P, P) of measurements with unit variance, from (n, P)."""
    return jacobian.T @ jacobian


def remaining(total: Array, prior: Array) -> Array:
    """
    Return which share (P,) of each prior's standard deviation measurements leave.

    `total` is the information (P, P) about parameters in units of their prior's standard
    deviation, `prior` their correlation (P, P) in the prior, which may be singular.
    """
    # (C^-1 + F)^-1 = C^1/2 (1 + C^1/2 F C^1/2)^-1 C^1/2, which asks for no inverse of C
    values, vectors = np.linalg.eigh(prior)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    inner = np.eye(len(total)) + root @ total @ root
    return np.sqrt(np.maximum(np.diag(root @ np.linalg.solve(inner, root)), 0.0))


def unidentifiable(shares: Array) -> npt.NDArray[np.bool_]:
    """Return which parameters (P,) measurements say next to nothing about."""
    return shares > _UNKNOWN

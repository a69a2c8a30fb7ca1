"""Standard deviations of a belief that are too small to mean anything."""

import numpy as np

from emppi_ros.belief.distributions import to_unbounded
from emppi_ros.belief.particles import Belief
from emppi_ros.belief.prior import JointPrior
from emppi_ros.core import weights

SMALLEST = 1e-3  # of the prior's: no model of a robot is right to so many digits


def unresolved(prior: JointPrior, belief: Belief) -> list[str]:
    """Return the uncertain parameters whose sd is below SMALLEST of that of the prior."""
    z = to_unbounded(prior.parameters, belief.theta)
    sd = np.sqrt(np.diag(weights.covariance(belief.log_weights, z)))
    narrow = (prior.spread > 0.0) & (sd < SMALLEST * prior.spread)
    return [one.name for one, flag in zip(prior.parameters, narrow, strict=True) if flag]

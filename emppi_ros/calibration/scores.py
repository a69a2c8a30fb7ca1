"""
Scores of a belief about one parameter over time, given the true values.

CRPS: continuous ranked probability score (Gneiting and Raftery, *Strictly proper scoring rules,
prediction, and estimation*, J. Am. Stat. Assoc. 102, 2007, eq. 21), in units of the value.
"""

import math

import numpy as np
import numpy.typing as npt

from emppi_ros.core import weights

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
SETTLING_S = 1.0  # after the start and after a change, in which coverage does not count
HELD_S = 0.5  # for which an interval must hold the truth to count as recovered
NARROWEST = 1e-6  # sd, in sd of the prior: a narrower belief counts as this wide
_ROUNDING_S = 1e-9


def is_inside(log_weights: Array, values: Array, truth: float, probability: float) -> bool:
    """Return whether the central interval of weighted values (M,) holds the truth."""
    tail = 0.5 * (1.0 - probability)
    low, high = (
        weights.quantile(log_weights, values[:, None], at)[0] for at in (tail, 1.0 - tail)
    )
    return bool(low <= truth <= high)


def crps(log_weights: Array, values: Array, truth: float) -> float:
    """
    Return the CRPS of weighted values (M,): E |x - truth| - E |x - x'| / 2.

    That of a single value is its absolute error.
    """
    shares = np.exp(weights.normalize(log_weights))
    order = np.argsort(values)
    x, w = values[order], shares[order]
    below = np.cumsum(w) - 0.5 * w  # probability below each value, half of its own included
    spread = 2.0 * float(w @ ((2.0 * below - 1.0) * x))  # E |x - x'|
    return float(w @ np.abs(x - truth)) - 0.5 * spread


def normal_log_score(mean: float, sd: float, truth: float) -> float:
    """
    Return the log density of the truth by a normal distribution.

    Averages over beliefs with these moments it is a proper score of any distribution (Dawid and
    Sebastiani, *Coherent dispersion criteria for optimal experimental design*, Annals of
    Statistics 27, 1999).
    """
    return -0.5 * math.log(2.0 * math.pi) - math.log(sd) - 0.5 * ((truth - mean) / sd) ** 2


def recovery_time(stamps: Array, inside: Flags, since: float) -> float | None:
    """
    Return the time [s] after `since` from which an interval holds the truth for HELD_S.

    None if it never does, or if the stamps (n,) end before.
    """
    times, hits = stamps[stamps > since - _ROUNDING_S], inside[stamps > since - _ROUNDING_S]
    for i in np.flatnonzero(hits):
        until = times[i] + HELD_S - _ROUNDING_S
        if times[-1] < until:
            return None
        if hits[i:][times[i:] <= until].all():
            return float(times[i] - since)
    return None


def settled(stamps: Array, changes: list[float]) -> Flags:
    """Return which stamps (n,) are at least SETTLING_S after the start and after each change."""
    flags = np.ones(len(stamps), dtype=np.bool_)
    for change in (0.0, *changes):
        since = stamps - change
        flags &= (since < 0.0) | (since >= SETTLING_S - _ROUNDING_S)
    return flags

"""
Blocks of parameters, each of which is weighted and resampled on its own.

Each is weighted by the degrees of freedom of its part of the robot: the block particle filter of
Rebeschini and van Handel (2015). A belief without blocks is one block.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.belief import information, noise
from emppi_ros.belief.changes import JUMP_SD, Jumps
from emppi_ros.belief.noise import NoiseScale
from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.journal.snapshot import restorable
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import particles
from emppi_ros.priors.distributions import to_bounded, to_unbounded
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.resampling import Indices, ResamplingConfig, match_moments
from emppi_ros.tasks.objects import Block

_RESOLUTION = 0.5  # of the draws after a jump, in sd of the prior
_POSSIBLE = 25.0  # chi-squared that a possible cause of a change may leave unexplained


@restorable
class Statistics(NamedTuple):
    """What a filter keeps about a block with U uncertain parameters, beside its particles."""

    noise: NoiseScale | None  # of the values that weight the block; None if it is fixed
    information: Array  # (M, U, U) Fisher information of each particle, in unbounded coordinates
    since: Array  # (U, U) the part of it since a change was last detected


class BlockPrior(NamedTuple):
    """The prior of a block of B parameters, U of which are uncertain."""

    parameters: Sequence[Parameter]
    columns: Indices  # (B,) of the parameters, among all of the task
    uncertain: Indices  # (U,) of the uncertain ones, among all of the task
    within: Indices  # (U,) of the uncertain ones, within the block
    center: Array  # (U,) their mean in unbounded coordinates
    spread: Array  # (U,) their standard deviation in unbounded coordinates
    dofs: Sequence[int]  # degrees of freedom that weight the block

    def unbounded(self, theta: Array) -> Array:
        """Return the uncertain parameters (M, U) of particles (M, B), unbounded."""
        return to_unbounded(self.parameters, theta)[:, self.within]


def marginal(prior: JointPrior, block: Block) -> BlockPrior:
    """Return the prior of a block."""
    columns = np.array(block.parameters, dtype=np.intp)
    within = np.flatnonzero(prior.spread[columns] > 0.0)
    among = columns[within]
    parameters = [prior.parameters[i] for i in columns]
    center, spread = prior.center[among], prior.spread[among]
    return BlockPrior(parameters, columns, among, within, center, spread, block.dofs)


def start(prior: BlockPrior, count: int) -> Statistics:
    """Return the statistics of `count` particles from the prior."""
    size = len(prior.spread)
    return Statistics(None, information.start(prior.spread, count), np.zeros((size, size)))


def reweight(
    config: ResamplingConfig, prior: BlockPrior, belief: Belief, log_likelihood: Array
) -> tuple[Belief, float]:
    """Return a block's part of a belief after its log-likelihood (M,), and the power of that."""
    block = Belief(belief.theta[:, prior.columns], belief.log_weights)
    return particles.update(config, block, log_likelihood)


def learn(
    dof: float | None,
    prior: BlockPrior,
    belief: Belief,
    power: float,
    errors: Array,
    statistics: Statistics,
    window: int = 1,
) -> Statistics:
    """
    Return noise and information after errors (M, N), in units of the configured sd.

    `dof` are the degrees of freedom of their distribution; the likelihood was raised to a power.
    Errors that are sums over a `window` of updates count by its inverse.
    A fixed scale stays as it is. Diverged particles, whose errors are not finite, are ignored.
    """
    scale, fisher, since = statistics
    finite = np.isfinite(errors).all(axis=1) & np.isfinite(belief.log_weights)
    if finite.any():
        shares, errors = belief.log_weights[finite], errors[finite]
        z = prior.unbounded(belief.theta)[finite]
        variance, each = (
            (np.ones(errors.shape[1]),) * 2 if scale is None else (scale.variance, scale.power)
        )
        precision = noise.precision(variance, dof, shares, errors) / window
        jacobian = information.sensitivity(shares, z, errors, precision, prior.spread)
        counted = power * each * precision
        fisher, since = (information.add(x, jacobian, counted) for x in (fisher, since))
        if scale is not None:
            scale = noise.update(scale, dof, shares, errors, precision, jacobian, prior.spread)
    if scale is not None:
        lag = np.minimum(noise.lag(scale), 1.0) * prior.spread**2
        if lag.any():
            fisher = information.raise_variance(fisher, belief.log_weights, lag)
    return Statistics(scale, fisher, since)


def resample(
    config: ResamplingConfig,
    prior: BlockPrior,
    belief: Belief,
    statistics: Statistics,
    rng: np.random.Generator,
    always: bool,
) -> tuple[Belief, Statistics, Indices | None]:
    """
    Resample a block, `always` or if its effective sample size is too small.

    Return particles and statistics, and the particle that each one was; None if none was drawn.
    """
    draw = particles.draw if always else particles.resample
    drawn, parents = draw(config, prior.parameters, belief, rng)
    if parents is None:
        return belief, statistics, None
    fisher = statistics.information[parents]
    if statistics.noise is not None:
        drawn = _raise_spread(prior, drawn, fisher, rng, source=belief)
    return drawn, statistics._replace(information=fisher), parents


def jump(prior: BlockPrior, statistics: Statistics, jumps: Jumps) -> Statistics:
    """Return the statistics after particles jumped."""
    fisher = statistics.information.copy()
    fisher[jumps.rows] = fisher[jumps.origins]
    jumped, among = np.nonzero(jumps.columns[:, None] == prior.uncertain)
    rows = jumps.rows[jumped]
    fisher[rows] = information.jump(fisher[rows], among, prior.spread)
    return statistics._replace(information=fisher)


def drift(prior: BlockPrior, statistics: Statistics, columns: Indices, share: float) -> Statistics:
    """Return the statistics after a share of the prior's variance drifted at `columns`."""
    variance = share * np.isin(prior.uncertain, columns) * prior.spread**2
    return statistics._replace(information=information.drift(statistics.information, variance))


def follow_change(
    prior: BlockPrior,
    belief: Belief,
    statistics: Statistics,
    changed: Sequence[int],
    rng: np.random.Generator,
) -> tuple[Belief, Statistics]:
    """Return belief and statistics after the parameters `changed` were detected to have jumped."""
    scale, fisher, since = statistics
    if scale is None:
        return belief, statistics
    flags, nothing = np.isin(prior.uncertain, changed), np.zeros_like(since)
    fisher = information.restart(fisher, flags, nothing, _RESOLUTION * prior.spread)
    belief = _raise_spread(prior, belief, fisher, rng)
    return belief, Statistics(noise.forget_recent(scale), fisher, nothing)


def reconsider_change(
    prior: BlockPrior,
    belief: Belief,
    statistics: Statistics,
    changed: int,
    step: float,
    columns: Indices,
    rng: np.random.Generator,
) -> tuple[Belief, Statistics]:
    """
    Return belief and statistics when more is known about the cause of a change.

    The parameter `changed` was detected to have jumped, until now by a `step` in unbounded
    coordinates. Those at `columns` that explain the same measurements are as uncertain as after a
    jump and the information since then; without that information if the errors since then are
    correlated, so that the step does not explain them.
    """
    scale, fisher, since = statistics
    if scale is None:
        return belief, statistics
    possible = np.isin(prior.uncertain, columns)
    if noise.is_white(scale):
        column = int(np.flatnonzero(prior.uncertain == changed)[0])
        possible &= information.unexplained(since, column, step) < _POSSIBLE
        if possible.sum() == 1:
            return belief, statistics
    else:
        since = np.zeros_like(since)
    fisher = information.restart(fisher, possible, since, JUMP_SD * prior.spread)
    mean = weights.mean(belief.log_weights, prior.unbounded(belief.theta))
    belief = _raise_spread(prior._replace(center=mean), belief, fisher, rng, source=belief)
    return belief, Statistics(noise.forget_recent(scale), fisher, since)


def _raise_spread(
    prior: BlockPrior,
    belief: Belief,
    fisher: Array,
    rng: np.random.Generator,
    source: Belief | None = None,
) -> Belief:
    """
    Return particles whose covariance is raised to that of the posterior.

    With a `source`, they get exactly its mean, and its covariance raised so.
    """
    drawn_from = source or belief
    before = prior.unbounded(drawn_from.theta)
    covariance = weights.covariance(drawn_from.log_weights, before)
    added = information.missing(covariance, information.covariance(belief.log_weights, fisher))
    z = to_unbounded(prior.parameters, belief.theta)
    diffused = information.diffuse(z[:, prior.within], added, prior.center, prior.spread, rng)
    if source is not None:
        mean = weights.mean(source.log_weights, before)
        diffused = match_moments(diffused, mean, covariance + added)
    z[:, prior.within] = diffused
    return Belief(to_bounded(prior.parameters, z), belief.log_weights)

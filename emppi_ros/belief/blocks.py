"""
Blocks of parameters, each of which is weighted and resampled on its own.

With one weight for many parameters, the number of particles must grow exponentially with the
number of parameters. If each part of a robot depends on its own parameters only, each such block
is weighted by the degrees of freedom of that part: the block particle filter of Rebeschini and
van Handel (2015). The bias is the information that parts have about the parameters of other
blocks. A belief without blocks is one block.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import information, noise
from emppi_ros.belief.noise import NoiseScale
from emppi_ros.belief.transition import Jumps
from emppi_ros.core import weights
from emppi_ros.journal.snapshot import restorable
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import particles
from emppi_ros.priors.distributions import to_bounded, to_unbounded
from emppi_ros.priors.joint_prior import JointPrior
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.resampling import Indices, ResamplingConfig
from emppi_ros.tasks.objects import Block

Array = npt.NDArray[np.float64]
_RESOLUTION = 0.5  # of the draws after a jump, in sd of the prior


@restorable
class Statistics(NamedTuple):
    """
    What a filter keeps about a block with U uncertain parameters, beside its particles.

    Attributes
    ----------
    noise : NoiseScale or None
        Learned noise of the values that weight the block; None if it is fixed.
    information : (M, U, U) array
        Fisher information of each particle, in unbounded coordinates.

    """

    noise: NoiseScale | None
    information: Array


class BlockUpdate(NamedTuple):
    """
    A block after an observation.

    Attributes
    ----------
    belief : Belief
        Particles of the block's parameters.
    statistics : Statistics
        Learned noise and information.
    ess : float
        Effective sample size before resampling.
    parents : (M,) array or None
        The particle that each one was before resampling; None if they were not resampled.

    """

    belief: Belief
    statistics: Statistics
    ess: float
    parents: Indices | None


class BlockPrior(NamedTuple):
    """
    The prior of a block of B parameters, U of which are uncertain.

    Attributes
    ----------
    parameters : sequence of Parameter
        The parameters of the block.
    columns : (B,) array
        Their indices among all parameters of the task.
    uncertain : (U,) array
        Indices of the uncertain ones among all parameters of the task.
    within : (U,) array
        Indices of the uncertain ones within the block.
    center, spread : (U,) arrays
        Mean and standard deviation of these in unbounded coordinates.

    """

    parameters: Sequence[Parameter]
    columns: Indices
    uncertain: Indices
    within: Indices
    center: Array
    spread: Array


def marginal(prior: JointPrior, block: Block) -> BlockPrior:
    """Return the prior of a block."""
    columns = np.array(block.parameters, dtype=np.intp)
    within = np.flatnonzero(prior.spread[columns] > 0.0)
    among = columns[within]
    parameters = [prior.parameters[i] for i in columns]
    return BlockPrior(parameters, columns, among, within, prior.center[among], prior.spread[among])


def start(prior: BlockPrior, count: int) -> Statistics:
    """Return the statistics of `count` particles from the prior."""
    return Statistics(None, information.start(prior.spread, count))


def update(
    config: ResamplingConfig,
    dof: float,
    prior: BlockPrior,
    belief: Belief,
    log_likelihood: Array,
    errors: Array,
    statistics: Statistics,
    rng: np.random.Generator,
    always: bool,
) -> BlockUpdate:
    """
    Weigh the particles of a block, learn the noise, and resample.

    Parameters
    ----------
    config : ResamplingConfig
        When and how to resample.
    dof : float
        Degrees of freedom of the errors' distribution, if its scale is learned.
    prior : BlockPrior
        Prior of the block.
    belief : Belief
        Particles (M, B) of the block's parameters.
    log_likelihood : (M,) array
        Log-likelihood of each particle; -inf if it diverged.
    errors : (M, N) array
        Errors of the values that weight the block, in units of the configured sd.
    statistics : Statistics
        Learned noise and information before.
    rng : numpy Generator
        Source of the noise.
    always : bool
        Resample even if the effective sample size is large.

    """
    scale, fisher = statistics
    if scale is not None:
        log_likelihood = scale.power * log_likelihood
    belief, power = particles.update(config, belief, log_likelihood)
    ess = weights.effective_sample_size(belief.log_weights)
    if scale is not None:
        z = to_unbounded(prior.parameters, belief.theta)[:, prior.within]
        precision = noise.precision(scale, dof, belief.log_weights, errors)
        jacobian = information.sensitivity(belief.log_weights, z, errors, precision, prior.spread)
        fisher = information.add(fisher, jacobian, power * scale.power * precision)
        covariance = weights.covariance(belief.log_weights, z)
        scale = noise.update(
            scale, dof, belief.log_weights, errors, precision, jacobian, prior.spread
        )
        lag = np.minimum(noise.lag(scale), 1.0) * prior.spread**2
        if lag.any():
            fisher = information.raise_variance(fisher, belief.log_weights, lag)
    resample = particles.draw if always else particles.resample
    belief, parents = resample(config, prior.parameters, belief, rng)
    if parents is not None:
        fisher = fisher[parents]
        if scale is not None:
            belief = _raise_spread(prior, belief, covariance, fisher, rng)
    return BlockUpdate(belief, Statistics(scale, fisher), ess, parents)


def jump(prior: BlockPrior, statistics: Statistics, jumps: Jumps) -> Statistics:
    """Return the statistics after particles jumped."""
    fisher = statistics.information.copy()
    fisher[jumps.rows] = fisher[jumps.origins]
    jumped, among = np.nonzero(jumps.columns[:, None] == prior.uncertain)
    rows = jumps.rows[jumped]
    fisher[rows] = information.jump(fisher[rows], among, prior.spread)
    return Statistics(statistics.noise, fisher)


def drift(prior: BlockPrior, statistics: Statistics, columns: Indices, share: float) -> Statistics:
    """Return the statistics after a share of the prior's variance drifted at `columns`."""
    variance = share * np.isin(prior.uncertain, columns) * prior.spread**2
    return Statistics(statistics.noise, information.drift(statistics.information, variance))


def follow_change(
    prior: BlockPrior,
    belief: Belief,
    statistics: Statistics,
    changed: Sequence[int],
    rng: np.random.Generator,
) -> tuple[Belief, Statistics]:
    """
    Return belief and statistics after the parameters `changed` were detected to have jumped.

    The particles near the new values descend from a few draws, so that the true ones are between
    them: particles spread over the distance of these draws. Errors before do not count as noise.
    """
    scale, fisher = statistics
    if scale is None:
        return belief, statistics
    fisher = fisher.copy()
    for i in np.flatnonzero(np.isin(prior.uncertain, changed)):
        column = np.full(len(fisher), i)
        fisher = information.jump(fisher, column, _RESOLUTION * prior.spread)
    z = to_unbounded(prior.parameters, belief.theta)[:, prior.within]
    covariance = weights.covariance(belief.log_weights, z)
    belief = _raise_spread(prior, belief, covariance, fisher, rng)
    return belief, Statistics(noise.forget_recent(scale), fisher)


def _raise_spread(
    prior: BlockPrior,
    belief: Belief,
    covariance: Array,
    fisher: Array,
    rng: np.random.Generator,
) -> Belief:
    """Return particles whose covariance (U, U) is raised to that of the posterior."""
    floor = information.covariance(belief.log_weights, fisher)
    added = information.missing(covariance, floor)
    z = to_unbounded(prior.parameters, belief.theta)
    z[:, prior.within] = information.diffuse(
        z[:, prior.within], added, prior.center, prior.spread, rng
    )
    return Belief(to_bounded(prior.parameters, z), belief.log_weights)

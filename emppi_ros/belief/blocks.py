"""
A belief in blocks: parameters that are judged by their own degrees of freedom alone.

One weight for all of many parameters asks for particles exponential in their number: whoever is
right about one finger is wrong about another. Where each part of a robot shows its own parameters,
each block of them is weighed and drawn by itself, and particles are put together from what was
drawn: the block particle filter of Rebeschini and van Handel (2015), whose bias is what parts say
about one another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import particles
from emppi_ros.belief.particles import ResamplingConfig
from emppi_ros.core import weights
from emppi_ros.core.config import key
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BlockConfig:
    """One entry of `belief: blocks`."""

    parameters: tuple[str, ...] = key(doc='that are weighed and drawn together')
    by: tuple[str, ...] = key(doc='joints and tracked objects that show them')


class Block(NamedTuple):
    """Places of a block's parameters, and of the degrees of freedom that show them."""

    parameters: tuple[int, ...]
    dofs: tuple[int, ...]


def update(
    config: ResamplingConfig,
    parameters: Sequence[Parameter],
    blocks: Sequence[Block],
    theta: Array,
    log_likelihood: Array,
    rng: np.random.Generator,
) -> tuple[Array, float]:
    """
    Return particles (M, P) of equal weight after an observation, and the least sample size.

    Parameters
    ----------
    config : ResamplingConfig
        How each block is tempered and drawn anew.
    parameters : sequence of Parameter
        All P of them.
    blocks : sequence of Block
        Each parameter in one of them.
    theta : (M, P) array
        Particles of equal weight.
    log_likelihood : (M, nv) array
        What each degree of freedom says; a row of -inf for a particle that diverged.
    rng : numpy Generator
        Source of the draws.

    """
    updated, sizes = theta.copy(), []
    for block in blocks:
        columns = list(block.parameters)
        before = particles.uniform(theta[:, columns])
        evidence = log_likelihood[:, list(block.dofs)].sum(axis=1)
        after = particles.update(config, before, evidence)
        sizes.append(weights.effective_sample_size(after.log_weights))
        drawn, _ = particles.draw(config, [parameters[i] for i in columns], after, rng)
        updated[:, columns] = drawn.theta
    return updated, min(sizes)

"""
The block particle filter of Rebeschini and van Handel (2015).

With one weight for many parameters, the number of particles must grow exponentially with the
number of parameters. If each part of a robot depends on its own parameters only, each such block
is weighted and resampled on its own, by the degrees of freedom of that part. The bias is the
information that parts have about the parameters of other blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import particles
from emppi_ros.belief.particles import Belief
from emppi_ros.belief.resampling import ResamplingConfig
from emppi_ros.core import weights
from emppi_ros.core.config import key
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BlockConfig:
    """One entry of `belief: blocks`."""

    parameters: tuple[str, ...] = key(doc='parameters with a common weight')
    by: tuple[str, ...] = key(doc='joints and tracked objects that determine the weight')


class Block(NamedTuple):
    """Indices of a block's parameters, and of the degrees of freedom that weight them."""

    parameters: tuple[int, ...]
    dofs: tuple[int, ...]


def update(
    config: ResamplingConfig,
    parameters: Sequence[Parameter],
    blocks: Sequence[Block],
    belief: Belief,
    log_likelihood: Array,
    rng: np.random.Generator,
) -> tuple[Array, float]:
    """
    Return particles (M, P) of equal weight after an observation, and the smallest ESS.

    `blocks` is a partition of the parameters, and `log_likelihood` (M, nv) that of each degree of
    freedom; diverged particles have rows of -inf.
    """
    updated, sizes = belief.theta.copy(), []
    for block in blocks:
        columns = list(block.parameters)
        before = Belief(belief.theta[:, columns], belief.log_weights)
        evidence = log_likelihood[:, list(block.dofs)].sum(axis=1)
        after, _ = particles.update(config, before, evidence)
        sizes.append(weights.effective_sample_size(after.log_weights))
        drawn, _ = particles.draw(config, [parameters[i] for i in columns], after, rng)
        updated[:, columns] = drawn.theta
    return updated, min(sizes)

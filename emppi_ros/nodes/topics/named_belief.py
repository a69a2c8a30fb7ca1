"""
The topic `emppi/belief/named`: the belief with names, units, quantiles and its origin.

It needs the package `emppi_msgs`. Nodes use `emppi/belief`, which needs no interfaces of our own.
"""

from array import array
from collections.abc import Sequence

import numpy as np

from emppi_ros.belief.belief_session import StampedBelief
from emppi_ros.core import weights
from emppi_ros.model.parameters import Parameter
from emppi_ros.nodes.common import convert, interfaces
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task

NAMED = 'emppi/belief/named'
_LOWER, _UPPER = 0.05, 0.95  # probabilities of the quantiles


def estimates(
    parameters: Sequence[Parameter], belief: Belief
) -> list['interfaces.ParameterEstimate']:
    """Return mean, standard deviation and 90 % interval of each parameter."""
    theta, log_weights = belief
    columns = (
        weights.mean(log_weights, theta),
        np.sqrt(np.diag(weights.covariance(log_weights, theta))),
        weights.quantile(log_weights, theta, _LOWER),
        weights.quantile(log_weights, theta, _UPPER),
    )
    return [
        interfaces.ParameterEstimate(
            name=parameter.name, unit=parameter.unit, mean=mean, sd=sd, lower=lower, upper=upper
        )
        for parameter, mean, sd, lower, upper in zip(
            parameters, *(column.tolist() for column in columns), strict=True
        )
    ]


def write_named_belief(task: Task, stamped: StampedBelief, updates: int) -> 'interfaces.Belief':
    """Return the message of a belief after a number of updates."""
    belief = stamped.belief
    message = interfaces.Belief(task=task.name, prior=task.prior.describe(), updates=updates)
    message.header.stamp = convert.to_stamp(stamped.stamp)
    message.header.frame_id = task.robot.frame
    message.parameters = estimates(task.parameters, belief)
    message.particles = array('d', belief.theta.ravel().tolist())
    message.weights = array('d', np.exp(belief.log_weights).tolist())
    message.ess = float(stamped.ess)
    return message

"""Standard deviations that no model justifies are named."""

from collections.abc import Callable

import numpy as np
import pytest

from emppi_ros.belief import particles, resolution
from emppi_ros.belief.distributions import to_bounded
from emppi_ros.tasks.task import Task


@pytest.mark.parametrize(('factor', 'named'), [(0.5, ['mass']), (2.0, [])])
def test_a_belief_is_unresolved_below_a_thousandth_of_the_prior(
    make_task: Callable[..., Task], factor: float, named: list[str]
) -> None:
    prior = make_task('slider').prior
    ends = np.array([[-1.0], [1.0]]) * factor * resolution.SMALLEST * prior.spread
    theta = to_bounded(prior.parameters, prior.center + ends)  # two points: their sd is known
    assert resolution.unresolved(prior, particles.uniform(theta)) == named


def test_certain_parameters_are_never_named(
    make_task: Callable[..., Task], task_data: Callable[..., dict]
) -> None:
    data = task_data('slider')
    data['parameters']['mass']['prior'] = {'distribution': 'fixed', 'value': 2.0}
    belief = particles.uniform(np.full((3, 1), 2.0))
    assert resolution.unresolved(make_task('slider', data).prior, belief) == []

"""What the judge of the faults allows, and why."""

from faultlab import oracle, trials
import numpy as np
import pytest

MOTIONS = 20_000  # at random: enough to come within 5 % of the worst


@pytest.mark.slow
@pytest.mark.parametrize('phases', [1, 2, 3, 4])
def test_a_joint_passes_rest_by_what_its_quintic_makes_of_it_and_no_more(phases: int) -> None:
    """All motions that come to rest between two points, at most T apart, with jerk -j, 0 or j."""
    rng = np.random.default_rng(phases)
    length, jerk = 1.25e-3, 1960.0
    durations = length * rng.dirichlet(np.full(phases + 1, 0.7), MOTIONS).T  # the last: at rest
    durations[-1, ::2] = 0.0
    signs = rng.choice([-1.0, 0.0, 1.0], (phases, MOTIONS))
    p = v = a = np.zeros(MOTIONS)
    forward = np.ones(MOTIONS, dtype=bool)
    for j, d in reversed([*zip(jerk * signs, durations[:-1], strict=True)]):  # back from rest
        a, s = a - j * d, d * np.linspace(0.0, 1.0, 9)[:, None]
        v = v - a * d - j * d**2 / 2.0
        p = p - v * d - a * d**2 / 2.0 - j * d**3 / 6.0
        forward &= (v + a * s + j * s**2 / 2.0).min(axis=0) >= -1e-12  # never turned round
    begin, end = np.stack([p, v, a]), np.zeros((3, MOTIONS))
    total = durations.sum(axis=0)
    lowest = 0.0
    for i in np.flatnonzero(forward):
        way = oracle._quintic(begin[:, i : i + 1], end[:, i : i + 1], total[i])
        lowest = min(lowest, oracle._at(way, np.linspace(0.0, total[i], 51), 1).min())
    assert -trials.REVERSED <= lowest
    if phases > 1:
        assert lowest < -0.95 * trials.REVERSED  # and it is the bound, not some larger number

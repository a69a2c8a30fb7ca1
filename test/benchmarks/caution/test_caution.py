"""`emppi bench caution`: forces and spreads in bins, and what the page concludes from them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.studies import caution
from benchmarks.studies.caution import BINS, CautionRow
from benchmarks.study import Results
from emppi_ros.priors import particles


def row(controller: str, seed: int, newton: float, **fields: Any) -> CautionRow:
    values = {
        'task': 'door', 'success': True, 'time_s': 2.0, 'spread': (0.1,) * BINS, 'digest': 'one',
        'force': (newton,) * BINS,
    }  # fmt: skip
    return CautionRow(controller=controller, seed=seed, **{**values, **fields})


def test_the_spread_is_the_mean_of_standard_deviations_over_means() -> None:
    belief = particles.uniform(np.array([[1.0, 10.0], [3.0, 30.0]]))  # sd / mean: 1/2 and 1/2
    assert caution.relative_spread(belief) == pytest.approx(0.5)  # rounding only


def test_forces_are_compared_by_seed_and_as_long_as_both_runs_last() -> None:
    names = {
        'emppi': [row('emppi', 0, 3.0), row('emppi', 1, 5.0), row('emppi', 2, 9.0)],
        'mppi-true': [row('mppi-true', 1, 1.0), row('mppi-true', 0, 1.0, force=(2.0, 2.0))],
    }
    assert caution.differences(names, 'mppi-true') == [[1.0, 1.0], [4.0] * BINS]


@pytest.mark.parametrize(('early', 'late', 'first', 'then'), [
    (-1.0, 0.0, 'holds', 'holds'), (0.0, 2.0, 'does not hold', 'does not hold'),
])  # fmt: skip
def test_a_verdict_needs_an_interval_of_enough_runs(
    early: float, late: float, first: str, then: str
) -> None:
    guess, oracle = ([[value + 0.1 * k] * BINS for k in range(-3, 4)] for value in (early, late))
    texts = caution.verdicts(guess, oracle)
    assert f'**{first}**' in texts[0] and f'**{then}**' in texts[1]
    assert '**does not hold**' in caution.verdicts(guess[:3], oracle)[0]  # no interval


def test_a_page_has_success_forces_and_a_plot(tmp_path: Path) -> None:
    rows = [row(n, s, 1.0 + s) for n in ('emppi', 'mppi-true') for s in range(7)]
    page = caution.STUDY.page(Results([*rows, row('no-update', 0, 1.0, success=False)], tmp_path))
    text = '\n'.join(page.values['tasks'])
    assert '| emppi | 7/7 (' in text and '| no-update | 0/1 (' in text
    assert '| 3 | 0.1 (0.1 to 0.1) | 4 (1 to 7) | 0 (0 to 0) |' in text
    assert (tmp_path / 'caution_door.png').exists()

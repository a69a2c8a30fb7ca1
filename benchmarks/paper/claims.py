"""The paper's claims, checked against the numbers; the thresholds were fixed before any run."""

from typing import NamedTuple

import numpy as np

from benchmarks.paper.cells import LEARNER, ORACLE, WRONG
from benchmarks.paper.summary import KNOWN, STEPS, ErrorReduction, JointKindBelief, Summary
from emppi_ros.model.uncertain_joints import MOVED_M

FIRST_RUN = 0.9  # of first runs succeed
NEAR_ORACLE = 0.10  # how far the success rate may be below that with the true parameters
LEFT_OVER = 0.05  # of the squared parameter error: a reduction by 95 %
CALIBRATED = (0.80, 0.97)  # share of true values in 90 % intervals
_ROUNDING = 1e-9  # 18/20 is within 0.1 of 20/20


class Verdict(NamedTuple):
    """A claim about a task, whether it holds, and the numbers."""

    task: str
    claim: str
    holds: bool
    numbers: str

    @property
    def words(self) -> str:
        """Whether the claim holds, as text."""
        return 'holds' if self.holds else 'does not hold'


def judge(summary: Summary) -> list[Verdict]:
    """Return a verdict on each claim for each task; studies that were not run are not judged."""
    verdicts = []
    for task, shares in summary.success.items():
        if LEARNER not in shares:
            continue
        first = shares[LEARNER]
        holds = first.rate >= FIRST_RUN
        verdicts.append(Verdict(task, 'succeeds from the first run', holds, f'{first}'))
        # with consecutive targets each of them counts (the paper's Fig. 4a)
        tried = summary.attempts.get(task, {})
        counted = tried if LEARNER in tried else shares
        ours, oracle, wrong = counted[LEARNER], counted.get(ORACLE), counted.get(WRONG)
        if oracle is not None:
            holds = ours.rate >= oracle.rate - NEAR_ORACLE - _ROUNDING
            numbers = f'{ours}; with the true parameters {oracle}'
            verdicts.append(Verdict(task, 'succeeds like the oracle', holds, numbers))
        if wrong is not None and wrong.rate < FIRST_RUN:
            numbers = f'{ours}; with the wrong model {wrong}'
            holds = ours.rate > wrong.rate
            verdicts.append(Verdict(task, 'succeeds where a wrong model fails', holds, numbers))
        if task in summary.in_steps:
            within = summary.in_steps[task]
            claim = f'succeeds within {STEPS[task]} control steps'
            verdicts.append(Verdict(task, claim, within.rate >= FIRST_RUN, f'{within}'))
        fall = summary.fall.get(task)
        if fall is not None and np.isfinite(fall.ratio):
            verdicts.append(_error_verdict(task, 'its estimates converge', fall))
        if task in summary.kinds:
            verdicts.append(_kind_verdict(task, summary.kinds[task]))
    for task, learning in summary.learning.items():
        claim = (
            f'its squared error falls by {_percent(1.0 - LEFT_OVER)} % within '
            f'{learning.seconds:g} s, {learning.steps} steps'
        )
        verdicts.append(_error_verdict(task, claim, learning.fall))
    return verdicts


def _error_verdict(task: str, claim: str, fall: ErrorReduction) -> Verdict:
    """Return whether the squared error was reduced enough."""
    numbers = (
        f'squared error {fall.start:.3g} to {fall.end:.3g} at the median, '
        f'{_percent(fall.ratio)} % left; it fell in {fall.fallen}'
    )
    return Verdict(task, claim, fall.ratio <= LEFT_OVER, numbers)


def _kind_verdict(task: str, kind: JointKindBelief) -> Verdict:
    """Return whether every run identified the kind of its joint once it had moved."""
    claim = f"knows the joint's type after {100.0 * MOVED_M:g} cm"
    numbers = (
        f'more than {_percent(KNOWN)} % of the belief in {kind.known}, at least '
        f'{100.0 * kind.least:.1f} % in each'
    )
    if kind.still:
        numbers += f'; it did not move so far in {kind.still} other runs'
    return Verdict(task, claim, kind.known.count == kind.known.total, numbers)


def judge_calibration(summary: Summary) -> list[Verdict]:
    """Return whether the 90 % intervals of each parameter are calibrated."""
    low, high = CALIBRATED
    return [
        Verdict(name, '90 % intervals are calibrated', low <= share.rate <= high, f'{share}')
        for name, share in summary.calibration.items()
    ]


def _percent(share: float) -> str:
    """Return a share in percent, small ones with two significant digits."""
    return f'{100.0 * share:.0f}' if 100.0 * share >= 10 else f'{100.0 * share:.2g}'

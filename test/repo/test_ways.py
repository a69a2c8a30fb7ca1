"""The ways of the data: how many files a joint state passes to the belief and to a plan."""

from collections.abc import Callable
from pathlib import Path
import sys
from types import FrameType

import numpy as np
import pytest

from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.planning.planner import Planner

PACKAGE = Path(__file__).resolve().parents[2] / 'emppi_ros'
# the vocabulary that all rooms share, such as models and tasks, is not part of a way
ROOMS = {'journal', 'state', 'belief', 'planning', 'strategies'}
NODE = {'nodes/common/inputs.py', 'nodes/common/convert.py'}  # subscription and conversion


def files(call: Callable[[], object]) -> set[str]:
    """Return the files of these rooms in which a function runs."""
    passed: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == 'call' and path.is_relative_to(PACKAGE):
            passed.add(str(path.relative_to(PACKAGE)))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {path for path in passed if path.split('/')[0] in ROOMS}


@pytest.mark.parametrize(
    ('node', 'most'), [('nodes/belief/node.py', 14), ('nodes/planner/node.py', 11)]
)
def test_a_joint_state_passes_few_files(make_task, node: str, most: int) -> None:
    task = make_task('slider')
    belief, planner = BeliefSession(task, 0), Planner(task, 0)
    planner.set_belief(belief.filter.belief)

    def arrive(stamp: float) -> None:
        for session in (belief, planner):
            session.add_joints(stamp, np.zeros(1), np.ones(1))
            session.add_command(stamp, np.ones(1))

    def learn() -> None:
        for stamp in np.arange(1, 40) * 0.02:  # longer than between two drifts
            arrive(float(stamp))
            belief.update()

    def plan() -> None:
        arrive(1.0)
        planner.plan(1.0)

    learned = files(learn)
    assert belief.counts['updates'] and belief.counts['resampled']
    way = {node, *NODE, *(learned if 'belief' in node else files(plan))}
    assert all((PACKAGE / path).is_file() for path in way)
    assert len(way) <= most, sorted(way)

"""An operator's closed loop: at rest until armed, at rest when paused, tuned while it moves."""

import numpy as np
import pytest

from emppi_ros.app.supervised_loop import SupervisedLoop
from emppi_ros.bridge.state_machine import Phase
from emppi_ros.core.errors import ConfigError


def go_on(loop: SupervisedLoop, seconds: float) -> None:
    loop.run(seconds, stop_at_success=False)


def commands(loop: SupervisedLoop) -> np.ndarray:
    return loop.trace.commands[-1][1]


def test_nothing_is_commanded_before_it_is_armed(make_task):
    loop = SupervisedLoop(make_task('block'))
    go_on(loop, 0.5)
    assert loop.machine.phase is Phase.INACTIVE
    assert loop.plan is not None  # it plans, as over ROS, and nobody follows
    assert np.all(commands(loop) == 0.0)
    loop.arm(True)
    go_on(loop, 0.5)
    assert loop.machine.phase is Phase.MOVING
    assert np.any(commands(loop) != 0.0)


def test_paused_or_disarmed_it_comes_to_rest(make_task):
    loop = SupervisedLoop(make_task('block'))
    for stop, phase in ((lambda: loop.pause(True), Phase.ARMED),
                        (lambda: loop.arm(False), Phase.INACTIVE)):  # fmt: skip
        loop.arm(True)
        loop.pause(False)
        go_on(loop, 0.3)
        stop()
        go_on(loop, 0.5)
        assert np.all(commands(loop) == 0.0)
        assert loop.machine.phase is phase


def test_tuned_it_plans_by_the_new_numbers_and_keeps_what_it_learned(make_task):
    loop = SupervisedLoop(make_task('block'))
    loop.arm(True)
    go_on(loop, 0.3)
    belief, time = loop.filter.belief, loop.robot.time
    loop.tune({'planner.temperature': 0.5, 'cost.reach.weight': 3.0})
    assert loop.planner.settings.temperature == 0.5
    assert loop.planner.stage.cost.terms[0].weight == 3.0
    assert loop.filter.belief is belief and loop.robot.time == time
    with pytest.raises(ConfigError, match='planner.temperature'):
        loop.tune({'planner.temperature': -1.0})
    assert loop.planner.settings.temperature == 0.5

"""The states of the bridge: every way into motion leads through an operator's hands."""

from hypothesis import given
from hypothesis import strategies as st
import pytest

from emppi_ros.bridge import faults, machine
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.machine import Machine, Phase
from emppi_ros.errors import ArmError

FAULT = Fault(faults.PLAN_LATE, 'the plan is 0.140 s old')
OTHER = Fault(faults.STATE_LATE, 'joint states are 0.060 s old')
ARMED = machine.arm(Machine())
MOVING = machine.advance(ARMED, following=True, resting=False)
STOPPING = machine.trip(MOVING, FAULT)
HELD = machine.advance(STOPPING, following=False, resting=True)


def test_the_way_from_arming_to_the_hold_after_a_fault():
    phases = [m.phase for m in (Machine(), ARMED, MOVING, STOPPING, HELD)]
    assert phases == list(Phase)
    assert [m.engaged for m in (Machine(), ARMED, MOVING, STOPPING, HELD)] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert HELD.fault == FAULT and HELD.armed


@pytest.mark.parametrize('held', [STOPPING, HELD])
def test_arming_is_refused_with_the_reason_while_a_fault_is_latched(held):
    with pytest.raises(ArmError, match=r'0\.140 s old\. Disarm to acknowledge this, then arm'):
        machine.arm(held)


def test_disarming_acknowledges_and_then_it_may_be_armed_again():
    assert machine.disarm(HELD) == Machine()
    assert machine.arm(machine.disarm(HELD)) == ARMED
    assert machine.disarm(ARMED) == Machine()
    assert machine.disarm(Machine()) == Machine()


@pytest.mark.parametrize('moving', [MOVING, STOPPING])
def test_who_is_disarmed_in_motion_stops_first(moving):
    disarmed = machine.disarm(moving)
    assert disarmed == Machine(Phase.STOPPING)
    assert machine.advance(disarmed, following=False, resting=False) == disarmed
    assert machine.advance(disarmed, following=False, resting=True) == Machine()
    assert machine.arm(disarmed).phase is Phase.STOPPING and machine.arm(disarmed).engaged


def test_arming_the_armed_changes_nothing():
    assert machine.arm(ARMED) == ARMED and machine.arm(MOVING) == MOVING


def test_the_first_fault_counts_and_at_rest_it_holds_at_once():
    assert machine.trip(STOPPING, OTHER) == STOPPING and machine.trip(HELD, OTHER) == HELD
    assert machine.trip(ARMED, FAULT) == Machine(Phase.HELD, armed=True, fault=FAULT)
    assert machine.trip(Machine(), FAULT) == Machine()
    assert machine.trip(machine.disarm(MOVING), FAULT) == machine.disarm(MOVING)


def test_a_pause_keeps_the_arming_and_acknowledges_nothing():
    paused = machine.pause(MOVING, True)
    assert paused.armed and not paused.engaged and paused.phase is Phase.MOVING
    assert machine.advance(paused, following=False, resting=False).phase is Phase.STOPPING
    assert machine.advance(paused, following=False, resting=True).phase is Phase.ARMED
    assert machine.pause(paused, False) == MOVING
    assert machine.pause(HELD, True).fault == FAULT
    assert machine.trip(paused, FAULT).fault == FAULT


def test_a_swap_keeps_arming_pause_and_fault():
    swapping = machine.swap(MOVING, True)
    assert swapping.armed and not swapping.engaged
    assert machine.swap(swapping, False) == MOVING
    both = machine.swap(machine.pause(MOVING, True), True)
    assert not machine.swap(both, False).engaged and not machine.pause(both, False).engaged
    assert machine.swap(HELD, True).fault == FAULT
    assert machine.trip(swapping, FAULT).fault == FAULT


EVENTS = {
    'arm': machine.arm,
    'disarm': machine.disarm,
    'pause': lambda m: machine.pause(m, True),
    'resume': lambda m: machine.pause(m, False),
    'swap': lambda m: machine.swap(m, True),
    'swapped': lambda m: machine.swap(m, False),
    'trip': lambda m: machine.trip(m, FAULT),
    'step': lambda m: machine.advance(m, following=m.engaged, resting=not m.engaged),
    'brake': lambda m: machine.advance(m, following=False, resting=False),
    'rest': lambda m: machine.advance(m, following=False, resting=True),
}


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=40))
def test_after_a_fault_nothing_moves_before_a_disarm_and_an_arm(events):
    state, owed = Machine(), ['arm']  # what the operator has to do before it may be engaged
    for name in events:
        before = state
        try:
            state = EVENTS[name](state)
        except ArmError:
            assert name == 'arm' and before.fault is not None
            continue
        if name == 'trip' and before.armed:
            owed = ['disarm', 'arm']
        elif name == 'disarm':
            owed = ['arm']
        elif owed and name == owed[0]:
            owed = owed[1:]
        assert not (state.engaged and owed)
        assert (state.fault is not None) == (len(owed) == 2)
        if state.phase is Phase.HELD:
            assert state.fault is not None
        if state.phase is Phase.INACTIVE:
            assert not state.armed

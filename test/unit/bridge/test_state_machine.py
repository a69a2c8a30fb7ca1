"""The states of the bridge: motion always requires an operator."""

from hypothesis import given
from hypothesis import strategies as st
import pytest

from emppi_ros.bridge import faults, state_machine
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.state_machine import Machine, Phase
from emppi_ros.core.errors import ArmError

FAULT = Fault(faults.PLAN_LATE, 'the plan is 0.140 s old')
OTHER = Fault(faults.STATE_LATE, 'joint states are 0.060 s old')
ARMED = state_machine.arm(Machine())
MOVING = state_machine.advance(ARMED, following=True, resting=False)
STOPPING = state_machine.trip(MOVING, FAULT)
HELD = state_machine.advance(STOPPING, following=False, resting=True)


def test_phases_from_arming_to_holding_after_a_fault():
    phases = [m.phase for m in (Machine(), ARMED, MOVING, STOPPING, HELD)]
    assert phases == list(Phase)
    assert [m.engaged for m in (Machine(), ARMED, MOVING, STOPPING, HELD)] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert HELD.fault == FAULT and HELD.armed


@pytest.mark.parametrize('held', [STOPPING, HELD])
def test_arming_is_refused_with_a_reason_while_a_fault_is_latched(held):
    with pytest.raises(ArmError, match=r'0\.140 s old\. Disarm to acknowledge this, then arm'):
        state_machine.arm(held)


def test_disarming_acknowledges_the_fault_and_allows_arming():
    assert state_machine.disarm(HELD) == Machine()
    assert state_machine.arm(state_machine.disarm(HELD)) == ARMED
    assert state_machine.disarm(ARMED) == Machine()
    assert state_machine.disarm(Machine()) == Machine()


@pytest.mark.parametrize('moving', [MOVING, STOPPING])
def test_disarming_in_motion_stops_first(moving):
    disarmed = state_machine.disarm(moving)
    assert disarmed == Machine(Phase.STOPPING)
    assert state_machine.advance(disarmed, following=False, resting=False) == disarmed
    assert state_machine.advance(disarmed, following=False, resting=True) == Machine()
    assert (
        state_machine.arm(disarmed).phase is Phase.STOPPING and state_machine.arm(disarmed).engaged
    )


def test_arming_twice_changes_nothing():
    assert state_machine.arm(ARMED) == ARMED and state_machine.arm(MOVING) == MOVING


def test_the_first_fault_is_kept_and_held_at_once_at_rest():
    assert (
        state_machine.trip(STOPPING, OTHER) == STOPPING and state_machine.trip(HELD, OTHER) == HELD
    )
    assert state_machine.trip(ARMED, FAULT) == Machine(Phase.HELD, armed=True, fault=FAULT)
    assert state_machine.trip(Machine(), FAULT) == Machine()
    assert state_machine.trip(state_machine.disarm(MOVING), FAULT) == state_machine.disarm(MOVING)


def test_a_pause_keeps_armed_state_and_fault():
    paused = MOVING._replace(paused=True)
    assert paused.armed and not paused.engaged and paused.phase is Phase.MOVING
    assert state_machine.advance(paused, following=False, resting=False).phase is Phase.STOPPING
    assert state_machine.advance(paused, following=False, resting=True).phase is Phase.ARMED
    assert paused._replace(paused=False) == MOVING
    assert HELD._replace(paused=True).fault == FAULT
    assert state_machine.trip(paused, FAULT).fault == FAULT


def test_a_task_switch_keeps_armed_state_pause_and_fault():
    swapping = MOVING._replace(swapping=True)
    assert swapping.armed and not swapping.engaged
    assert swapping._replace(swapping=False) == MOVING
    both = MOVING._replace(paused=True, swapping=True)
    assert not both._replace(swapping=False).engaged and not both._replace(paused=False).engaged
    assert HELD._replace(swapping=True).fault == FAULT
    assert state_machine.trip(swapping, FAULT).fault == FAULT


EVENTS = {
    'arm': state_machine.arm,
    'disarm': state_machine.disarm,
    'pause': lambda m: m._replace(paused=True),
    'resume': lambda m: m._replace(paused=False),
    'swap': lambda m: m._replace(swapping=True),
    'swapped': lambda m: m._replace(swapping=False),
    'trip': lambda m: state_machine.trip(m, FAULT),
    'step': lambda m: state_machine.advance(m, following=m.engaged, resting=not m.engaged),
    'brake': lambda m: state_machine.advance(m, following=False, resting=False),
    'rest': lambda m: state_machine.advance(m, following=False, resting=True),
}


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=40))
def test_after_a_fault_motion_needs_a_disarm_and_an_arm(events):
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

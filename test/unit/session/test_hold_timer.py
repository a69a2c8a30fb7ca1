"""What has held for a while."""

from emppi_ros.session.hold_timer import Held


def test_it_has_held_when_it_did_at_every_moment_of_the_time():
    held = Held()
    seen = [(True, 0.0), (True, 0.5), (False, 0.9), (True, 1.0), (True, 1.9), (True, 2.0)]
    assert [held.note(holds, now, 1.0) for holds, now in seen] == [False] * 5 + [True]


def test_sums_of_steps_are_not_a_step_late():
    held, now, found = Held(), 0.0, []
    for _ in range(11):
        found.append(held.note(True, now, 1.0))
        now += 0.1  # ten of them are 0.9999999999999999
    assert found == [False] * 10 + [True]


def test_without_a_time_it_has_to_hold_just_once():
    held = Held()
    assert [held.note(holds, now, 0.0) for holds, now in ((False, 0.0), (True, 1.0))] == [
        False,
        True,
    ]

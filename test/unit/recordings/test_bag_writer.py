"""Messages of a bag are in the order of reception, whatever the order of subscriptions."""

import struct

from emppi_ros.recordings.bag_writer import MessageOrder, RecordedMessage

MS = 1_000_000
TOPICS = ('/a', '/b', '/diagnostics')


def message(topic, time_ns, stamp_ns=0, sent_ns=0):
    data = b'\0\1\0\0' + struct.pack('<iI', *divmod(stamp_ns, 10**9))
    return RecordedMessage(topic, data, time_ns, sent_ns)


def stamp_of(message):
    seconds, rest = struct.unpack_from('<iI', message.data, 4)
    return seconds * 10**9 + rest


def record(arrivals, stamped=()):
    """Return what a recorder writes that reads one topic after the other every 10 ms."""
    order, written, waiting = MessageOrder(stamped), [], sorted(arrivals, key=lambda m: m.time_ns)
    end = max(m.time_ns for m in arrivals)
    for now in range(0, end + 10 * MS, 10 * MS):
        # while one topic is read, messages arrive on topics that were read before
        for i, topic in enumerate(TOPICS):
            there = [m for m in waiting if m.topic == topic and m.time_ns < now + i * MS]
            waiting = [m for m in waiting if m not in there]
            for one in there:
                order.add(one)
        written += order.take(now)
    return written + order.take_all()


def test_times_never_go_back_within_a_file_and_nothing_is_lost(rng):
    times = rng.integers(0, 2000 * MS, 300)
    arrivals = [message(TOPICS[rng.integers(3)], int(t)) for t in times]
    written = record(arrivals)
    assert [m.time_ns for m in written] == sorted(m.time_ns for m in arrivals)
    assert sorted(written) == sorted(arrivals)


def overtaking(rng, topic, column):
    """Return moments, and messages that have them in a column, received up to 0.2 s later."""
    moments = [int(t) for t in rng.integers(0, 2000 * MS, 300)]
    delays = [int(d) for d in rng.integers(0, 200 * MS, 300)]
    return moments, [
        message(topic, moment + delay, **{column: moment})
        for moment, delay in zip(moments, delays, strict=True)
    ]


def test_stamps_of_several_publishers_never_go_back_if_delays_are_shorter_than_the_hold(rng):
    moments, arrivals = overtaking(rng, '/diagnostics', 'stamp_ns')
    written = record(arrivals, stamped=['/diagnostics'])
    assert [stamp_of(m) for m in written] == sorted(moments)
    assert [m.time_ns for m in written] == sorted(m.time_ns for m in arrivals)


def test_messages_that_overtook_others_are_in_the_order_of_sending(rng):
    moments, arrivals = overtaking(rng, '/a', 'sent_ns')
    written = record(arrivals)
    assert [m.sent_ns for m in written] == sorted(moments)
    assert [m.time_ns for m in written] == sorted(m.time_ns for m in arrivals)


def test_a_message_waits_until_no_earlier_one_can_come():
    order = MessageOrder()
    order.add(message('/a', 1000 * MS))
    assert order.take(1000 * MS) == []
    assert [m.topic for m in order.take(1501 * MS)] == ['/a']
    assert order.take_all() == []

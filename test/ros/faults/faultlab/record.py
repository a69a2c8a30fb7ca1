"""What is said on a topic: every message, and how many are missing."""

import copy
import functools

DEPTH = 4000  # messages that may wait: 16 s of commands


class Stamped:
    """A message, decoded when it is first read, and when it was sent [s, system clock]."""

    def __init__(self, time, data, kind):
        """Keep a serialized message of a kind."""
        self.time, self._data, self._kind = time, data, kind

    @functools.cached_property
    def message(self):
        """The message."""
        from rclpy.serialization import deserialize_message

        return deserialize_message(self._data, self._kind)


class Record(list):
    """
    The messages on a topic; `poll` appends those that have arrived.

    A process that publishes at real-time priority leaves less of a busy processor to who records:
    messages are taken as they are, in microseconds each, from a long queue. `lost` counts those
    that were published and did not come, where the middleware numbers them.
    """

    def __init__(self, node, kind, topic, profile, depth=DEPTH):
        """Subscribe."""
        from emppi_ros.nodes.common import polling

        super().__init__()
        self.lost, self._newest, self._kind, self._depth = 0, {}, kind, depth
        profile = copy.copy(profile)
        profile.depth = depth
        self._subscription = node.create_subscription(
            kind, topic, lambda _: None, profile, callback_group=polling._Unscheduled()
        )

    def poll(self):
        """Append the messages that have arrived."""
        handle = self._subscription.handle
        with handle:
            for _ in range(self._depth):
                taken = handle.take_message(self._subscription.msg_type, True)
                if not taken:
                    return
                data, info = taken
                self._count(info)
                self.append(Stamped(info['source_timestamp'] * 1e-9, data, self._kind))

    def clear(self):
        """Begin again."""
        super().clear()
        self.lost = 0

    def _count(self, info):
        """Compare the number of a message with that of the last one of its publisher."""
        number = info.get('publication_sequence_number')
        if number is None:
            return
        publisher = bytes(info['publisher_gid']['data'])
        last = self._newest.get(publisher, number - 1)  # what came before the first is not missing
        self.lost += max(number - last - 1, 0)
        self._newest[publisher] = number

"""Until when a command goes on that has no end of its own: Ctrl-C, or SIGTERM."""

import signal
import time

_LOOK_S = 0.02


class Ending:
    """
    Whether a signal came, from now on.

    No exception, which would come in the middle of anything; and no threading.Event: a handler
    that sets it waits for a lock that the thread which it interrupts may hold, forever.
    """

    def __init__(self) -> None:
        """Listen for signals, from the main thread."""
        self._came = False
        for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore Ctrl-C
            signal.signal(number, self._take)

    def wait(self, seconds: float) -> bool:
        """Return whether one came: when it does, or after a time."""
        end = time.monotonic() + seconds
        while not self._came and (left := end - time.monotonic()) > 0.0:
            time.sleep(min(left, _LOOK_S))
        return self._came

    def _take(self, *_: object) -> None:
        self._came = True

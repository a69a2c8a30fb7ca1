"""Ctrl-C and SIGTERM for commands that run until they are stopped."""

import signal
import time

_POLL_S = 0.02


class StopSignal:
    """A flag that SIGINT and SIGTERM set; setting a threading.Event there may deadlock."""

    def __init__(self) -> None:
        """Install the signal handlers; call this from the main thread."""
        self._received = False
        for number in (signal.SIGINT, signal.SIGTERM):  # background jobs of a shell ignore Ctrl-C
            signal.signal(number, self._handle)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal or a timeout; return whether a signal came."""
        end = time.monotonic() + seconds
        while not self._received and (remaining := end - time.monotonic()) > 0.0:
            time.sleep(min(remaining, _POLL_S))
        return self._received

    def _handle(self, *_: object) -> None:
        self._received = True

"""How soon a process gets the processor: before others, like them, or in idle time only."""

import contextlib
import os
from pathlib import Path

_THREADS = Path('/proc/self/task')


def be_prompt(level: int) -> None:
    """
    Let all threads have a real-time priority (SCHED_RR); 0: compete as everyone else.

    Without the right to it, and elsewhere than on Linux, go on as before. Threads to come inherit
    it from those that start them.
    """
    with contextlib.suppress(AttributeError, FileNotFoundError):  # not Linux
        policy = os.SCHED_RR if level else os.SCHED_OTHER
        for thread in _THREADS.iterdir():
            with contextlib.suppress(OSError):  # not permitted, or ended meanwhile
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(level))


def give_way() -> None:
    """Ask to run in idle time only; elsewhere than on Linux, being nice must do."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

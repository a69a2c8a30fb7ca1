"""Commands run until a signal arrives."""

import subprocess
import sys

import pytest

CODE = """
import signal, sys, threading
from emppi_ros.cli.interrupt import StopSignal

class Event(threading.Event):
    def __init__(self):
        super().__init__()
        signal.signal(signal.SIGINT, lambda *_: self.set())
        signal.signal(signal.SIGTERM, lambda *_: self.set())

def send(after):
    left = after
    def trace(_frame, event, _):
        nonlocal left
        left -= event == 'line'
        if left == 0 and event == 'line':
            sent.append(after)
            signal.raise_signal(signal.{name})
        return trace
    return trace

sent = []
for line in range(1, 100):  # of those that waiting goes through
    ending = {kind}()
    sys.settrace(send(line))
    ending.wait(1e-3)
    sys.settrace(None)
    if line not in sent:
        break
    assert ending.wait(0.0)
print(len(sent), 'times')
"""


def wait(kind, name, seconds):
    return subprocess.run(
        [sys.executable, '-c', CODE.format(kind=kind, name=name)],
        check=False, capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip


@pytest.mark.parametrize('name', ['SIGINT', 'SIGTERM'])
def test_a_signal_ends_the_wait_at_any_line(name):
    done = wait('StopSignal', name, 60.0)
    times = done.stdout.removesuffix(' times\n')
    assert times.isdecimal() and 4 <= int(times) < 90, done.stderr


@pytest.mark.slow
def test_a_threading_event_would_deadlock():
    with pytest.raises(subprocess.TimeoutExpired):
        wait('Event', 'SIGINT', 3.0)

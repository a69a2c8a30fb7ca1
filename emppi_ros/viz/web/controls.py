"""Buttons, task menu and sliders of the page, and the operators who use them."""

from collections import deque
from collections.abc import Callable
import datetime
import functools
import html
import threading
import time
from typing import Any

import numpy as np

from emppi_ros.core import paths
from emppi_ros.core.errors import EmppiError
from emppi_ros.tasks.task import Task
from emppi_ros.tasks.tuning import TunableParameter, Value, tunable_parameters
from emppi_ros.viz.web.robot_source import RobotSource, Snapshot

_LINES, _SHOWN_S = 5, 8.0  # of the log of changes; of a notification
_SLIDER_MAX, _SLIDER_STEPS = 4.0, 400  # a slider's end, times the value at the start; its steps
_DRAGGING_S = 1.0  # a slider that was just moved is not updated
_ARM = 'The robot follows plans and **moves**.'
_RESUME = 'The robot **moves** as soon as there is a plan.'
_TASK = 'The robot comes to rest, the task becomes **{}**, and the belief its prior.'


class Operators:
    """Confirms, carries out and logs the requests of all clients; each browser is an operator."""

    def __init__(self, server: Any, source: RobotSource) -> None:
        self._server, self._source = server, source
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._lock, self._done, self._last = threading.Lock(), 0, ''
        self._note = server.gui.add_html('', order=1000.0)
        server.on_client_connect(self._on_connect)
        server.on_client_disconnect(lambda _client: self._write())
        self._write()

    def confirm(
        self, client: Any, title: str, text: str, what: str, act: Callable[[], None],
        cancel: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Ask a client for confirmation, which counts if nothing else was changed meanwhile."""
        if client is None:  # already disconnected
            cancel()
            return
        asked = self._done
        modal = client.gui.add_modal(title)
        with modal:
            client.gui.add_markdown(text)
            yes = client.gui.add_button(f'Yes: {title.rstrip("?").lower()}', color='red')
            no = client.gui.add_button('No', color='gray')

        def answer(is_yes: bool) -> None:
            if not modal.closed:
                modal.close()
                if not (is_yes and self.do(client, what, act, asked)):
                    cancel()

        yes.on_click(lambda _: answer(True))
        no.on_click(lambda _: answer(False))

    def do(
        self, client: Any, what: str, act: Callable[[], None], asked: int | None = None
    ) -> bool:
        """Carry out a client's request and log it, or notify the client of the error."""
        with self._lock:  # one request at a time
            if asked is not None and asked != self._done:
                self._refuse(
                    client, f'not done: meanwhile {self._last}. Check the state and ask again'
                )
                return False
            return self._try(client, what, act)

    def stop(self, client: Any, what: str, act: Callable[[], None]) -> None:
        """Stop the robot at once, even while another request is carried out."""
        self._done += 1  # a question that was asked before expires
        self._last = f'{operator_name(client)} {what}'
        self._try(client, what, act)

    def _try(self, client: Any, what: str, act: Callable[[], None]) -> bool:
        try:
            act()
        except EmppiError as error:
            self._refuse(client, str(error))
            return False
        self._done += 1
        self.log(f'{operator_name(client)} {what}')
        return True

    def _refuse(self, client: Any, text: str) -> None:
        if client is not None:
            client.add_notification('Refused', text, color='red', auto_close_seconds=_SHOWN_S)

    def log(self, text: str) -> None:
        """Show a change to all clients."""
        self._last = text
        self._lines.append(f'{datetime.datetime.now():%H:%M:%S} {html.escape(text)}')
        self._write()

    def _on_connect(self, client: Any) -> None:
        client.add_notification(
            f'You are {operator_name(client)}', self._source.name, auto_close_seconds=_SHOWN_S
        )
        self._write()

    def _write(self) -> None:
        count = len(self._server.get_clients())
        lines = '<br>'.join(reversed(self._lines)) or 'no changes yet'
        self._note.content = (
            '<div style="font-size:0.8em;padding:0 0.8em">'
            f'<b>{count} connected</b><br>{lines}</div>'
        )


def operator_name(client: Any) -> str:
    """Return the name of a client, the same for all clients."""
    return 'an operator' if client is None else f'operator {client.client_id + 1}'


class Buttons:
    """Buttons and the task menu; all ask for confirmation, except those that stop the robot."""

    def __init__(self, server: Any, source: RobotSource, operators: Operators, task: str) -> None:
        self._source, self._operators, self._task = source, operators, task
        self._state: tuple[bool, bool] = (False, False)
        gui = server.gui
        self._arm = gui.add_button('Arm', icon='player-play', color='green')
        self._pause = gui.add_button('Pause', icon='player-pause', color='yellow')
        self._reset = gui.add_button('Reset', icon='rotate', color='gray')
        names = sorted({*paths.available('tasks'), task})
        self._tasks = gui.add_dropdown('task', names, initial_value=task)
        self._arm.on_click(self._press_arm)
        self._pause.on_click(self._press_pause)
        self._reset.on_click(self._press_reset)
        self._tasks.on_update(self._choose)

    def show(self, now: Snapshot) -> None:
        """Update the buttons' labels."""
        self._task, state = now.task.name, (now.armed, now.paused)
        if state != self._state:
            self._state = state
            arm = ('Disarm', 'orange') if now.armed else ('Arm', 'green')
            self._arm.label, self._arm.color = arm
            self._pause.label = 'Resume' if now.paused else 'Pause'

    def name_task(self) -> None:
        """Show the running task in the menu."""
        if self._tasks.value != self._task:
            self._tasks.value = self._task

    def _press_arm(self, event: Any) -> None:
        armed, _ = self._state
        act = functools.partial(self._source.arm, not armed)
        if armed:
            self._operators.stop(event.client, 'disarmed the robot', act)
        else:
            self._operators.confirm(event.client, 'Arm?', _ARM, 'armed the robot', act)

    def _press_pause(self, event: Any) -> None:
        _, paused = self._state
        act = functools.partial(self._source.pause, not paused)
        if paused:
            self._operators.confirm(event.client, 'Resume?', _RESUME, 'resumed the robot', act)
        else:
            self._operators.stop(event.client, 'paused the robot', act)

    def _press_reset(self, event: Any) -> None:
        text = f'Resets {self._source.reset_effect}.'
        self._operators.confirm(event.client, 'Reset?', text, 'reset all', self._source.reset)

    def _choose(self, event: Any) -> None:
        chosen = self._tasks.value
        if event.client is None or chosen == self._task:
            return
        self._operators.confirm(
            event.client, 'Switch the task?', _TASK.format(chosen), f'chose {chosen}',
            lambda: self._source.switch_task(chosen), self.name_task,
        )  # fmt: skip


class Sliders:
    """Sliders for the tunable parameters of a task."""

    def __init__(self, server: Any, source: RobotSource, operators: Operators, task: Task) -> None:
        """Add a slider for each nonzero cost weight and each parameter of the planner."""
        self._source, self._operators = source, operators
        self._start = {k: v for k, v in tunable_parameters(task.data).items() if is_shown(v)}
        self._sliders: dict[str, Any] = {}
        self._moved: dict[str, float] = {}
        for title, weights in (('Planner', False), ('Cost weights', True)):
            with server.gui.add_folder(title):
                for name, parameter in self._start.items():
                    if is_weight(parameter) is weights:
                        self._sliders[name] = self._add(server.gui, parameter)

    def _add(self, gui: Any, parameter: TunableParameter) -> Any:
        start = 1.0 if isinstance(parameter.value, tuple) else parameter.value
        step = _SLIDER_MAX * start / _SLIDER_STEPS
        slider = gui.add_slider(
            slider_label(parameter),
            min=0.0 if parameter.low <= 0.0 else step,
            max=_SLIDER_MAX * start,
            step=step,
            initial_value=start,
            hint=f'{parameter.name}: {parameter.doc}',
        )
        slider.on_update(lambda event: self._move(event, parameter.name))
        return slider

    def show(self, now: Snapshot) -> None:
        """Move the sliders to the current values."""
        current = tunable_parameters(now.task.data)
        for name, slider in self._sliders.items():
            if time.monotonic() < self._moved.get(name, -np.inf) + _DRAGGING_S:
                continue
            value = _factor(self._start[name].value, current[name].value)
            if not np.isclose(slider.value, value, rtol=1e-6, atol=0.0):
                slider.value = value

    def _move(self, event: Any, name: str) -> None:
        if event.client is None:  # moved by `show`
            return
        self._moved[name] = time.monotonic()
        value, start = float(event.target.value), self._start[name].value
        wanted: Value = tuple(value * v for v in start) if isinstance(start, tuple) else value
        text = f'set {name} to {value:.3g}' + (' times its start' * isinstance(start, tuple))
        self._operators.do(event.client, text, lambda: self._source.tune({name: wanted}))


def is_weight(parameter: TunableParameter) -> bool:
    """Return whether a parameter is a weight of a cost term."""
    return parameter.path[-1] in ('weight', 'terminal_weight')


def is_shown(parameter: TunableParameter) -> bool:
    """Return whether a parameter has a slider: nonzero weights, and the planner's."""
    return parameter.value != 0.0 if is_weight(parameter) else parameter.path[0] == 'planner'


def slider_label(parameter: TunableParameter) -> str:
    """Return the label of a slider."""
    if is_weight(parameter):
        stage = f'{parameter.path[1]}: ' if parameter.path[0] == 'stages' else ''
        end = ' (terminal)' if parameter.path[-1] == 'terminal_weight' else ''
        return f'{stage}{parameter.path[-2]}{end}'
    return {'noise_variance': 'noise factor'}.get(parameter.path[-1], parameter.path[-1])


def _factor(start: Value, value: Value) -> float:
    """Return a slider's position: the value, or for a vector its factor over the start."""
    if isinstance(start, tuple) and isinstance(value, tuple):
        return value[0] / start[0]
    return float(value) if not isinstance(value, tuple) else value[0]

"""Buttons, tasks and sliders of the page."""

import time
from typing import Any

import numpy as np

from emppi_ros.core import paths
from emppi_ros.tasks.task import Task
from emppi_ros.tasks.tuning import TunableParameter, Value, tunable_parameters
from emppi_ros.viz.web.operators import Operators
from emppi_ros.viz.web.source import Snapshot, Source

_REACH, _STEPS = 4.0, 400  # a slider's end, of the value at the start; its steps
_SETTLING_S = 1.0  # a slider under somebody's hand is left alone
_ARM = 'The robot follows plans and **moves**.'
_DISARM = 'The robot brakes and stays at rest; a fault counts as seen.'
_PAUSE = 'The robot brakes to rest, and stays armed.'
_RESUME = 'The robot **moves on** as soon as there is a plan.'
_TASK = 'The robot comes to rest; the task becomes **{}**, and its belief the prior.'


class Buttons:
    """Arm, pause, reset, and the task: each asks back."""

    def __init__(self, server: Any, source: Source, operators: Operators, task: str) -> None:
        """Lay them out."""
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
        """Let buttons say what they would do."""
        self._task, state = now.task.name, (now.armed, now.paused)
        if state != self._state:
            self._state = state
            self._arm.label, self._arm.color = (
                ('Disarm', 'orange') if now.armed else ('Arm', 'green')
            )
            self._pause.label = 'Go on' if now.paused else 'Pause'

    def name_task(self) -> None:
        """Let the drop-down name the task that runs."""
        if self._tasks.value != self._task:
            self._tasks.value = self._task

    def _press_arm(self, event: Any) -> None:
        arm = not self._state[0]
        self._operators.confirm(
            event.client, 'Arm?' if arm else 'Disarm?', _ARM if arm else _DISARM,
            'armed the robot' if arm else 'disarmed the robot', lambda: self._source.arm(arm),
        )  # fmt: skip

    def _press_pause(self, event: Any) -> None:
        pause = not self._state[1]
        self._operators.confirm(
            event.client, 'Pause?' if pause else 'Go on?', _PAUSE if pause else _RESUME,
            'paused the robot' if pause else 'let the robot go on',
            lambda: self._source.pause(pause),
        )  # fmt: skip

    def _press_reset(self, event: Any) -> None:
        text = f'Puts {self._source.resets}.'
        self._operators.confirm(event.client, 'Reset?', text, 'reset all', self._source.reset)

    def _choose(self, event: Any) -> None:
        wanted = self._tasks.value
        if event.client is None or wanted == self._task:
            return
        self._operators.confirm(
            event.client, 'Change the task?', _TASK.format(wanted), f'chose {wanted}',
            lambda: self._source.go_over(wanted), self.name_task,
        )  # fmt: skip


class Sliders:
    """Numbers of a task that may change while it runs."""

    def __init__(self, server: Any, source: Source, operators: Operators, task: Task) -> None:
        """Lay out a slider for each that counts."""
        self._source, self._operators = source, operators
        self._start = {k: v for k, v in tunable_parameters(task.data).items() if is_shown(v)}
        self._sliders: dict[str, Any] = {}
        self._moved: dict[str, float] = {}
        for title, kept in (('Planner', False), ('Weights of the cost', True)):
            with server.gui.add_folder(title):
                for name, knob in self._start.items():
                    if is_weight(knob) is kept:
                        self._sliders[name] = self._add(server.gui, knob)

    def _add(self, gui: Any, knob: TunableParameter) -> Any:
        begin = 1.0 if isinstance(knob.value, tuple) else knob.value
        step = _REACH * begin / _STEPS
        slider = gui.add_slider(
            words(knob),
            min=0.0 if knob.low <= 0.0 else step,
            max=_REACH * begin,
            step=step,
            initial_value=begin,
            hint=f'{knob.name}: {knob.doc}',
        )
        slider.on_update(lambda event: self._move(event, knob.name))
        return slider

    def show(self, now: Snapshot) -> None:
        """Stand where the numbers are, whoever changed them."""
        found = tunable_parameters(now.task.data)
        for name, slider in self._sliders.items():
            if time.monotonic() < self._moved.get(name, -np.inf) + _SETTLING_S:
                continue
            value = _factor(self._start[name].value, found[name].value)
            if not np.isclose(slider.value, value, rtol=1e-6, atol=0.0):
                slider.value = value

    def _move(self, event: Any, name: str) -> None:
        if event.client is None:  # it was moved by `show`
            return
        self._moved[name] = time.monotonic()
        value, start = float(event.target.value), self._start[name].value
        wanted: Value = tuple(value * v for v in start) if isinstance(start, tuple) else value
        text = f'set {name} to {value:.3g}' + (' of its start' * isinstance(start, tuple))
        self._operators.do(event.client, text, lambda: self._source.tune({name: wanted}))


def is_weight(knob: TunableParameter) -> bool:
    """Return whether a number weighs a term of the cost."""
    return knob.path[-1] in ('weight', 'terminal_weight')


def is_shown(knob: TunableParameter) -> bool:
    """Return whether a number has a slider: weights that count, temperature, noise."""
    return knob.value != 0.0 if is_weight(knob) else knob.path[0] == 'planner'


def words(knob: TunableParameter) -> str:
    """Return what is written beside a slider."""
    if is_weight(knob):
        stage = f'{knob.path[1]}: ' if knob.path[0] == 'stages' else ''
        end = ' (end)' if knob.path[-1] == 'terminal_weight' else ''
        return f'{stage}{knob.path[-2]}{end}'
    return {'noise_variance': 'noise, times'}.get(knob.path[-1], knob.path[-1])


def _factor(start: Value, value: Value) -> float:
    """Return a number as its slider has it: a vector as a multiple of what it was at the start."""
    if isinstance(start, tuple) and isinstance(value, tuple):
        return value[0] / start[0]
    return float(value) if not isinstance(value, tuple) else value[0]

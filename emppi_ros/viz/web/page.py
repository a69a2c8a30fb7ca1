"""The live page: scene, belief, numbers over time, buttons and sliders, drawn while looked at."""

from collections.abc import Callable
import html
import time
from typing import Any

import numpy as np

from emppi_ros.bridge.state_machine import Phase
from emppi_ros.core.errors import EmppiError
from emppi_ros.session.plan_preview import Course
from emppi_ros.viz.report.plots import ORANGE, RED
from emppi_ros.viz.shapes.layers import Layers as Drawing
from emppi_ros.viz.web.belief_plot import Beliefs
from emppi_ros.viz.web.charts import Chart
from emppi_ros.viz.web.controls import Buttons, Sliders
from emppi_ros.viz.web.history import History
from emppi_ros.viz.web.layers import Layers
from emppi_ros.viz.web.operators import Operators
from emppi_ros.viz.web.scene import World
from emppi_ros.viz.web.source import Snapshot, Source

POSES_S, SHAPES_S, PLOTS_S = 0.04, 0.2, 1.0  # between two pictures of each kind
_IDLE_S = 0.1
_GOOD, _BAD, _CALM = '#2e8b57', '#c0392b', '#6b7280'
_KEY = (
    '<div style="font-size:0.8em;padding:0 0.8em">the darker the likelier; '
    f'<span style="color:{ORANGE}">mean</span>'
)
_TRUE = f', <span style="color:{RED}">hidden true value</span></div>'
_WIDTH = 340  # px, of a panel


class Page:
    """What is on the page now; `run` keeps it so."""

    def __init__(self, server: Any, source: Source, first: Snapshot) -> None:
        """Lay out what stays for all tasks."""
        self._server, self._source = server, source
        gui = server.gui
        gui.main_panel.dock_right()
        gui.main_panel.set_width(_WIDTH)
        panel = gui.add_panel()
        self._numbers = panel.add_tab('Belief and costs')
        panel.dock_left()
        panel.set_width(_WIDTH + 60)
        self._status = gui.add_html('')
        self.operators = Operators(server, source)
        self._buttons = Buttons(server, source, self.operators, first.task.name)
        self._parts: list[Any] = []
        self._run = -1
        self._problem = ''
        self._due = {'shapes': 0.0, 'plots': 0.0}
        self._begin(first)

    def run(self, ended: Callable[[float], bool]) -> None:
        """
        Draw until the end; as long as nobody looks, nothing is drawn.

        `ended` waits for so long [s], and says whether that is now.
        """
        pause = 0.0
        while not ended(pause):
            looked = bool(self._server.get_clients())
            self._source.watch(looked)
            began = time.monotonic()
            if looked:
                self.draw(began)
            spent = time.monotonic() - began
            pause = max(0.005, POSES_S - spent) if looked else _IDLE_S

    def draw(self, moment: float) -> None:
        """Show what is known now: poses always, all else when its time has come."""
        now = self._source.look()
        if now is None:
            return
        if now.run != self._run:
            self._begin(now)
        self._world.show(now.qpos, now.turned)
        if moment >= self._due['shapes']:
            self._due['shapes'] = moment + SHAPES_S
            self._show_shapes(now)
            self._buttons.show(now)
            self._sliders.show(now)
            self._status.content = status(now, self._problem)
        if moment >= self._due['plots'] and self._history.moments:
            self._due['plots'] = moment + PLOTS_S
            self._show_plots()

    def _begin(self, now: Snapshot) -> None:
        """Lay out anew what belongs to a task, or to a run of it."""
        task = now.task
        for part in self._parts:
            part.remove()
        if self._run >= 0:
            self._over.show([])
            self._world.remove()
        self._run, self._history = now.run, History()
        self._world = World(self._server, task, now.theta)
        self._over, self._drawing = Layers(self._server, '/known'), Drawing(task)
        self._look(now)
        gui = self._server.gui
        folder = gui.add_folder('Numbers')
        with folder:
            self._sliders = Sliders(self._server, self._source, self.operators, task)
        self._beliefs = Beliefs(task, now.theta)
        terms = tuple(dict.fromkeys(t.name for s in task.stages for t in s.cost.terms))
        particles = task.belief.particles
        with self._numbers:
            plots = gui.add_folder('The last half minute')
        with plots:
            nothing = np.full((60, 420, 3), 255, np.uint8)
            self._picture = None
            if self._beliefs.columns:
                gui.add_html(_KEY + (_TRUE if now.theta is not None else ''))
                self._picture = gui.add_image(nothing)
            self._charts = {
                'ess': Chart(
                    gui,
                    f'effective sample size, of {particles} particles',
                    ('ESS',),
                    1.05 * particles,
                ),
                'error': Chart(gui, 'error (of the measure of success)', ('error',)),
                'terms': Chart(gui, 'cost of the plan, by term', terms),
                'latencies': Chart(gui, 'took [ms]; seconds ago', self._source.takes, dated=True),
            }
        self._parts = [folder, plots]
        self._buttons.show(now)
        self._buttons.name_task()

    def _look(self, now: Snapshot) -> None:
        """Look at the scene as the task's videos do."""
        self._world.show(now.qpos, now.turned)
        eye, at, wide = self._world.look(now.task)
        clients = self._server.get_clients().values()
        for camera in (self._server.initial_camera, *(client.camera for client in clients)):
            camera.position, camera.look_at, camera.fov = eye, at, wide

    def _show_shapes(self, now: Snapshot) -> None:
        """Draw what is known over the scene, and take down the numbers of this moment."""
        if now.seen is None:
            return
        try:
            stage = next(s for s in now.task.stages if s.name == now.stage)
            self._drawing.preview.ensemble.hold(stage.grasp)
            course = self._drawing.course(now.seen, stage.cost)
            self._over.show(
                [
                    *self._drawing.objects(now.seen),
                    *self._drawing.belief(now.seen),
                    *self._drawing.rollouts(now.seen, course),
                ]
            )
            self._history.note(now, _terms(course))
            self._problem = ''
        except EmppiError as error:  # nothing to be drawn of this moment
            self._problem = str(error)

    def _show_plots(self) -> None:
        history, times = self._history, self._history.times
        if self._picture is not None:
            self._picture.image = self._beliefs.draw(history)
        self._charts['ess'].show(times, {'ESS': history.values('ess')})
        self._charts['error'].show(times, {'error': history.values('error')})
        for kind in ('terms', 'latencies'):
            chart = self._charts[kind]
            chart.show(times, {name: history.series(kind, name) for name in chart.names})


def _terms(course: Course) -> dict[str, float]:
    """Return what each term of the cost adds; nothing without a plan, or if no model knows."""
    return dict(course.cost.terms) if course.cost and course.cost.diverged < 1.0 else {}


def status(now: Snapshot, problem: str = '') -> str:
    """Return the lines at the top of the page, as HTML."""
    held = now.state == Phase.HELD.value  # armed it may be, and somebody must look
    color = _BAD if held else _GOOD if now.armed else _CALM
    words = now.state + (', paused' if now.paused else '')
    success = now.task.file.success
    stage = f', stage {now.stage}' if now.stage else ''
    near = '' if np.isnan(now.error) else f'{now.error:.3f} (success below {success.below:g})'
    wrong = ''.join(
        f'<div style="color:{_BAD}">{html.escape(note)}</div>'
        for note in (*now.notes, problem)
        if note
    )
    return (
        f'<div style="padding:0.3em 0.8em"><b style="color:{color};font-size:1.25em">'
        f'{html.escape(words)}</b> &nbsp; t = {now.clock:.1f} s<br>'
        f'{html.escape(now.task.name + stage)}<br>error {near}{wrong}</div>'
    )

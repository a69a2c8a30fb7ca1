"""The web page: scene, belief, plots, buttons and sliders; drawn only while a client is open."""

from collections.abc import Callable
import functools
import html
import time
from typing import Any

import numpy as np

from emppi_ros.bridge.state_machine import Phase
from emppi_ros.core.errors import EmppiError
from emppi_ros.planning.plan_preview import PlanRollouts
from emppi_ros.viz.palette import GREEN, GREY, ORANGE, RED
from emppi_ros.viz.shapes.histograms import scalar_columns
from emppi_ros.viz.shapes.task_shapes import TaskShapes
from emppi_ros.viz.web.charts import MAX_PARAMETERS, Chart, History, draw_belief
from emppi_ros.viz.web.controls import Buttons, Operators, Sliders
from emppi_ros.viz.web.robot_source import RobotSource, Snapshot
from emppi_ros.viz.web.scene import BrowserScene, InitialView
from emppi_ros.viz.web.shape_nodes import ShapeNodes

POSES_S, SHAPES_S, PLOTS_S = 0.04, 0.2, 1.0  # between two updates of each kind
_IDLE_S = 0.1
_LEGEND = (
    '<div style="font-size:0.8em;padding:0 0.8em">darker is more probable; '
    f'<span style="color:{ORANGE}">mean</span>'
)
_TRUE = f', <span style="color:{RED}">true value</span></div>'
_WIDTH = 340  # px, of a panel


class Page:
    """The page of a source; `run` keeps it up to date."""

    def __init__(self, server: Any, source: RobotSource, first: Snapshot) -> None:
        """Lay out what is the same for all tasks."""
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
        self._removals: list[Callable[[], None]] = []  # of what belongs to the run
        self._run = -1
        self._problem = ''
        self._shapes_due = self._plots_due = 0.0
        self._start_run(first)

    def run(self, ended: Callable[[float], bool]) -> None:
        """Update the page until `ended(seconds)`, which waits, returns whether to stop."""
        pause = 0.0
        while not ended(pause):
            watched = bool(self._server.get_clients())
            self._source.set_watched(watched)
            start = time.monotonic()
            if watched:
                self.draw(start)
            spent = time.monotonic() - start
            pause = max(0.005, POSES_S - spent) if watched else _IDLE_S

    def draw(self, clock: float) -> None:
        """Show the current state: poses at every call, shapes and plots when they are due."""
        now = self._source.snapshot()
        if now is None:
            return
        if now.run != self._run:
            self._start_run(now)
        self._scene.show(now.qpos, now.mocap_quat)
        if clock >= self._shapes_due:
            self._shapes_due = clock + SHAPES_S
            self._show_shapes(now)
            self._buttons.show(now)
            self._sliders.show(now)
            self._status.content = status(now, self._problem)
        if clock >= self._plots_due and self._history.rows:
            self._plots_due = clock + PLOTS_S
            if self._picture is not None:
                self._picture.image = draw_belief(now.task, self._columns, self._history)
            for name, chart in self._charts.items():
                chart.show(self._history, name)

    def _start_run(self, now: Snapshot) -> None:
        """Lay out again what belongs to one run of a task."""
        task = now.task
        for remove in self._removals:
            remove()
        self._run, self._history = now.run, History()
        self._scene = BrowserScene(self._server, task, now.theta)
        view = self._look(now)
        self._nodes = ShapeNodes(self._server, '/known')
        self._shapes = TaskShapes(task, view.legible_size())
        gui = self._server.gui
        folder = gui.add_folder('Parameters')
        with folder:
            self._sliders = Sliders(self._server, self._source, self.operators, task)
        self._columns = scalar_columns(task)[:MAX_PARAMETERS]
        terms = tuple(dict.fromkeys(t.name for s in task.stages for t in s.cost.terms))
        particles = task.belief.particles
        with self._numbers:
            plots = gui.add_folder('The last half minute')
        with plots:
            nothing = np.full((60, 420, 3), 255, np.uint8)
            self._picture = None
            if self._columns:
                gui.add_html(_LEGEND + (_TRUE if now.theta is not None else ''))
                self._picture = gui.add_image(nothing)
            size = f'effective sample size of {particles} particles'
            names = self._source.latency_names
            self._charts = {
                'ess': Chart(gui, size, ('ESS',), 1.05 * particles),
                'error': Chart(gui, 'error (distance from success)', ('error',)),
                'terms': Chart(gui, 'cost of the plan by term', terms),
                'latencies': Chart(gui, 'latency [ms] over time [s]', names, dated=True),
            }
        clear = functools.partial(self._nodes.show, [])
        self._removals = [folder.remove, plots.remove, clear, self._scene.remove]
        self._buttons.show(now)
        self._buttons.name_task()

    def _look(self, now: Snapshot) -> InitialView:
        """Set the cameras of all clients to the task's view, and return it."""
        self._scene.show(now.qpos, now.mocap_quat)
        view = self._scene.initial_view(now.task)
        clients = self._server.get_clients().values()
        for camera in (self._server.initial_camera, *(client.camera for client in clients)):
            camera.position, camera.look_at, camera.fov = view
        return view

    def _show_shapes(self, now: Snapshot) -> None:
        """Draw belief and plan over the scene, and add a row to the history."""
        if now.display is None:
            return
        try:
            stage = next(s for s in now.task.stages if s.name == now.stage)
            self._shapes.preview.ensemble.activate(stage.grasp)
            prediction = self._shapes.predict(now.display, stage.cost)
            shapes = [*self._shapes.objects(now.display), *self._shapes.belief(now.display)]
            self._nodes.show([*shapes, *self._shapes.rollouts(now.display, prediction)])
            self._history.append(now, _terms(prediction))
            self._problem = ''
        except EmppiError as error:  # nothing to draw this time
            self._problem = str(error)


def _terms(prediction: PlanRollouts) -> dict[str, float]:
    """Return the cost of each term; empty without a plan, or if all models diverged."""
    cost = prediction.cost
    return dict(cost.terms) if cost and cost.diverged < 1.0 else {}


def status(now: Snapshot, problem: str = '') -> str:
    """Return the lines at the top of the page, as HTML."""
    held = now.state == Phase.HELD.value  # held may be armed: red all the same
    color = RED if held else GREEN if now.armed else GREY
    words = now.state + (', paused' if now.paused else '')
    success = now.task.file.success
    stage = f', stage {now.stage}' if now.stage else ''
    near = '' if np.isnan(now.error) else f'{now.error:.3f} (success below {success.below:g})'
    notes = filter(None, (*now.notes, problem))
    wrong = ''.join(f'<div style="color:{RED}">{html.escape(note)}</div>' for note in notes)
    return (
        f'<div style="padding:0.3em 0.8em"><b style="color:{color};font-size:1.25em">'
        f'{html.escape(words)}</b> &nbsp; t = {now.clock:.1f} s<br>'
        f'{html.escape(now.task.name + stage)}<br>error {near}{wrong}</div>'
    )

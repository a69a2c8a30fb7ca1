"""The page follows task switches and shows warnings."""

import re
import time

import pytest

from emppi_ros.tasks.task import load_task
from emppi_ros.viz.web.page import Page, status
from emppi_ros.viz.web.robot_source import SimulatedSource
from emppi_ros.viz.web.server import Server


@pytest.fixture
def live():
    server, source = Server(0), SimulatedSource(load_task('cartpole_swingup'), seed=1)
    yield server, source, Page(server, source, source.snapshot())
    source.close()
    server.stop()


def draw(source: SimulatedSource, page: Page) -> None:
    """Draw until the plan's costs are on the plots."""
    source.set_watched(True)
    end = time.monotonic() + 60.0  # a machine that is busy
    while not (page._history.rows and page._history.rows[-1].series['terms']):
        assert time.monotonic() < end, page._problem
        page.draw(time.monotonic())
        time.sleep(0.05)
    page._plots_due = 0.0
    page.draw(time.monotonic())
    assert page._problem == ''


@pytest.mark.slow
def test_the_page_follows_task_switches(live):
    _, source, page = live
    draw(source, page)
    for name in ('panda_drawer', 'fr3_follow'):
        source.switch_task(name)
        page.draw(time.monotonic())
        assert not page._history.rows  # the plots are the new task's
        draw(source, page)
        stage = source.snapshot().task.stages[0]
        assert set(page._history.rows[-1].series['terms']) == {
            term.name for term in stage.cost.terms
        }
        assert page._buttons._tasks.value == name


def test_warnings_are_shown_as_escaped_text(live):
    _, source, _ = live
    found = source.snapshot()._replace(notes=('<script> is late',), state='held', paused=True)
    text = status(found, 'no belief received')
    assert '&lt;script&gt; is late' in text and 'no belief received' in text
    assert 'held, paused' in text
    calm = status(found._replace(state='moving', armed=True, notes=()))
    color = re.compile(r'<b style="color:(#\w+)')
    assert color.search(text)[1] == color.search(status(found._replace(armed=True)))[1]
    assert color.search(text)[1] != color.search(calm)[1]

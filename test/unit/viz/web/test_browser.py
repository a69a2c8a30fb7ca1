"""The page in a headless browser: it renders, a slider tunes, a reset asks for confirmation."""

from collections.abc import Callable, Iterator
import io
import shutil
import threading
import time
from typing import Any

import numpy as np
from PIL import Image
import pytest

from benchmarks import headless_client
from emppi_ros.core.errors import ViewError
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.web.page import Page
from emppi_ros.viz.web.robot_source import SimulatedSource
from emppi_ros.viz.web.server import Server

BROWSERS = 'chromium', 'chromium-browser', 'google-chrome', 'chrome'
FLAGS = '--no-sandbox', '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'
PATIENCE_S = 60.0  # for a picture without a graphics card, on a machine that is busy


@pytest.fixture(scope='module')
def browser() -> Iterator[Any]:
    """Return a browser that is here, or skip and say how to get one."""
    driver = pytest.importorskip(
        'playwright.sync_api', reason='pip install playwright: it drives the browser'
    )
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip('no browser is here: `apt install chromium` on Debian and Ubuntu')
    with driver.sync_playwright() as playwright:
        here = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield here
        here.close()


@pytest.fixture(scope='module')
def live() -> Iterator[tuple[Server, SimulatedSource, Page]]:
    """Return a page that is served while the tests last."""
    server, source = Server(0), SimulatedSource(load_task('cartpole_swingup'), seed=1)
    page, ended = Page(server, source, source.snapshot()), threading.Event()
    drawing = threading.Thread(target=page.run, args=(ended.wait,))
    drawing.start()
    yield server, source, page
    ended.set()
    drawing.join()
    source.close()
    server.stop()


def wait(condition: Callable[[], bool], tab: Any = None) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, 'nothing came of it'
        tab.wait_for_timeout(50) if tab is not None else time.sleep(0.05)


def open_tab(browser: Any, server: Server) -> Any:
    tab = browser.new_page(viewport={'width': 960, 'height': 540})
    tab.set_default_timeout(1e3 * PATIENCE_S)
    tab.goto(server.address)
    tab.get_by_role('button', name='Reset').wait_for()
    return tab


def pixels(tab: Any) -> np.ndarray:
    picture = Image.open(io.BytesIO(tab.screenshot())).convert('RGB')
    return np.asarray(picture)[150:, 410:610]  # between the panels, below notes


@pytest.mark.slow
def test_the_page_in_a_browser(browser, live):
    server, source, page = live
    foreign: list[str] = []
    tab = open_tab(browser, server)
    tab.on('request', lambda r: foreign.append(r.url))
    # the scene is drawn: it has colours other than the background's
    wait(lambda: len(np.unique(pixels(tab).reshape(-1, 3), axis=0)) > 50, tab)
    assert tab.locator('canvas').count() > 1  # the scene, and charts

    # a slider that is moved is the planner's number from the next cycle on
    before = source.snapshot().task.planner.temperature
    slider = tab.get_by_role('slider').first
    slider.focus()
    for _ in range(5):
        slider.press('ArrowRight')

    def is_taken():
        shown = source.snapshot().task.planner.temperature
        return shown > before and source._loop.planner.settings.temperature == shown

    wait(is_taken, tab)  # the last of five: between two looks another one may be taken
    tab.get_by_text('operator 1 set planner.temperature').last.wait_for()

    # a reset asks back, and does nothing on `No`
    for answer, runs in (('No', 0), ('Yes', 1)):
        run = source.snapshot().run
        tab.get_by_role('button', name='Reset', exact=True).click()
        tab.get_by_text('the belief to its prior').wait_for()
        tab.get_by_role('button', name=answer).click()
        tab.get_by_text('the belief to its prior').wait_for(state='detached')
        wait(lambda: source.snapshot().run == run + runs, tab)  # noqa: B023
    assert foreign == [] or all(server.address in url for url in foreign)

    # it says who else is there: without a screen, for two take half a minute to draw in software
    with headless_client.connect_headless(server.port):
        tab.get_by_text('2 connected').wait_for()
        tab.get_by_role('button', name='Arm', exact=True).click()
        tab.get_by_role('button', name='Yes').click()
        tab.get_by_text('operator 1 armed the robot').wait_for()
        tab.get_by_role('button', name='Disarm').wait_for()

    # browsers that go away change nothing, and then nothing is drawn
    tab.close()
    wait(lambda: not server.get_clients())
    wait(lambda: not source._watched)
    shown, clock = source.snapshot(), source._loop.robot.time
    wait(lambda: source._loop.robot.time > clock + 0.1)
    assert source.snapshot() is shown and source._loop.bridge.machine.armed
    with pytest.raises(ViewError, match='is taken'):
        Server(server.port)

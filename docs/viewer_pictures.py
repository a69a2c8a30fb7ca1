"""
Make the pictures of a bag in Lichtblick and in Rerun: docs/lichtblick.png and docs/rerun.png.

Run from the repository, without a display or a GPU, on a bag of `emppi demo panda_push`:

    python docs/viewer_pictures.py BAG/bag_0.mcap --lichtblick FOLDER --rerun

FOLDER is the built web application of Lichtblick (`yarn web:build:prod` makes `web/.webpack`).
It needs `playwright` and Chromium on the PATH; Rerun needs `rerun-sdk` and a Vulkan driver
(Debian: `mesa-vulkan-drivers`).
"""

import argparse
from collections.abc import Iterator
import contextlib
import http.server
from pathlib import Path
import shutil
import threading
import time

from PIL import Image

DOCS = Path(__file__).resolve().parent
LAYOUT = DOCS.parent / 'config' / 'foxglove' / 'emppi.json'
PLACE = '/*LICHTBLICK_SUITE_DEFAULT_LAYOUT_PLACEHOLDER*/'  # in Lichtblick's index.html
SIZE = (1500, 850)  # pixels
MOMENT = 0.5  # of the recording
COLOURS = 128  # keeps each picture below 300 kB
SOFTWARE_GL = ('--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader')


@contextlib.contextmanager
def served(app: Path, bag: Path) -> Iterator[str]:
    """Serve Lichtblick with our layout, and the bag; yield the address."""
    page = (app / 'index.html').read_text(encoding='utf-8')
    page = page.replace(PLACE, LAYOUT.read_text(encoding='utf-8'))
    contents = {'/': ('text/html', page.encode()), '/bag.mcap': ('', bag.read_bytes())}

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(app))

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            kind, data = contents.get(self.path.split('?')[0], ('', None))
            if data is None:
                return super().do_GET() if body else super().do_HEAD()
            first, last = 0, len(data) - 1
            if wanted := self.headers.get('Range'):  # Lichtblick reads bags in parts
                start, end = wanted.removeprefix('bytes=').split('-')
                first, last = int(start), min(last, int(end or last))
            self.send_response(206 if wanted else 200)
            self.send_header('Content-Type', kind or 'application/octet-stream')
            self.send_header('Accept-Ranges', 'bytes')
            self.send_header('Content-Range', f'bytes {first}-{last}/{len(data)}')
            self.send_header('Content-Length', str(last - first + 1))
            self.end_headers()
            return self.wfile.write(data[first : last + 1]) if body else None

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f'http://127.0.0.1:{server.server_port}/'
    finally:
        server.shutdown()


def draw_lichtblick(app: Path, bag: Path, out: Path) -> None:
    """Open the bag, go to the moment, play for two seconds, and take a picture."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (one picture needs it)

    with served(app, bag) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which('chromium'), args=[*SOFTWARE_GL]
        )
        page = browser.new_page(viewport={'width': SIZE[0], 'height': SIZE[1]})
        page.goto(f'{url}?ds=remote-file&ds.url={url}bag.mcap')
        page.wait_for_selector('text=Bridge and stage', timeout=60e3)  # a panel of our layout
        page.wait_for_timeout(8e3)  # loads the bag, drawing in software
        page.keyboard.press('[')  # hides the sidebar
        page.mouse.click(MOMENT * SIZE[0], SIZE[1] - 57)  # the time line
        page.wait_for_timeout(8e3)
        page.mouse.move(10, 300)
        for wait in (2e3, 6e3):  # plays, and pauses
            page.keyboard.press('Space')
            page.wait_for_timeout(wait)
        page.screenshot(path=out)
        browser.close()


def draw_rerun(bag: Path, out: Path) -> None:
    """Open the bag in a viewer without a window, and take a picture."""
    import rerun as rr  # noqa: PLC0415
    import rerun.blueprint as rrb  # noqa: PLC0415
    from rerun.experimental import ViewerClient  # noqa: PLC0415

    eye = rrb.EyeControls3D(position=[1.6, 1.2, 1.0], look_target=[0.3, 0.0, 0.1])
    plots = [
        rrb.TimeSeriesView(origin=f'/joint_states/{name}', name=f'joint_states: {name}')
        for name in ('position', 'velocity', 'effort')
    ]
    scene = rrb.Spatial3DView(origin='/', name='Scene', eye_controls=eye)
    blueprint = rrb.Blueprint(
        rrb.Horizontal(scene, rrb.Vertical(*plots), column_shares=[3, 2]),
        rrb.TimePanel(state='collapsed', timeline='message_log_time'),
        collapse_panels=True,
    )
    viewer = ViewerClient.spawn(headless=True, hide_welcome_screen=True)
    rr.init('emppi')
    rr.connect_grpc()
    rr.send_blueprint(blueprint)
    rr.log_file_from_path(bag)
    time.sleep(20.0)  # loads the bag, drawing in software; its notifications vanish
    viewer.save_screenshot(str(out))
    viewer.quit()


def compress(path: Path) -> None:
    """Reduce a picture in size and colours."""
    picture = Image.open(path).convert('RGB')
    picture.thumbnail(SIZE)
    picture.quantize(COLOURS).save(path, optimize=True)
    print(f'{path}: {path.stat().st_size / 1e3:.0f} kB')


def main() -> None:
    """Make the pictures that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('bag', type=Path, help='MCAP file')
    parser.add_argument('--lichtblick', type=Path, metavar='FOLDER', help='its web application')
    parser.add_argument('--rerun', action='store_true')
    given = parser.parse_args()
    if given.lichtblick:
        draw_lichtblick(given.lichtblick, given.bag, DOCS / 'lichtblick.png')
        compress(DOCS / 'lichtblick.png')
    if given.rerun:
        draw_rerun(given.bag, DOCS / 'rerun.png')
        compress(DOCS / 'rerun.png')


if __name__ == '__main__':
    main()

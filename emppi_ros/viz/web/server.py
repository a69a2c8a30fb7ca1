"""
The web server: viser, but for this machine alone.

viser goes on to the next port when one is taken, and takes any web page's word: a page of
somebody else, open in the operator's browser, could arm the robot. So the port is taken here,
before viser is, and only pages that came from that very port are listened to.
"""

from collections.abc import Iterator
import contextlib
import errno
import io
import socket
from typing import Any

import viser
import websockets.asyncio.server

from emppi_ros.core.errors import ViewError

HOST = '127.0.0.1'
LABEL = 'emppi'


class Server(viser.ViserServer):
    """Serves the page on this machine, and never through anybody else's."""

    def __init__(self, port: int) -> None:
        """Listen; ViewError if the port is taken. Port 0: any that is free."""
        listening = _listen(port)
        self.port: int = listening.getsockname()[1]
        origins = [f'http://{host}:{self.port}' for host in (HOST, 'localhost')]
        with _quiet(), _serving(listening, origins):
            super().__init__(HOST, self.port, LABEL, verbose=False)
        self.gui.configure_theme(show_logo=False, show_share_button=False)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f'http://{HOST}:{self.port}'

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Refuse what a browser may ask for: the page through a server of others."""
        return None

    def stop(self) -> None:
        """Serve no more."""
        with _quiet():
            super().stop()


@contextlib.contextmanager
def _serving(listening: socket.socket, origins: list[str]) -> Iterator[None]:
    """Have what is served meanwhile use a socket that listens, and hear these origins alone."""
    real = websockets.asyncio.server.serve

    def serve(handler: Any, _host: str, _port: int, **words: Any) -> Any:
        return real(handler, sock=listening, origins=origins, **words)

    websockets.asyncio.server.serve = serve  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        websockets.asyncio.server.serve = real  # type: ignore[misc]


def _listen(port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen()
    except OSError as error:
        found.close()
        other = 'give another one, or 0 for any that is free: --port'
        if error.errno == errno.EADDRINUSE:
            raise ViewError(f'port {port} is taken, perhaps by another view: {other}') from None
        raise ViewError(f'port {port}: {error.strerror}: {other}') from None
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what viser says of itself from stdout, which is for results."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield

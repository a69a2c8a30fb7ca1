"""
The web server: viser, restricted to this machine and to pages that it serves itself.

Otherwise another site that is open in the operator's browser could arm the robot.
"""

from collections.abc import Iterator
import contextlib
import errno
import io
import socket
from typing import Any

import viser
import websockets.asyncio.server
from websockets.typing import Origin

from emppi_ros.core.errors import ViewError

HOST = '127.0.0.1'
LABEL = 'emppi'


class Server(viser.ViserServer):
    """Serves the page on this machine only."""

    def __init__(self, port: int) -> None:
        """Listen on a port (0: any free one); raise ViewError if it is taken."""
        listening = _listen(port)
        self.port: int = listening.getsockname()[1]
        origins = [Origin(f'http://{host}:{self.port}') for host in (HOST, 'localhost')]
        with _quiet(), _serving(listening, origins):
            super().__init__(HOST, self.port, LABEL, verbose=False)
        self.gui.configure_theme(show_logo=False, show_share_button=False)

    @property
    def address(self) -> str:
        """URL of the page."""
        return f'http://{HOST}:{self.port}'

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Refuse to share the page through viser's public relay."""
        return None

    def stop(self) -> None:
        """Stop serving."""
        with _quiet():
            super().stop()


@contextlib.contextmanager
def _serving(listening: socket.socket, origins: list[Origin]) -> Iterator[None]:
    """Make websockets serve on a bound socket and accept these origins only, meanwhile."""
    real = websockets.asyncio.server.serve

    def serve(handler: Any, _host: str, _port: int, **words: Any) -> Any:
        return real(handler, sock=listening, origins=origins, **words)

    websockets.asyncio.server.serve = serve  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        websockets.asyncio.server.serve = real  # type: ignore[misc]


def _listen(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        bound.listen()
    except OSError as error:
        bound.close()
        other = 'choose another one, or 0 for any free one, with --port'
        if error.errno == errno.EADDRINUSE:
            raise ViewError(f'port {port} is taken: {other}') from None
        raise ViewError(f'port {port}: {error.strerror}: {other}') from None
    return bound


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep viser's messages off stdout, which is for results."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield

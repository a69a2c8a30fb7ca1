"""A headless client of the web page: receives everything and draws nothing."""

from collections.abc import Iterator
import contextlib
import threading

import msgspec
import viser
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

# viser counts a client from its first camera message on
_CAMERA = {
    'type': 'ViewerCameraMessage', 'wxyz': (1.0, 0.0, 0.0, 0.0), 'position': (1.0, 1.0, 1.0),
    'fov': 1.0, 'near': 0.01, 'far': 100.0, 'image_height': 800, 'image_width': 1280,
    'look_at': (0.0, 0.0, 0.0), 'up_direction': (0.0, 0.0, 1.0),
}  # fmt: skip


@contextlib.contextmanager
def connect_headless(port: int) -> Iterator[list[int]]:
    """Connect to the page at a port; yield a list that grows by the size of each message."""
    sizes: list[int] = []
    with connect(
        f'ws://127.0.0.1:{port}',
        origin=Origin(f'http://127.0.0.1:{port}'),
        subprotocols=[Subprotocol(f'viser-v{viser.__version__}')],
        max_size=None,
    ) as page:
        page.send(msgspec.msgpack.encode(_CAMERA))
        reader = threading.Thread(target=_receive, args=(page, sizes), daemon=True)
        reader.start()
        yield sizes
    reader.join()


def _receive(page: ClientConnection, sizes: list[int]) -> None:
    with contextlib.suppress(ConnectionClosed):
        sizes.extend(len(message) for message in page)

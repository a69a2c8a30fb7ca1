"""A browser without a screen: takes all that the live page sends, and draws nothing."""

from collections.abc import Iterator
import contextlib
import threading

import msgspec
import viser
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

# a visitor is there for viser once it has said where it looks from
_LOOK = {
    'type': 'ViewerCameraMessage', 'wxyz': (1.0, 0.0, 0.0, 0.0), 'position': (1.0, 1.0, 1.0),
    'fov': 1.0, 'near': 0.01, 'far': 100.0, 'image_height': 800, 'image_width': 1280,
    'look_at': (0.0, 0.0, 0.0), 'up_direction': (0.0, 0.0, 1.0),
}  # fmt: skip


@contextlib.contextmanager
def visit(port: int) -> Iterator[list[int]]:
    """Look at the page of a port for a while; the list tells the bytes of each message so far."""
    taken: list[int] = []
    with connect(
        f'ws://127.0.0.1:{port}',
        origin=f'http://127.0.0.1:{port}',
        subprotocols=[f'viser-v{viser.__version__}'],
        max_size=None,
    ) as page:
        page.send(msgspec.msgpack.encode(_LOOK))
        reader = threading.Thread(target=_take, args=(page, taken), daemon=True)
        reader.start()
        yield taken
    reader.join()


def _take(page: ClientConnection, taken: list[int]) -> None:
    with contextlib.suppress(ConnectionClosed):
        taken.extend(len(message) for message in page)

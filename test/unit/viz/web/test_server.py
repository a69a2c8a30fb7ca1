"""The server is restricted to this machine, the given port and its own pages."""

import socket
import time

import numpy as np
import pytest
import viser
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from benchmarks import headless_client
from emppi_ros.core.errors import ViewError
from emppi_ros.viz.web.server import HOST, Server

PROTOCOL = [f'viser-v{viser.__version__}']


@pytest.fixture(scope='module')
def served():
    found = Server(0)
    yield found
    found.stop()


def test_it_listens_on_the_loopback_interface_only(served):
    assert served.get_host() == HOST == '127.0.0.1'
    with socket.socket() as other:  # another address of this machine is free on that port
        other.bind(('127.0.0.2', served.port))


def test_a_taken_port_is_an_error_that_names_it(served):
    with pytest.raises(ViewError, match=f'port {served.port} is taken.*--port'):
        Server(served.port)


def test_a_page_of_another_origin_is_rejected(served):
    where = f'ws://{HOST}:{served.port}'
    for origin in ('http://example.org', f'http://example.org:{served.port}', 'null', None):
        with pytest.raises(InvalidStatus) as refused:
            connect(where, origin=origin, subprotocols=PROTOCOL)
        assert refused.value.response.status_code == 403
    for host in (HOST, 'localhost'):
        connect(where, origin=f'http://{host}:{served.port}', subprotocols=PROTOCOL).close()


def test_the_page_cannot_be_shared_through_a_relay(served):
    assert served.request_share_url() is None
    assert served._share_tunnel is None


def test_a_headless_client_counts_and_receives_everything(served):
    known = len(served.get_clients())
    with headless_client.connect_headless(served.port) as taken:
        corners = np.random.default_rng(0).random((1000, 3), np.float32)  # 12 kB, not to be packed
        served.scene.add_mesh_simple('/cloud', corners, np.array([[0, 1, 2]], np.uint32))
        end = time.monotonic() + 10.0
        while len(served.get_clients()) == known or sum(taken) < 0.8 * corners.nbytes:
            assert time.monotonic() < end, (served.get_clients(), taken)
            time.sleep(0.01)

"""A stand-in for viser that records everything."""

from collections.abc import Iterator
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('viser', reason="viser is not installed: pip install 'emppi_ros[view]'")


class Noted:
    """A node or a control: what it was made with, what it was set to, and what waits for it."""

    def __init__(self, name: str, keys: dict[str, Any]) -> None:
        self.__dict__.update(name=name, keys=keys, sets=[], removed=False, closed=False, calls=[])
        self.__dict__.update(keys)

    def __setattr__(self, key: str, value: Any) -> None:
        self.sets.append(key)
        self.__dict__[key] = value

    def remove(self) -> None:
        self.__dict__['removed'] = True

    def close(self) -> None:
        self.__dict__['closed'] = True

    def on_click(self, call: Any) -> Any:
        self.calls.append(call)
        return call

    on_update = on_click

    def press(self, client: Any = None) -> None:
        for call in self.calls:
            call(SimpleNamespace(client=client, target=self))

    def __enter__(self) -> 'Noted':
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Recorder:
    """Answers every `add_...` with what it was given."""

    def __init__(self) -> None:
        self.added: list[Noted] = []

    def __getattr__(self, what: str) -> Any:
        if not what.startswith('add_'):
            raise AttributeError(what)

        def add(name: str = '', *rest: Any, **keys: Any) -> Noted:
            found = Noted(name, {'what': what, 'rest': rest, **keys})
            self.added.append(found)
            return found

        return add

    def named(self, name: str) -> Noted:
        """Return what was added last under a name that begins so."""
        return [one for one in self.added if one.name.startswith(name)][-1]


class Client:
    """A browser."""

    def __init__(self, client_id: int) -> None:
        self.client_id, self.gui, self.told = client_id, Recorder(), []

    def add_notification(self, title: str, body: str, **_: Any) -> None:
        self.told.append(f'{title}: {body}')


class Server:
    """Stands in for viser's."""

    def __init__(self) -> None:
        self.scene, self.gui, self.clients = Recorder(), Recorder(), {}
        self.greeted: list[Any] = []

    @contextlib.contextmanager
    def atomic(self) -> Iterator[None]:
        yield

    def get_clients(self) -> dict[int, Client]:
        return self.clients

    def on_client_connect(self, call: Any) -> None:
        self.greeted.append(call)

    def on_client_disconnect(self, call: Any) -> None:
        pass

    def join(self) -> Client:
        client = Client(len(self.clients))
        self.clients[client.client_id] = client
        for call in self.greeted:
            call(client)
        return client


@pytest.fixture
def server() -> Server:
    """Return a server that takes everything down."""
    return Server()

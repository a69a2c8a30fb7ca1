"""Who asks for what: each browser is an operator, and what one changes all are told."""

from collections import deque
from collections.abc import Callable
import datetime
import html
import threading
from typing import Any

from emppi_ros.core.errors import EmppiError
from emppi_ros.viz.web.source import Source

_LINES, _SHOWN_S = 5, 8.0
_OVERTAKEN = 'not done, for meanwhile {}: look again, and ask again'


class Operators:
    """Asks back, does what was confirmed, and says so on the page."""

    def __init__(self, server: Any, source: Source) -> None:
        """Nothing was done yet."""
        self._server, self._source = server, source
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._lock, self._done, self._last = threading.Lock(), 0, ''
        self._note = server.gui.add_html('', order=1000.0)
        server.on_client_connect(self._greet)
        server.on_client_disconnect(self._miss)
        self._write()

    def confirm(
        self, client: Any, title: str, text: str, what: str, act: Callable[[], None],
        give_up: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """
        Ask the one client that pressed a button; `what` completes `operator 1 ...`.

        The answer counts only if nobody has changed anything meanwhile.
        """
        if client is None:  # gone already
            give_up()
            return
        asked = self._done
        modal = client.gui.add_modal(title)
        with modal:
            client.gui.add_markdown(text)
            yes = client.gui.add_button(f'Yes: {title.rstrip("?").lower()}', color='red')
            no = client.gui.add_button('No', color='gray')

        @yes.on_click
        def _(_event: Any) -> None:
            if not modal.closed:
                modal.close()
                if not self.do(client, what, act, asked):
                    give_up()

        @no.on_click
        def _(_event: Any) -> None:
            if not modal.closed:
                modal.close()
                give_up()

    def do(
        self, client: Any, what: str, act: Callable[[], None], asked: int | None = None
    ) -> bool:
        """Do what a client asks for, and say so; or tell the client why not."""
        with self._lock:  # one at a time, in the order in which they came
            if asked is not None and asked != self._done:
                self.tell(client, _OVERTAKEN.format(self._last))
                return False
            try:
                act()
            except EmppiError as error:
                self.tell(client, str(error))
                return False
            self._done += 1
            self.say(f'{name(client)} {what}')
            return True

    def tell(self, client: Any, text: str) -> None:
        """Tell one client what is wrong."""
        if client is not None:
            client.add_notification('Refused', text, color='red', auto_close_seconds=_SHOWN_S)

    def say(self, text: str) -> None:
        """Tell all what was done."""
        self._last = text
        self._lines.append(f'{datetime.datetime.now():%H:%M:%S} {html.escape(text)}')
        self._write()

    def _greet(self, client: Any) -> None:
        client.add_notification(
            f'You are {name(client)}', self._source.name, auto_close_seconds=_SHOWN_S
        )
        self._write()

    def _miss(self, _client: Any) -> None:
        self._write()

    def _write(self) -> None:
        count = len(self._server.get_clients())
        lines = '<br>'.join(reversed(self._lines)) or 'nobody has changed anything yet'
        self._note.content = (
            f'<div style="font-size:0.8em;padding:0 0.8em"><b>{count} looking</b><br>{lines}</div>'
        )


def name(client: Any) -> str:
    """Return what a client is called, by everybody."""
    return 'somebody' if client is None else f'operator {client.client_id + 1}'

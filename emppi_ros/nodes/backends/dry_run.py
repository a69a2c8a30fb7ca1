"""Backend `dry-run`: sends nothing, to inspect commands before a robot moves."""

from emppi_ros.core.arrays import Array
from emppi_ros.nodes.backends import Backend, BackendCommand


class DryRunBackend(Backend):
    """Sends nothing; `emppi/applied` shows the commands."""

    drives = False

    def send(self, cycle: BackendCommand) -> Array:
        """Return the command (joints,) without sending it."""
        return cycle.command.value


BACKEND = DryRunBackend

"""The processes of this machine, as a supervisor sees them.

`ProcessHost` is the seam: tests have one in virtual time, whose processes end at the test's command, and which reuses
process ids.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from mainstay.env import SystemDisk, commands, health_socket, log_files, process_search
from mainstay.env.commands import Identity
from mainstay.supervisor.decide import Process, ProcessSpec

MARK: Final = "MAINSTAY_COMPONENT"
"""An environment variable of each started process: the data directory and the name of the component."""
_PROGRAM_PARTS: Final = 5
"""The parts of a command line that identify the program: python, -P, -m, the module, the command."""

LOG_BYTES_MAX: Final = 10 * 1024 * 1024
LOGS_KEPT: Final = 3
_LOG: Final = ".log"


class ProcessHost(Protocol):
    """All calls but `ended` block for a moment."""

    def start(self, component: ProcessSpec) -> Identity:
        """Start it, and return when it runs. Raises `OSError`."""

    def is_alive(self, identity: Identity) -> bool: ...

    def send(self, identity: Identity, number: signal.Signals) -> bool:
        """False if it is gone."""

    async def ended(self, identity: Identity) -> None:
        """Returns once it has, at once if it did before."""

    def exit_code(self, identity: Identity) -> int | None:
        """The signal, negative, or the exit code. None if that cannot be known."""

    def lost(self, wanted: Sequence[ProcessSpec]) -> Mapping[str, Process]:
        """Find components that run without a record, because their supervisor was killed before it wrote one."""

    async def find_failure(self, name: str) -> str | None:
        """What a component says is wrong, that a restart would cure. Empty: nothing. None: it cannot be asked."""

    def trim_logs(self) -> None:
        """Bound the size of the log files."""


class SystemProcessHost:
    """Real processes. The output of each goes to `NAME.log`."""

    def __init__(self, data_dir: Path, logs: Path) -> None:
        self._data_dir = data_dir
        self._logs = logs
        self._log_files = SystemDisk(logs)

    def start(self, component: ProcessSpec) -> Identity:
        environment = {
            **os.environ,
            MARK: f"{self._data_dir}#{component.name}",
            health_socket.VARIABLE: self._socket(component.name),
        }
        # Not the working directory of `up`, which could then not be unmounted.
        return commands.start(component.argv, env=environment, cwd=self._data_dir, output=self.log_path(component.name))

    def is_alive(self, identity: Identity) -> bool:
        return commands.is_alive(identity)

    def send(self, identity: Identity, number: signal.Signals) -> bool:
        return commands.send(identity, number)

    async def ended(self, identity: Identity) -> None:
        await commands.ended(identity)

    def exit_code(self, identity: Identity) -> int | None:
        return commands.exit_code(identity)

    async def find_failure(self, name: str) -> str | None:
        failing = await health_socket.ask(self._socket(name))
        return None if failing is None else "; ".join(f"{each.name}: {each.problem}" for each in failing)

    def _socket(self, name: str) -> str:
        return health_socket.build_path(self._data_dir / "run", name)

    def lost(self, wanted: Sequence[ProcessSpec]) -> Mapping[str, Process]:
        by_mark = {f"{self._data_dir}#{component.name}": component for component in wanted}
        found = {}
        for each in process_search.marked(MARK):
            component = by_mark.get(each.value)
            # Children of a component may have its mark, but not its command line.
            if component is not None and each.argv[:_PROGRAM_PARTS] == component.argv[:_PROGRAM_PARTS]:
                found[component.name] = Process(each.identity, each.argv, component.turn)
        return found

    def trim_logs(self) -> None:
        for name in self._log_files.names():
            if name.endswith(_LOG):
                log_files.trim(self._logs / name, LOG_BYTES_MAX, LOGS_KEPT)

    def log_path(self, name: str) -> Path:
        return self._logs / f"{name}{_LOG}"

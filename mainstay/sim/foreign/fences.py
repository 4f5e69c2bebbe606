"""What cannot be simulated, and is refused: real threads, processes, signals, file descriptors, TLS.

Each refusal says what was tried and what to do instead. A program that only looks whether something is possible gets
the answer that asyncio defines for it (`NotImplementedError`) and can go on without.
"""

import _thread
import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn

from mainstay.sim.errors import Unsimulated
from mainstay.sim.foreign.context import AnyReplacement, Replacement, RunContext, replace_method

_NO_PROCESSES: Final = "processes are not simulated: put what starts them behind a seam, and replace it in the run"
_NO_THREADS: Final = (
    "threads are not simulated: use asyncio.to_thread or loop.run_in_executor, which run the call inline"
)
_NO_SIGNALS: Final = "signals are not simulated: cancel the task, or call what the handler would call"
_NO_KILLING: Final = "it would affect the simulating process: end the program, or let it fail"
_NO_DESCRIPTORS: Final = (
    "file descriptors are not simulated: use streams, loop.create_connection or loop.create_server,"
    " which the simulated network provides"
)
_NO_PIPES: Final = "pipes are not simulated: use a connection of the simulated network"
_NO_UNIX: Final = "Unix sockets are not simulated: use TCP on the simulated network"
_NO_DATAGRAMS: Final = "datagrams are not simulated: use TCP on the simulated network"
_NO_TLS: Final = "TLS is not simulated: connect and listen without `ssl` inside a run"


def refuse_tls(options: dict[str, Any]) -> None:
    """Refuse `ssl=` among the options of a connection or server."""
    if options.get("ssl"):
        raise Unsimulated(_NO_TLS)


class FencedLoop(asyncio.AbstractEventLoop):
    """The methods of a loop that the simulated one refuses."""

    def add_signal_handler(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        raise Unsimulated(f"loop.add_signal_handler: {_NO_SIGNALS}")

    def remove_signal_handler(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.remove_signal_handler: {_NO_SIGNALS}")

    def add_reader(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        raise Unsimulated(f"loop.add_reader: {_NO_DESCRIPTORS}")

    def remove_reader(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.remove_reader: {_NO_DESCRIPTORS}")

    def add_writer(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        raise Unsimulated(f"loop.add_writer: {_NO_DESCRIPTORS}")

    def remove_writer(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.remove_writer: {_NO_DESCRIPTORS}")

    async def sock_accept(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.sock_accept: {_NO_DESCRIPTORS}")

    async def sock_recv(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.sock_recv: {_NO_DESCRIPTORS}")

    async def sock_recv_into(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.sock_recv_into: {_NO_DESCRIPTORS}")

    async def sock_recvfrom(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.sock_recvfrom: {_NO_DESCRIPTORS}")

    async def sock_recvfrom_into(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.sock_recvfrom_into: {_NO_DESCRIPTORS}")

    async def sock_sendall(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.sock_sendall: {_NO_DESCRIPTORS}")

    async def sock_sendto(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.sock_sendto: {_NO_DESCRIPTORS}")

    async def sock_sendfile(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.sock_sendfile: {_NO_DESCRIPTORS}")

    async def sendfile(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated("loop.sendfile: write what the file holds to the transport")

    async def connect_accepted_socket(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.connect_accepted_socket: {_NO_DESCRIPTORS}")

    async def connect_read_pipe(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.connect_read_pipe: {_NO_PIPES}")

    async def connect_write_pipe(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.connect_write_pipe: {_NO_PIPES}")

    async def create_unix_connection(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.create_unix_connection: {_NO_UNIX}")

    async def create_unix_server(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.create_unix_server: {_NO_UNIX}")

    async def create_datagram_endpoint(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.create_datagram_endpoint: {_NO_DATAGRAMS}")

    async def start_tls(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.start_tls: {_NO_TLS}")

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.subprocess_exec: {_NO_PROCESSES}")

    async def subprocess_shell(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsimulated(f"loop.subprocess_shell: {_NO_PROCESSES}")


def replacements() -> dict[tuple[str, str], AnyReplacement]:
    """By module and name, what stands there during a run."""
    table: dict[tuple[str, str], AnyReplacement] = {
        ("_thread", "start_new_thread"): _refused(_thread.start_new_thread, "a thread", _NO_THREADS),
        ("signal", "signal"): _refused(signal.signal, "signal.signal", _NO_SIGNALS),
    }
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"):
        table["os", name] = _refused(getattr(os, name), f"os.{name}", _NO_PROCESSES)
    for name in ("kill", "killpg", "abort"):
        table["os", name] = _refused(getattr(os, name), f"os.{name}", _NO_KILLING)
    for name in ("pthread_kill", "raise_signal"):
        table["signal", name] = _refused(getattr(signal, name), f"signal.{name}", _NO_KILLING)
    return table


def methods() -> dict[tuple[type, str], Any]:
    """By class and name, what stands there during a run."""
    return {
        (threading.Thread, "start"): replace_method(threading.Thread.start, _refuse_thread),
        (threading.Condition, "wait"): replace_method(threading.Condition.wait, _wait),
        (subprocess.Popen, "__init__"): replace_method(subprocess.Popen.__init__, _refuse_process),
    }


def _refused(real: Callable[..., Any], what: str, instead: str) -> AnyReplacement:
    def refuse(run: RunContext, *args: object, **kwargs: object) -> NoReturn:
        raise Unsimulated(f"{what}: {instead}")

    return Replacement(real, refuse)


def _refuse_thread(run: RunContext, thread: threading.Thread) -> NoReturn:
    raise Unsimulated(f"thread {thread.name}: {_NO_THREADS}")


def _refuse_process(
    run: RunContext, process: object, command: object = None, *args: object, **kwargs: object
) -> NoReturn:
    raise Unsimulated(f"subprocess {command}: {_NO_PROCESSES}")


def _wait(run: RunContext, condition: threading.Condition, timeout: float | None = None) -> bool:
    """Wait to be notified by another thread, of which there is none: only the end of the time limit can come.

    Events, queues, semaphores and the futures of executors all wait here. Without this they would hang for ever.
    """
    if timeout is None or not run.loop.executors.sleep(timeout):
        raise Unsimulated("waiting for another thread would never end: " + _NO_THREADS)
    return False

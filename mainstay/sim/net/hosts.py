"""The machines of a simulated network: their names, addresses and ports, and which one the running code is on.

A host has a name, one address in 10.0.0.0/8, and a loopback of its own. Code runs *on* a host by way of a context
variable: whatever a task starts stays on the task's host, and so does what is called for a connection that was made or
accepted there. Code that was never put anywhere is on the host `localhost`.

Not here: what happens between two hosts (wire.py, network.py), and stopping the code of a host that fails: a network
can silence a machine, but it does not own the tasks on it.
"""

import contextlib
import errno
import os
from collections.abc import Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import asyncio

    from mainstay.sim.loop.loop import SimLoop
    from mainstay.sim.net.sockets import SimSocket

T = TypeVar("T")

LOOPBACK: Final = "127.0.0.1"
WILDCARD: Final = "0.0.0.0"
EPHEMERAL_PORTS: Final = range(32768, 61000)  # What Linux hands out.

_here: ContextVar["Host"] = ContextVar("mainstay.sim.host")


def os_error(number: int, about: str = "") -> OSError:
    """The error that Linux gives for an errno; `OSError` itself turns it into the right subclass."""
    text = os.strerror(number)
    return OSError(number, f"{text}: {about}" if about else text)


class Host:
    """One machine. Made by `Network.host`."""

    __slots__ = ("_bound", "_next_port", "address", "is_up", "loop", "name")

    def __init__(self, loop: "SimLoop", name: str, address: str) -> None:
        self.loop = loop
        self.name = name
        self.address = address
        self.is_up = True
        self._bound: dict[int, dict[str, SimSocket]] = {}
        self._next_port = 0

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address}>"

    @contextlib.contextmanager
    def active(self) -> Iterator["Host"]:
        """Run the block on this host, and everything that it starts."""
        token = _here.set(self)
        try:
            yield self
        finally:
            _here.reset(token)

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> "asyncio.Task[T]":
        """Start a task on this host."""
        return self.loop.create_task(work, name=name, context=self.context())

    def context(self) -> Context:
        """The caller's context, but on this host: for what is called later on its behalf."""
        context = copy_context()
        context.run(_here.set, self)
        return context

    def is_own(self, address: str) -> bool:
        """Whether this address leads to this host when it is used on this host."""
        return address == self.address or is_loopback(address)

    def bind(self, sock: "SimSocket", address: str, port: int) -> int:
        """Reserve a port for a socket and say which one it got. Port 0 takes the next free one."""
        if not self.is_up:
            raise os_error(errno.ENETDOWN, self.name)
        if address != WILDCARD and not self.is_own(address):
            raise os_error(errno.EADDRNOTAVAIL, f"{address} on {self.name}")
        if port == 0:
            port = self._free_port(address)
        elif self._is_taken(address, port):
            raise os_error(errno.EADDRINUSE, f"{address}:{port} on {self.name}")
        self._bound.setdefault(port, {})[address] = sock
        return port

    def release(self, sock: "SimSocket", address: str, port: int) -> None:
        """Give a port back. Does nothing if the host lost power since: then another process may hold it by now."""
        holders = self._bound.get(port, {})
        if holders.get(address) is sock:
            del holders[address]
            if not holders:
                del self._bound[port]

    def release_all(self) -> None:
        self._bound.clear()

    def bound_to(self, address: str, port: int) -> "SimSocket | None":
        """The socket that what is sent to this address and port would reach."""
        holders = self._bound.get(port)
        if holders is None:
            return None
        return holders.get(address) or holders.get(WILDCARD)

    def _is_taken(self, address: str, port: int) -> bool:
        holders = self._bound.get(port)
        return holders is not None and (address == WILDCARD or WILDCARD in holders or address in holders)

    def _free_port(self, address: str) -> int:
        # In turn rather than the lowest free one, as kernels do: a port that was just let go must not
        # be mistaken for its last user.
        for _ in EPHEMERAL_PORTS:
            port = EPHEMERAL_PORTS[self._next_port]
            self._next_port = (self._next_port + 1) % len(EPHEMERAL_PORTS)
            if not self._is_taken(address, port):
                return port
        raise os_error(errno.EADDRNOTAVAIL, f"no free port on {self.name}")


def current_host() -> Host | None:
    """The host that the running code was put on, if any."""
    return _here.get(None)


def is_loopback(address: str) -> bool:
    return address.startswith("127.")

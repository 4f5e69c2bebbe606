"""What `socket.socket` and `select.poll` are during a run.

asyncio programs make sockets themselves only to configure them, and to hand them to the loop: to be connected by
`loop.sock_connect`, or as `sock=` to `create_connection` and `create_server`. That works here. Options are remembered
and have no effect. Whatever would send, receive or wait on the socket itself is refused: only the loop may wait.

`SimPoll` is there because HTTP clients look, without waiting, whether an idle connection has become readable, which
means that the server has closed it.
"""

import asyncio
import errno
import select
import socket
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mainstay.sim.errors import Unsimulated
from mainstay.sim.net.hosts import LOOPBACK, WILDCARD, Host, is_loopback, os_error
from mainstay.sim.net.names import format_address
from mainstay.sim.net.wire import TcpEnd

if TYPE_CHECKING:
    from mainstay.sim.net.network import Network

FIRST_FILENO: Final = 1 << 20  # Above what a process can have open, so that it is never mistaken for a real file.
_TYPE_FLAGS: Final = getattr(socket, "SOCK_NONBLOCK", 0) | getattr(socket, "SOCK_CLOEXEC", 0)


def running_network() -> "Network":
    network: Network | None = getattr(asyncio.get_running_loop(), "network", None)
    if network is None:
        raise Unsimulated("a simulated socket belongs to a simulated loop, and another loop is running")
    return network


def _fenced(name: str) -> Callable[..., NoReturn]:
    def refuse(self: "SimSocket", *args: object, **kwargs: object) -> NoReturn:
        raise Unsimulated(
            f"socket.{name} would bypass the simulated loop: use asyncio streams, loop.create_connection"
            " or loop.create_server"
        )

    refuse.__name__ = name
    refuse.__qualname__ = f"SimSocket.{name}"
    return refuse


class SimSocket:
    """A TCP socket on the host that the code runs on."""

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:  # noqa: A002
        if fileno is not None:
            raise Unsimulated("a simulated socket cannot be created from a file descriptor")
        family = socket.AF_INET if family == -1 else family
        type = socket.SOCK_STREAM if type == -1 else type & ~_TYPE_FLAGS  # noqa: A001
        if family not in (socket.AF_INET, socket.AF_INET6) or type != socket.SOCK_STREAM:
            raise Unsimulated(f"only TCP is simulated, not family {family} with type {type}")
        self.family = socket.AddressFamily(family)
        self.type = socket.SocketKind(type)
        self.proto = 0 if proto == -1 else proto
        self.end: TcpEnd | None = None
        self._network = running_network()
        self._number = self._network.register(self)
        self.host: Host = self._network.here()
        self._fileno = self._number
        self._bound_to: tuple[str, int] | None = None
        self._accept: Callable[[SimSocket, TcpEnd], None] | None = None
        self._accept_context: Context | None = None
        self._timeout = socket.getdefaulttimeout()
        self._options: dict[tuple[int, int], int | bytes | None] = {}

    def __repr__(self) -> str:
        return f"<SimSocket fd={self._fileno} host={self.host.name} bound_to={self._bound_to}>"

    def __hash__(self) -> int:
        return self._number  # Not the address in memory: programs put sockets into sets.

    def __enter__(self) -> "SimSocket":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    # What a program may do.

    def fileno(self) -> int:
        """A number that no other socket of this run has, and that leads nowhere. -1 once closed."""
        return self._fileno

    def setblocking(self, flag: bool) -> None:
        self._timeout = None if flag else 0.0

    def getblocking(self) -> bool:
        return self._timeout != 0.0

    def settimeout(self, value: float | None) -> None:
        self._timeout = value

    def gettimeout(self) -> float | None:
        return self._timeout

    def get_inheritable(self) -> bool:
        return False

    def set_inheritable(self, inheritable: bool) -> None:
        """Accepted: there are no child processes to inherit it."""

    def setsockopt(self, level: int, option: int, value: int | bytes | None, length: int | None = None) -> None:
        self._check_open()
        self._options[level, option] = value

    def getsockopt(self, level: int, option: int, length: int = 0) -> int | bytes | None:
        """What was set before, or 0."""
        self._check_open()
        if (level, option) == (socket.SOL_SOCKET, socket.SO_TYPE):
            return self.type
        return self._options.get((level, option), b"" if length else 0)

    def bind(self, address: tuple[Any, ...]) -> None:
        self._check_open()
        if self._bound_to is not None:
            raise os_error(errno.EINVAL, "already bound")
        host, port = address[:2]
        local = self._network.names.find_address(host) if host else WILDCARD
        self._bound_to = local, self.host.bind(self, local, port)

    def listen(self, backlog: int = 0) -> None:
        """Accepted. Connections get through once a server serves them."""
        self._check_open()
        if self._bound_to is None:
            self.bind((WILDCARD, 0))

    def getsockname(self) -> tuple[Any, ...]:
        self._check_open()
        return format_address(self.family, *(self.end.address if self.end else self._bound_to or (WILDCARD, 0)))

    def getpeername(self) -> tuple[Any, ...]:
        self._check_open()
        if self.end is None:
            raise os_error(errno.ENOTCONN)
        return format_address(self.family, *self.end.peer.address)

    def shutdown(self, how: int) -> None:
        self._check_open()
        if self.end is None:
            raise os_error(errno.ENOTCONN)
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            self.end.send_fin()

    def detach(self) -> int:
        """Close this object, but not what it stands for."""
        number, self._fileno = self._fileno, -1
        return number

    def close(self) -> None:
        if self._fileno == -1:
            return
        self._fileno = -1
        self._network.unregister(self)
        self._accept = None
        if self._bound_to is not None:
            self.host.release(self, *self._bound_to)
        if self.end is not None:
            self.end.close()

    accept = _fenced("accept")
    connect = _fenced("connect")
    connect_ex = _fenced("connect_ex")
    dup = _fenced("dup")
    makefile = _fenced("makefile")
    recv = _fenced("recv")
    recv_into = _fenced("recv_into")
    recvfrom = _fenced("recvfrom")
    recvfrom_into = _fenced("recvfrom_into")
    recvmsg = _fenced("recvmsg")
    recvmsg_into = _fenced("recvmsg_into")
    send = _fenced("send")
    sendall = _fenced("sendall")
    sendfile = _fenced("sendfile")
    sendmsg = _fenced("sendmsg")
    sendto = _fenced("sendto")

    # What the network does with it.

    def bind_for(self, target: str) -> tuple[str, int]:
        """The local address to connect from, taken now if the program has not chosen one."""
        if self._bound_to is None:
            self.bind((LOOPBACK if is_loopback(target) else self.host.address, 0))
        assert self._bound_to is not None
        address, port = self._bound_to
        if address == WILDCARD:
            address = LOOPBACK if is_loopback(target) else self.host.address
        return address, port

    def serve(self, accept: "Callable[[SimSocket, TcpEnd], None]", context: Context) -> None:
        """Let connections get through from now on, each with a socket of its own and a copy of this context."""
        self._accept = accept
        self._accept_context = context

    @property
    def is_serving(self) -> bool:
        return self._accept is not None

    def context_for_connection(self) -> Context:
        assert self._accept_context is not None
        return self._accept_context.copy()

    def establish(self, end: TcpEnd) -> None:
        """A connection to this address has become known here."""
        if self._accept is None:
            end.refuse()
            return
        accepted = SimSocket(self.family, self.type, self.proto)
        accepted.host = self.host
        accepted.end = end
        try:
            self._accept(accepted, end)
        except Exception:
            accepted.close()
            raise

    @property
    def is_readable(self) -> bool:
        end = self.end
        return end is not None and (bool(end.unread) or end.fin_received or end.is_gone)

    def _check_open(self) -> None:
        if self._fileno == -1:
            raise os_error(errno.EBADF)


class SimPoll:
    """`select.poll()` over simulated sockets. Answers at once; there is nothing to wait on but the loop."""

    def __init__(self) -> None:
        self._network = running_network()
        self._wanted: dict[int, int] = {}

    def register(self, fd: "int | SimSocket", eventmask: int = select.POLLIN | select.POLLPRI | select.POLLOUT) -> None:
        self._wanted[_fileno(fd)] = eventmask

    def modify(self, fd: "int | SimSocket", eventmask: int) -> None:
        if _fileno(fd) not in self._wanted:
            raise os_error(errno.ENOENT)
        self._wanted[_fileno(fd)] = eventmask

    def unregister(self, fd: "int | SimSocket") -> None:
        del self._wanted[_fileno(fd)]

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        found = [(fd, self._events(fd) & (wanted | select.POLLNVAL)) for fd, wanted in self._wanted.items()]
        ready = [(fd, events) for fd, events in found if events]
        if not ready and timeout != 0:
            raise Unsimulated("select.poll would wait outside the simulated loop: poll with timeout 0, or use the loop")
        return ready

    def _events(self, fd: int) -> int:
        sock = self._network.socket(fd)
        if sock is None:
            return select.POLLNVAL
        if sock.end is None:
            return 0
        return select.POLLOUT | (select.POLLIN if sock.is_readable else 0)


def _fileno(fd: "int | SimSocket") -> int:
    return fd if isinstance(fd, int) else fd.fileno()

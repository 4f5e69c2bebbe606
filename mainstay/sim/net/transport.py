"""asyncio's transport over a simulated connection.

Does what asyncio documents and, where that is silent, what the selector loop does: when the protocol is called, in
which order, what a write after the end does. Programs depend on it without knowing. So a failure of the connection is
noticed by reading or by writing: a protocol that has paused reading, and writes nothing, hears of a reset when it goes
on.

The end of the connection (wire.py) holds what is on the way or unread, at most a window full. What does not fit waits
here, and its size is what the write buffer limits are about.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from mainstay.sim.net.wire import TcpEnd

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop
    from mainstay.sim.net.servers import SimServer
    from mainstay.sim.net.sockets import SimSocket

READ_BYTES_MAX: Final = 256 * 1024  # As the selector loop reads.
HIGH_WATER_BYTES: Final = 64 * 1024
IGNORED_WRITES_BEFORE_WARNING: Final = 5

_log = logging.getLogger("asyncio")  # Programs look for asyncio's warnings under asyncio's name.


class SimTransport(asyncio.Transport):
    """One end of a connection as a program sees it."""

    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_buffered_protocol",
        "_end",
        "_eof_received",
        "_eof_written",
        "_high_water",
        "_ignored_writes",
        "_is_closing",
        "_is_ending",
        "_is_paused",
        "_is_reading",
        "_loop",
        "_low_water",
        "_protocol",
        "_protocol_is_paused",
        "_read_is_due",
        "_server",
        "_sock",
    )

    def __init__(
        self,
        loop: "SimLoop",
        sock: "SimSocket",
        end: TcpEnd,
        protocol: asyncio.BaseProtocol,
        *,
        server: "SimServer | None" = None,
        waiter: asyncio.Future[None] | None = None,
    ) -> None:
        super().__init__({"socket": sock, "sockname": sock.getsockname(), "peername": sock.getpeername()})
        self._loop = loop
        self._sock = sock
        self._end = end
        self._server = server
        self.set_protocol(protocol)

        self._is_closing = False
        self._is_ending = False  # The call of connection_lost is under way, or was made.
        self._is_paused = False
        self._is_reading = False  # Data goes to the protocol as it comes. Not before connection_made.
        self._read_is_due = False
        self._eof_received = False

        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._eof_written = False
        self._ignored_writes = 0
        self._protocol_is_paused = False
        self._high_water = HIGH_WATER_BYTES
        self._low_water = HIGH_WATER_BYTES // 4

        end.reader = self
        # One callback for what must happen in this order, whatever the loop does with the order of callbacks.
        loop.call_soon(self._start, waiter, context=end.context)

    def __repr__(self) -> str:
        return f"<SimTransport {self._end.label}{' closing' if self._is_closing else ''}>"

    def __hash__(self) -> int:
        return self._end.serial  # Not the address in memory, so that no order can ever depend on it.

    def _start(self, waiter: asyncio.Future[None] | None) -> None:
        if self._protocol is None:
            return
        try:
            self._protocol.connection_made(self)
        except Exception as error:  # noqa: BLE001  # To asyncio this is a failed callback: the connection goes on.
            self._report("protocol.connection_made() failed", error)
        self._read_on()
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol: asyncio.BaseProtocol | None = protocol
        self._buffered_protocol = protocol if isinstance(protocol, asyncio.BufferedProtocol) else None

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[return-value]  # None after connection_lost, as in asyncio.

    # Reading.

    def is_reading(self) -> bool:
        return not self._is_closing and not self._is_paused

    def pause_reading(self) -> None:
        if self.is_reading():
            self._is_paused = True
            self._is_reading = False

    def resume_reading(self) -> None:
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            if not self._read_is_due:
                self._read_is_due = True
                self._loop.call_soon(self._read_on, context=self._end.context)

    def data_arrived(self, data: bytes) -> bool:
        if not self._is_reading or self._buffered_protocol is not None:
            return False
        try:
            self._protocol.data_received(data)  # type: ignore[union-attr]
        except Exception as error:  # noqa: BLE001  # Whatever it was, this connection cannot go on.
            self._break_off("Fatal error: protocol.data_received() call failed.", error)
        return True

    def readable(self) -> None:
        end = self._end
        while self._is_reading and end.unread:
            if self._buffered_protocol is None:
                self.data_arrived(end.read(READ_BYTES_MAX))
            else:
                self._read_into(self._buffered_protocol)
        if end.error is not None:
            if self._is_reading or self._backlog:
                self._force_close(end.error)
        elif self._is_reading and end.fin_received:
            self._end_reading()

    def _read_on(self) -> None:
        self._read_is_due = False
        self._is_reading = self.is_reading() and not self._eof_received
        self.readable()

    def _read_into(self, protocol: asyncio.BufferedProtocol) -> None:
        try:
            buffer = memoryview(protocol.get_buffer(-1)).cast("B")
            if not buffer:
                raise RuntimeError("get_buffer() returned an empty buffer")
            data = self._end.read(min(len(buffer), READ_BYTES_MAX))
            buffer[: len(data)] = data
            protocol.buffer_updated(len(data))
        except Exception as error:  # noqa: BLE001
            self._break_off("Fatal error: protocol.buffer_updated() call failed.", error)

    def _end_reading(self) -> None:
        self._eof_received = True
        self._is_reading = False
        try:
            keep_open = self._protocol.eof_received()  # type: ignore[union-attr]
        except Exception as error:  # noqa: BLE001
            self._break_off("Fatal error: protocol.eof_received() call failed.", error)
            return
        if not keep_open:
            self.close()

    # Writing.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._eof_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data:
            return
        if self._is_closing:
            if self._ignored_writes >= IGNORED_WRITES_BEFORE_WARNING:
                _log.warning("socket.send() raised exception.")
            self._ignored_writes += 1
            return

        data = bytes(data)  # A copy only of what the caller could still change.
        if self._backlog:
            taken = 0
        else:
            taken = self._end.send(data)
            if taken == len(data):
                return
            if self._end.error is not None:
                self._force_close(self._end.error)
                return
            self._end.want_room()
        self._backlog.append(memoryview(data)[taken:])
        self._backlog_bytes += len(data) - taken
        self._maybe_pause_protocol()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for data in list_of_data:
            self.write(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._is_closing or self._eof_written:
            return
        self._eof_written = True
        if not self._backlog:
            self._end.send_fin()

    def window_opened(self) -> None:
        backlog = self._backlog
        while backlog:
            chunk = backlog[0]
            taken = self._end.send(chunk)
            self._backlog_bytes -= taken
            if taken < len(chunk):
                backlog[0] = chunk[taken:]
                self._end.want_room()
                break
            backlog.popleft()
        self._maybe_resume_protocol()  # May write more.
        if not backlog:
            if self._is_closing:
                self._end_soon(None)
            elif self._eof_written:
                self._end.send_fin()

    def get_write_buffer_size(self) -> int:
        return self._backlog_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water, self._high_water

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_water = high
        self._low_water = low
        self._maybe_pause_protocol()

    def _maybe_pause_protocol(self) -> None:
        if self._backlog_bytes > self._high_water and not self._protocol_is_paused:
            self._protocol_is_paused = True
            self._tell("pause_writing")

    def _maybe_resume_protocol(self) -> None:
        if self._protocol_is_paused and self._backlog_bytes <= self._low_water:
            self._protocol_is_paused = False
            self._tell("resume_writing")

    def _tell(self, method: str) -> None:
        try:
            getattr(self._protocol, method)()
        except Exception as error:  # noqa: BLE001
            self._report(f"protocol.{method}() failed", error)

    # Ending.

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._is_reading = False
        if not self._backlog:
            self._end_soon(None)

    def abort(self) -> None:
        self._force_close(None)

    def power_lost(self) -> None:
        self._is_closing = self._is_ending = True
        self._is_reading = False
        self._drop_backlog()
        self._protocol = self._buffered_protocol = None

    def _break_off(self, message: str, error: Exception) -> None:
        if not isinstance(error, OSError):
            self._report(message, error)
        self._force_close(error)

    def _force_close(self, error: Exception | None) -> None:
        if self._is_ending:
            return
        self._is_closing = True
        self._is_reading = False
        self._drop_backlog()
        self._end_soon(error)

    def _end_soon(self, error: Exception | None) -> None:
        self._is_ending = True
        self._loop.call_soon(self._lose_connection, error, context=self._end.context)

    def _lose_connection(self, error: Exception | None) -> None:
        if self._protocol is None:
            return  # The power went first.
        try:
            self._protocol.connection_lost(error)
        finally:
            self._sock.close()
            self._protocol = self._buffered_protocol = None
            if self._server is not None:
                self._server.detach(self)

    def _drop_backlog(self) -> None:
        self._backlog.clear()
        self._backlog_bytes = 0

    def _report(self, message: str, error: Exception) -> None:
        context: dict[str, Any] = {
            "message": message,
            "exception": error,
            "transport": self,
            "protocol": self._protocol,
        }
        self._loop.call_exception_handler(context)

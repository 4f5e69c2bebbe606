"""A TCP connection below asyncio: what the two kernels do with it.

An `TcpEnd` is one end of a connection: what it has sent, and what it has received and the program has not read yet.
Segments of one direction arrive in the order they were sent, whatever the delays drawn. What is written at one instant
is one segment, as one reading of a real socket would find it. At most `WINDOW_BYTES` are on their way or unread; what
goes beyond waits in the writer's transport (transport.py).

Nothing is lost while both ends live, because TCP repeats it: a segment that would arrive while the link is cut stays at
the head of its queue and is tried again, once the link is whole, at the moments at which Linux would. The same goes for
acknowledgements, which are modelled only when they do *not* come back. Who waits too long gives up with `ETIMEDOUT`.

Not modelled: bandwidth, congestion, keep-alive probes, Nagle's algorithm, TIME_WAIT, and the size of segments.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from contextvars import Context
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Protocol

from mainstay.sim.net.hosts import os_error
from mainstay.sim.net.links import NetworkLink

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

WINDOW_BYTES: Final = 256 * 1024

# When Linux repeats an unacknowledged segment: after 200 ms, then doubling up to two minutes, 15 times (tcp_retries2).
_WAITS_NS: Final = [min(200_000_000 << n, 120_000_000_000) for n in range(16)]
REPEATED_AFTER_NS: Final = tuple(accumulate(_WAITS_NS[:-1]))
GIVEN_UP_AFTER_NS: Final = sum(_WAITS_NS)  # A little over 15 minutes.


class Mark:
    """Something other than data in what an end sends."""

    __slots__ = ()


ESTABLISHED: Final = Mark()  # The last step of the handshake, upon which the listener accepts.
FIN: Final = Mark()  # There is no more to come.


class TcpReader(Protocol):
    """What an end asks of the transport on top of it."""

    def data_arrived(self, data: bytes) -> bool:
        """Take this data at once, or answer false to have it kept as unread."""

    def readable(self) -> None:
        """There is unread data, or the stream has ended, or it has failed. Look which."""

    def window_opened(self) -> None:
        """There is room to send again."""

    def power_lost(self) -> None:
        """Fall silent at once and for good."""


class TcpEnd:
    """One end of a connection. Both are made by `connect`."""

    __slots__ = (
        "_accept",
        "_fin_sent",
        "_give_up_timer",
        "_in_flight",
        "_last_arrival_ns",
        "_loop",
        "_outstanding",
        "_overdue",
        "_repeat_timer",
        "_sent_at_ns",
        "_stalled_at_ns",
        "_update_is_due",
        "_wants_room",
        "address",
        "back",
        "context",
        "error",
        "fin_received",
        "is_closed",
        "is_gone",
        "is_lost",
        "label",
        "out",
        "peer",
        "reader",
        "serial",
        "unread",
    )

    peer: "TcpEnd"

    def __init__(
        self,
        loop: "SimLoop",
        serial: int,
        label: str,
        out: NetworkLink,
        back: NetworkLink,
        address: tuple[str, int],
        context: Context,
    ) -> None:
        self._loop = loop
        self.serial = serial
        self.label = label
        self.out = out
        self.back = back
        self.address = address
        self.context = context  # In which everything is called that is called for this end, so that it is on its host.
        self.reader: TcpReader | None = None
        self._accept: Callable[[TcpEnd], None] | None = None

        self.unread: deque[bytes | memoryview] = deque()
        self.fin_received = False
        self.error: OSError | None = None
        self.is_closed = False  # By its own program. It may still have something in flight.
        self.is_gone = False  # This kernel knows nothing of the connection any more.
        self.is_lost = False  # Something on the way has forgotten the connection: what is sent never arrives.

        self._in_flight: deque[list[bytes] | Mark] = deque()
        self._sent_at_ns = -1
        self._last_arrival_ns = 0
        self._outstanding = 0  # Bytes sent that the other program has not read: never more than the window.
        self._fin_sent = False
        self._wants_room = False
        self._update_is_due = False

        self._stalled_at_ns: int | None = None  # Since when an acknowledgement is missing.
        self._overdue = 0  # How many at the head of `_in_flight` should have arrived by now.
        self._give_up_timer: asyncio.TimerHandle | None = None
        self._repeat_timer: asyncio.TimerHandle | None = None
        out.ends[self] = None

    def __hash__(self) -> int:
        return self.serial  # Not the address in memory, so that no order can ever depend on it.

    # Sending.

    def send(self, data: bytes | memoryview) -> int:
        """Send as much as the window has room for, and say how many bytes that was. 0 if the connection is gone."""
        size = len(data)
        room = WINDOW_BYTES - self._outstanding
        if size > room:
            data, size = data[:room], room
        if size == 0 or self.is_gone:
            return 0
        now = self._loop.time_ns()
        in_flight = self._in_flight
        if now == self._sent_at_ns and in_flight and isinstance(last := in_flight[-1], list):
            last.append(bytes(data))
        else:
            self._sent_at_ns = now
            self._launch([bytes(data)], now)
        self._outstanding += size
        return size

    def send_fin(self) -> None:
        """End the stream after what was sent."""
        if not self._fin_sent and not self.is_gone:
            self._fin_sent = True
            self._launch(FIN, self._loop.time_ns())

    def want_room(self) -> None:
        """Have the reader told when the window opens."""
        self._wants_room = True
        if self.is_lost or not (self.out.is_open and self.back.is_open):
            self._stall()

    def _launch(self, segment: list[bytes] | Mark, now: int) -> None:
        self._in_flight.append(segment)
        # A later segment may draw a shorter delay, but it cannot overtake.
        self._last_arrival_ns = when = max(now + self.out.delay_ns(), self._last_arrival_ns)
        self._loop.call_at_ns(when, self._arrive, context=self.peer.context)

    def _arrive(self) -> None:
        if self._overdue:
            self._overdue += 1  # Behind one that is stuck.
        elif not self._in_flight:
            pass  # The connection broke while this was on its way.
        elif self.is_lost or not self.out.is_open:
            self._overdue = 1
            self._stall()
        else:
            self.peer._receive(self._in_flight.popleft())
            if not self.back.is_open:
                self._stall()

    # Receiving.

    def read(self, size_max: int) -> bytes:
        """Take unread data, at most this much. Empty if there is none now."""
        taken = []
        size = 0
        while self.unread and size < size_max:
            chunk = self.unread.popleft()
            if size + len(chunk) > size_max:
                # Views, so that many small readings of one large segment do not copy its rest each time.
                view = memoryview(chunk)
                chunk, rest = view[: size_max - size], view[size_max - size :]
                self.unread.appendleft(rest)
            taken.append(chunk)
            size += len(chunk)
        self._was_read(size)
        return bytes(taken[0]) if len(taken) == 1 else b"".join(taken)

    def _receive(self, segment: list[bytes] | Mark) -> None:
        reader = self.reader
        if self.is_gone or (self.is_closed and segment is not FIN):
            # No program will ever read it, and the sender must not believe otherwise.
            self.refuse()
        elif isinstance(segment, list):
            data = segment[0] if len(segment) == 1 else b"".join(segment)
            self._loop.trace.note("net.data", self.peer.label, len(data))
            if reader is None:
                self.unread.append(data)
            elif not self.unread and reader.data_arrived(data):
                self._was_read(len(data))
            else:
                self.unread.append(data)
                reader.readable()
        elif segment is FIN:
            self._loop.trace.note("net.fin", self.peer.label)
            self.fin_received = True
            if self.peer.is_closed:
                self.peer._finish()
            if reader is not None:
                reader.readable()
        elif self._accept is not None:
            self._loop.trace.note("net.accepted", self.peer.label)
            accept, self._accept = self._accept, None
            accept(self)

    def _was_read(self, size: int) -> None:
        peer = self.peer
        peer._outstanding -= size
        if peer._wants_room and not peer._update_is_due and size:
            peer._update_is_due = True
            when = self._loop.time_ns() + self.out.transit_ns_min
            self._loop.call_at_ns(when, peer._window_update, context=peer.context)

    def _window_update(self) -> None:
        self._update_is_due = False
        if self.reader is not None and self._wants_room and self.back.is_open and not self.is_lost:
            self._wants_room = False
            self.reader.window_opened()

    # Ending.

    def close(self) -> None:
        """The program has closed its socket. What was sent still arrives; what comes in from now on is refused."""
        if self.is_closed:
            return
        self.is_closed = True
        self.reader = None
        if self.is_gone:
            return
        if self.unread:
            self.refuse()
            return
        self.send_fin()
        if not self._in_flight:
            self._finish()

    def refuse(self) -> None:
        """Break the connection off from this side, as a kernel does for a program that is not there."""
        self.is_closed = True
        self._forget()
        self._send_reset()

    def fail(self, error: OSError) -> None:
        """The connection is no more, and this is what its program gets to see."""
        if self.is_gone:
            return
        self._loop.trace.note("net.failed", self.label, errno.errorcode.get(error.errno or 0, ""))
        self._in_flight.clear()
        self._forget()
        self.error = error
        if self.reader is not None:
            self.reader.readable()

    def lose_power(self) -> None:
        """The host of this end is off. Its program is not told anything, ever."""
        self._in_flight.clear()
        self.unread.clear()
        self._forget()
        self.is_closed = True
        if self.reader is not None:
            self.reader.power_lost()
            self.reader = None

    def break_off(self) -> None:
        """The program of this end is no more, and is not told anything. Its kernel tells the peer."""
        was_gone = self.is_gone
        self.lose_power()
        if not was_gone:
            self._send_reset()

    def _send_reset(self) -> None:
        when = max(self._loop.time_ns() + self.out.delay_ns(), self._last_arrival_ns)
        self._loop.call_at_ns(when, self._reset_arrives, context=self.peer.context)

    def _reset_arrives(self) -> None:
        # A reset is not repeated; but if it gets lost, the peer's next try is answered by another one.
        if self.out.is_open and not self.is_lost:
            self.peer.fail(os_error(errno.ECONNRESET))

    def _forget(self) -> None:
        self.is_gone = True
        self._finish()

    def _finish(self) -> None:
        self._resume()
        self.out.ends.pop(self, None)

    # Waiting for a link to heal.

    def lose_way(self) -> None:
        """Nothing that either end sends arrives any more, whatever becomes of the links."""
        self.is_lost = self.peer.is_lost = True
        if self._wants_room and not self.is_gone:
            self._stall()

    def link_changed(self) -> None:
        """One of the two links was cut or healed."""
        if self._stalled_at_ns is not None:
            if self.out.is_open:
                self._repeat_later(self._stalled_at_ns)
        elif self._wants_room and not self.is_gone:
            self._stall()  # From now on it is the probing of a full window that gets no answer.

    def _stall(self) -> None:
        if self._stalled_at_ns is None and self in self.out.ends:
            self._stalled_at_ns = now = self._loop.time_ns()
            self._loop.trace.note("net.stalled", self.label)
            self._give_up_timer = self._loop.call_at_ns(now + GIVEN_UP_AFTER_NS, self._give_up, context=self.context)

    def _resume(self) -> None:
        self._stalled_at_ns = None
        for timer in (self._give_up_timer, self._repeat_timer):
            if timer is not None:
                timer.cancel()
        self._give_up_timer = self._repeat_timer = None

    def _give_up(self) -> None:
        self.fail(os_error(errno.ETIMEDOUT))

    def _repeat_later(self, stalled_at: int) -> None:
        if self._repeat_timer is not None:
            self._repeat_timer.cancel()
        waited = self._loop.time_ns() - stalled_at
        # After the last repetition there is only giving up.
        after = next((at for at in REPEATED_AFTER_NS if at >= waited), None)
        if after is not None:
            self._repeat_timer = self._loop.call_at_ns(
                stalled_at + after + self.out.transit_ns_min, self._repeat_arrives, context=self.peer.context
            )

    def _repeat_arrives(self) -> None:
        self._repeat_timer = None
        if self.is_lost or not self.out.is_open:
            return  # Cut again meanwhile. The next healing starts another try.
        overdue, self._overdue = self._overdue, 0
        for _ in range(overdue):
            if self._in_flight:
                self.peer._receive(self._in_flight.popleft())
        if self.peer.is_gone and not self.is_gone:
            self.peer._send_reset()
        if self.back.is_open:
            self._resume()
            when = self._loop.time_ns() + self.back.transit_ns_min
            self._loop.call_at_ns(when, self._window_update, context=self.context)


def connect(
    loop: "SimLoop",
    ordinal: int,
    links: tuple[NetworkLink, NetworkLink],
    addresses: tuple[tuple[str, int], tuple[str, int]],
    contexts: tuple[Context, Context],
    *,
    accept: Callable[[TcpEnd], None],
) -> TcpEnd:
    """The connecting end of a new connection. The other end is accepted as soon as it hears that this one is there."""
    out, back = links
    client = TcpEnd(loop, 2 * ordinal, f"{out}#{ordinal}c", out, back, addresses[0], contexts[0])
    server = TcpEnd(loop, 2 * ordinal + 1, f"{back}#{ordinal}s", back, out, addresses[1], contexts[1])
    client.peer, server.peer = server, client
    server._accept = accept
    client._launch(ESTABLISHED, loop.time_ns())
    return client

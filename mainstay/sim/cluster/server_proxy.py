"""The door of a simulated API server: whatever goes in or out is noted there, and may be lost there.

The gate is the handler that the HTTP layer is given, around the server's own. It knows who asks by their token, writes
the history, and asks the faults what becomes of a request: whether it gets in, whether its answer gets out, whether the
one who asks is alive to hear it. The server itself knows nothing of all this, and the client sees what it would see of
a bad network: a connection that breaks off, or silence.

A watch goes through a tap, which can hold back what it delivers, let it through slowly, or cut it off.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import msgspec

from mainstay.api import headers
from mainstay.api.errors import StatusError
from mainstay.http.messages import (
    Answer,
    Handler,
    LongResponse,
    Request,
    Response,
    StreamResponse,
    TunnelResponse,
    UpgradeResponse,
)
from mainstay.server.auth.authorization import User
from mainstay.server.request.served_kinds import Registry
from mainstay.server.request.target import NoSuchPath, Options, RequestTarget, Verb, parse_target
from mainstay.server.storage.keyspace import build_prefix
from mainstay.server.watch.session import Outgoing
from mainstay.sim.active_faults import ActiveFaults, Release
from mainstay.sim.cluster.history import History, RequestReceived, ResponseSent, WatchDelivered, WatchEnded, WatchOpened
from mainstay.sim.cluster.store_proxy import REQUEST_CONTEXT, STALE_READER, RequestContext, StaleReader
from mainstay.sim.cluster.watch_lines import decode_line, decode_object

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

TOKEN: Final = "sim-"  # How the token of a program begins; its name follows.
HELD_BYTES_MAX: Final = 16 * 1024 * 1024  # Of one watch. Then its client is cut off, as a slow one would be.

REPEATED_MAX: Final = 5  # Changes that a watch can be made to tell again.

BOOKMARK: Final = "BOOKMARK"


class LostPart(Enum):
    """What does not get through."""

    REQUEST = auto()
    """The server never gets it."""
    ANSWER = auto()
    """The server has done it, and its response is lost."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a request."""

    lost: LostPart
    is_silent: bool = False
    """The connection does not break off: nothing happens at all."""
    crash: Callable[[], None] | None = None
    """What happens to the client, at the moment of the loss."""


class FaultInjector(Protocol):
    """Who decides what goes wrong at the gates."""

    def choose_refusal(self, asked: RequestReceived) -> StatusError | None:
        """What a request is turned away with before anything is done about it. None: it is let in."""

    def choose_fate(self, asked: RequestReceived) -> Fate | None:
        """What becomes of a write. None: what should."""

    def delivering(self, tap: "WatchProxy") -> None:
        """A change, not a mere bookmark, is about to be delivered. The tap may be closed or cut now."""

    def opened(self, tap: "WatchProxy") -> None:
        """A watch begins. The tap may be closed, or slowed down, from the start."""

    def told(self, tap: "WatchProxy") -> None:
        """A watch has told a whole state."""

    def has_been_told(self, tap: "WatchProxy") -> bool:
        """Whether this program, since it was started, has been told a whole state of what this watch is about."""


class ServerProxy:
    """Around the handler of one incarnation of one server. `answer` is what the HTTP layer is given."""

    def __init__(
        self,
        server: str,
        handler: Handler,
        registry: Registry,
        users: Mapping[str, User],
        history: History,
        interference: FaultInjector,
        loop: "SimLoop",
    ) -> None:
        """`users` are those of the programs, by their tokens."""
        self.server = server
        self.taps: dict[int, WatchProxy] = {}
        """The watches that are open, by the number of their request."""
        self.history = history
        self.interference = interference
        self.loop = loop
        self._handler = handler
        self._registry = registry
        self._users = users

    def find_taps(self, who: str) -> list["WatchProxy"]:
        return [tap for tap in self.taps.values() if tap.who == who]

    async def answer(self, request: Request) -> Answer:
        if request.arriving is not None:  # The history, and those who choose faults, know the whole of each request.
            await request.arriving.read()
            request.arriving = None
        asked = self._asked(request)
        self.history.add(asked)
        REQUEST_CONTEXT.set(
            RequestContext(asked.request, asked.who)
        )  # Each request has a task of its own, and with it a context.
        refusal = self.interference.choose_refusal(asked)
        if refusal is not None:
            self._note(asked, refusal.code)
            raise refusal
        if asked.method == "GET" and "resourceVersion=0&" in f"{request.query}&":
            STALE_READER.set(StaleReader(0))  # Any state will do.
        fate = self.interference.choose_fate(asked) if asked.is_write else None
        if fate is not None:
            await self._meet(fate, asked, request)
        return await self._carry_out(asked, request)

    async def _carry_out(self, asked: RequestReceived, request: Request, *, is_delivered: bool = True) -> Answer:
        try:
            coming = self._handler(request)
            answer = await coming if isinstance(coming, Awaitable) else coming
        except StatusError as error:
            self._note(asked, error.code, body=error.message.encode(), is_delivered=is_delivered)
            raise
        match answer:
            case Response():
                revision = _parse_revision(answer.body) if asked.is_write and answer.status < 300 else 0
                self._note(asked, answer.status, revision, answer.body, is_delivered=is_delivered)
            case StreamResponse():
                self._note(asked, answer.status)
                self._tap(asked, request, answer)
            case LongResponse():
                self._note(asked, answer.status)
            case UpgradeResponse() | TunnelResponse():
                self._note(asked, 101)
        return answer

    async def _meet(self, fate: Fate, asked: RequestReceived, request: Request) -> NoReturn:
        if fate.lost is LostPart.ANSWER:
            with suppress(StatusError):  # An answer as well as any.
                await self._carry_out(asked, request, is_delivered=False)
        if fate.crash is not None:
            fate.crash()
        if fate.is_silent or fate.crash is not None:
            await self.loop.create_future()  # Until the client is gone, or has had enough.
        await _break_off()

    def _asked(self, request: Request) -> RequestReceived:
        header = request.headers.get
        token = (header("authorization") or "").removeprefix("Bearer ")
        user = self._users.get(token)
        return RequestReceived(
            at_ns=self.loop.time_ns(),
            request=self.history.next_request(),
            who=token.removeprefix(TOKEN) if token.startswith(TOKEN) else "",
            server=self.server,
            method=request.method,
            path=request.target,
            decision=header(headers.DECISION) or "",
            cause=header(headers.CAUSE) or "",
            term=header(headers.TERM) or "",
            operation=header(headers.OPERATION) or "",
            body=request.body,
            user="" if user is None else user.name,
        )

    def _note(
        self, asked: RequestReceived, status: int, revision: int = 0, body: bytes = b"", *, is_delivered: bool = True
    ) -> None:
        now_ns = self.loop.time_ns()
        self.history.add(
            ResponseSent(now_ns, asked.request, asked.who, self.server, status, revision, body, is_delivered)
        )

    def _tap(self, asked: RequestReceived, request: Request, answer: StreamResponse) -> None:
        options = Options(request.query)
        try:
            target = parse_target(request.method, request.path, options, self._registry)
        except NoSuchPath:
            return
        if target.verb is not Verb.WATCH:
            return  # A log.
        run = answer.run

        async def tapped(stream: Outgoing) -> None:
            tap = self.taps[asked.request] = WatchProxy(self, asked, target, stream)
            opened = _opened(self.loop.time_ns(), asked, target, options)
            self.history.add(opened)
            STALE_READER.set(StaleReader(opened.after, is_newcomer=not self.interference.has_been_told(tap)))
            self.interference.opened(tap)
            try:
                await run(tap)  # type: ignore[arg-type]  # A watch needs of a stream what a tap has.
            finally:
                del self.taps[asked.request]
                self.history.add(WatchEnded(self.loop.time_ns(), asked.request, asked.who))

        answer.run = tapped


@dataclass(frozen=True, slots=True)
class _Pace:
    """How slowly a client reads."""

    every_ns: int
    """One piece in so much time."""
    room_bytes: int
    """What may be kept back for it."""


class WatchProxy:
    """What a watch is sent goes through here. Implements `Outgoing` (server/watch/session.py)."""

    def __init__(self, gate: ServerProxy, asked: RequestReceived, target: RequestTarget, stream: Outgoing) -> None:
        self.who = asked.who
        self.server = asked.server
        self.watch = asked.request
        self._gate = gate
        self._stream = stream
        self.prefix = build_prefix(target.kind)
        """Of the keys that it is about."""
        self._task = asyncio.current_task()
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._holds = 0
        """How many want it closed."""
        self._paces: ActiveFaults[_Pace] = ActiveFaults(self._paces_changed)
        """None if its client does not read slowly."""
        self._reading: asyncio.TimerHandle | None = None
        """When a client that reads slowly reads on."""
        self._drained: asyncio.Future[None] | None = None
        """Of a server that waits until such a client has read what there is."""
        self._is_cut = False
        self._stays: ActiveFaults[int] = ActiveFaults(self._stays_changed)
        """Nothing of what came after these revisions is told."""
        self._is_staying = False
        """It would have been told by now, and is kept back."""
        self.coming = b""
        """What it is about to deliver."""
        self._past: deque[bytes] = deque(maxlen=REPEATED_MAX)

    @property
    def is_flowing(self) -> bool:
        return not self._holds and not self._paces and not self._is_cut

    def write(self, data: bytes) -> bool:
        if self._stays and not self._is_staying and (late := _first_after(data, min(self._stays))) is not None:
            has_room = not late or self._write(data[:late])
            self._is_staying = True
            self.hold()
            return self._write(data[late:]) and has_room
        return self._write(data)

    def _write(self, data: bytes) -> bool:
        if self.is_flowing and not data.startswith(b'{"type":"BOOKMARK"'):
            self.coming = data
            self._gate.interference.delivering(self)
        if self._is_cut:
            return True
        if self.is_flowing:
            return self._deliver(data)
        self._held.append(data)
        self._held_bytes += len(data)
        return self._has_room() if self._paces else self._held_bytes <= HELD_BYTES_MAX

    def _has_room(self) -> bool:
        if self._held_bytes <= min(pace.room_bytes for pace in self._paces):
            return True
        self._held.clear()  # What it has not read by now it never gets.
        self.cut()
        return False

    async def turn(self) -> None:
        await self._stream.turn()

    async def drain(self) -> None:
        await self._stream.drain()
        while self._paces and self._held and not self._is_cut:
            # A client that reads slowly keeps the server waiting, as a full connection does.
            self._drained = self._gate.loop.create_future()
            await self._drained

    def end_soon(self) -> None:
        self._stream.end_soon()

    async def wait_closed(self) -> None:
        await self._stream.wait_closed()

    # Faults.

    def hold(self) -> None:
        """Keep everything back from now on, until each `hold` has its `release`."""
        self._holds += 1

    def release(self) -> None:
        """Deliver what was kept back, and what comes from now on."""
        self._holds -= 1
        self._flow()

    def stay_at(self, revision: int) -> Release:
        """Tell nothing of what came after a revision. The first of it must not have been told yet."""
        return self._stays.add(revision)

    def _stays_changed(self) -> None:
        if not self._stays and self._is_staying:
            self._is_staying = False
            self.release()

    def slow_down(self, every: timedelta, room_bytes: int) -> Release:
        """Let the client read one piece in so much time. A client that has more than this to read is disconnected."""
        return self._paces.add(_Pace(every // timedelta(microseconds=1) * 1000, room_bytes))

    def _paces_changed(self) -> None:
        if self._paces:
            if self._reading is None:
                self._read_one()
        else:
            if self._reading is not None:
                self._reading.cancel()
                self._reading = None
            self._flow()
            self._wake()

    def _read_one(self) -> None:
        if self._is_cut:
            return
        if self._held and not self._holds:
            data = self._held.popleft()
            self._held_bytes -= len(data)
            self._deliver(data)
            self._wake()
        loop = self._gate.loop
        after_ns = max(pace.every_ns for pace in self._paces)
        self._reading = loop.call_at_ns(loop.time_ns() + after_ns, self._read_one, context=Context())

    def _flow(self) -> None:
        if self.is_flowing and self._held:
            data = b"".join(self._held)
            self._held.clear()
            self._held_bytes = 0
            if not self._deliver(data):
                self._stream.end_soon()

    def cut(self, *, in_order: bool = False) -> None:
        """End the watch before what would be delivered next: in order, as a server does now and then, or abruptly."""
        self._is_cut = True
        self._wake()
        if in_order:
            self._stream.end_soon()
        elif self._task is not None:
            self._task.cancel()

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def repeat(self, count: int) -> None:
        """Tell again the last changes that were told. Not part of the history: no server of ours does this."""
        if self.is_flowing and self._past:
            self._stream.write(b"".join(list(self._past)[-count:]))

    def _deliver(self, data: bytes) -> bool:
        now_ns = self._gate.loop.time_ns()
        for line in data.splitlines():
            event = decode_line(line)
            metadata = event.object.metadata
            key = ""
            is_end_of_state = False
            if event.type == BOOKMARK:
                is_end_of_state = metadata.annotations is not None
                if is_end_of_state:
                    self._gate.interference.told(self)
            elif event.type != "ERROR":
                self._past.append(line + b"\n")
                key = metadata.key_under(self.prefix)
            revision = int(metadata.resource_version)
            self._gate.history.add(
                WatchDelivered(now_ns, self.watch, self.who, event.type, key, revision, is_end_of_state)
            )
        return self._stream.write(data)


def _opened(now_ns: int, asked: RequestReceived, target: RequestTarget, options: Options) -> WatchOpened:
    version = options.get("resourceVersion") or "0"
    after = int(version) if version.isdigit() else 0
    return WatchOpened(
        at_ns=now_ns,
        watch=asked.request,
        who=asked.who,
        server=asked.server,
        prefix=build_prefix(target.kind, target.namespace),
        after=after,
        wants_state=after == 0 or options.flag("sendInitialEvents"),
        is_selecting=bool(target.name or options.get("labelSelector") or options.get("fieldSelector")),
        has_end_of_state=options.flag("sendInitialEvents"),
    )


def _first_after(data: bytes, revision: int) -> int | None:
    """Where in the lines of a watch the first is that came after a revision."""
    place = 0
    for line in data.splitlines(keepends=True):
        if int(decode_line(line).object.metadata.resource_version) > revision:
            return place
        place += len(line)
    return None


def _parse_revision(body: bytes) -> int:
    try:
        return int(decode_object(body).metadata.resource_version)
    except (msgspec.MsgspecError, ValueError):
        return 0


async def _break_off() -> NoReturn:
    """End the connection of the request that is being answered without an answer."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()  # The HTTP layer then closes the connection: there will be no answer.
    await asyncio.sleep(0)
    raise AssertionError("a cancelled task goes on")

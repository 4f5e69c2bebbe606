"""The door of a simulated API server: whatever goes in or out is noted there, and may be lost there.

The gate is the handler that the HTTP layer is given, around the server's own. It knows who asks by their token, writes
the history, and asks the faults what becomes of a request: whether it gets in, whether its answer gets out, whether the
one who asks is alive to hear it. The server itself knows nothing of all this, and the client sees what it would see of
a bad network: a connection that breaks off, or silence.

A watch goes through a tap, which can hold back what it delivers, or cut it off.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import msgspec

from mainstay.api.errors import ApiError
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
from mainstay.server.keyspace import prefix_of
from mainstay.server.registry import Registry
from mainstay.server.requests import NoSuchPath, Options, Target, Verb, target_of
from mainstay.server.watching import Outgoing
from mainstay.sim.history import Answered, Asked, Delivered, Ended, History, Opened
from mainstay.sim.store_port import REQUEST

if TYPE_CHECKING:
    from mainstay.sim.loop import SimLoop

TOKEN: Final = "sim-"  # How the token of a program begins; its name follows.
HELD_BYTES_MAX: Final = 16 * 1024 * 1024  # Of one watch. Then its client is cut off, as a slow one would be.

REPEATED_MAX: Final = 5  # Changes that a watch can be made to tell again.

BOOKMARK: Final = "BOOKMARK"


class Lost(Enum):
    """What does not get through."""

    REQUEST = auto()
    """The server never gets it."""
    ANSWER = auto()
    """The server has done it, and nobody hears of it."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a request."""

    lost: Lost
    is_silent: bool = False
    """The connection does not break off: nothing happens at all."""
    crash: Callable[[], None] | None = None
    """What happens to whoever asks, at the moment of the loss."""


class Interference(Protocol):
    """Who decides what goes wrong at the gates."""

    def fate_of(self, asked: Asked) -> Fate | None:
        """What becomes of a write. None: what should."""

    def delivering(self, tap: "Tap") -> None:
        """A change, not a mere bookmark, is about to be delivered. The tap may be closed or cut now."""


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = "0"
    namespace: str = ""
    name: str = ""
    annotations: dict[str, str] | None = None


class _Named(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Line(msgspec.Struct, gc=False):
    type: str
    object: _Named


_line_decoder = msgspec.json.Decoder(_Line)
_named_decoder = msgspec.json.Decoder(_Named)


class Gate:
    """Around the handler of one incarnation of one server. `answer` is what the HTTP layer is given."""

    def __init__(
        self,
        server: str,
        handler: Handler,
        registry: Registry,
        history: History,
        interference: Interference,
        loop: "SimLoop",
    ) -> None:
        self.server = server
        self.taps: dict[int, Tap] = {}
        """The watches that are open, by the number of their request."""
        self.history = history
        self.interference = interference
        self.loop = loop
        self._handler = handler
        self._registry = registry

    async def answer(self, request: Request) -> Answer:
        asked = self._asked(request)
        self.history.add(asked)
        REQUEST.set(asked.request)  # Each request has a task of its own, and with it a context.
        fate = self.interference.fate_of(asked) if asked.is_write else None
        if fate is not None:
            await self._meet(fate, asked, request)
        return await self._carry_out(asked, request)

    async def _carry_out(self, asked: Asked, request: Request, *, is_delivered: bool = True) -> Answer:
        try:
            coming = self._handler(request)
            answer = await coming if isinstance(coming, Awaitable) else coming
        except ApiError as error:
            self._note(asked, error.code, is_delivered=is_delivered)
            raise
        match answer:
            case Response():
                revision = _revision_of(answer.body) if asked.is_write and answer.status < 300 else 0
                self._note(asked, answer.status, revision, answer.body, is_delivered=is_delivered)
            case StreamResponse():
                self._note(asked, answer.status)
                self._tap(asked, request, answer)
            case LongResponse():
                self._note(asked, answer.status)
            case UpgradeResponse() | TunnelResponse():
                self._note(asked, 101)
        return answer

    async def _meet(self, fate: Fate, asked: Asked, request: Request) -> NoReturn:
        if fate.lost is Lost.ANSWER:
            with suppress(ApiError):  # An answer as well as any.
                await self._carry_out(asked, request, is_delivered=False)
        if fate.crash is not None:
            fate.crash()
        if fate.is_silent or fate.crash is not None:
            await self.loop.create_future()  # Until the client is gone, or has had enough.
        await _break_off()

    def _asked(self, request: Request) -> Asked:
        header = request.headers.get
        token = (header("authorization") or "").removeprefix("Bearer ")
        return Asked(
            at_ns=self.loop.time_ns(),
            request=self.history.next_request(),
            who=token.removeprefix(TOKEN) if token.startswith(TOKEN) else "",
            server=self.server,
            method=request.method,
            path=request.target,
            decision=header("mainstay-decision") or "",
            cause=header("mainstay-cause") or "",
            term=header("mainstay-term") or "",
            operation=header("mainstay-operation") or "",
            body=request.body,
        )

    def _note(
        self, asked: Asked, status: int, revision: int = 0, body: bytes = b"", *, is_delivered: bool = True
    ) -> None:
        now_ns = self.loop.time_ns()
        self.history.add(Answered(now_ns, asked.request, asked.who, self.server, status, revision, body, is_delivered))

    def _tap(self, asked: Asked, request: Request, answer: StreamResponse) -> None:
        options = Options(request.query)
        try:
            target = target_of(request.method, request.path, options, self._registry)
        except NoSuchPath:
            return
        if target.verb is not Verb.WATCH:
            return  # A log.
        run = answer.run

        async def tapped(stream: Outgoing) -> None:
            tap = self.taps[asked.request] = Tap(self, asked, target, stream)
            self.history.add(_opened(self.loop.time_ns(), asked, target, options))
            try:
                await run(tap)  # type: ignore[arg-type]  # A watch needs of a stream what a tap has.
            finally:
                del self.taps[asked.request]
                self.history.add(Ended(self.loop.time_ns(), asked.request, asked.who))

        answer.run = tapped


class Tap:
    """What a watch is sent goes through here. Implements `Outgoing` (server/watching.py)."""

    def __init__(self, gate: Gate, asked: Asked, target: Target, stream: Outgoing) -> None:
        self.who = asked.who
        self.server = asked.server
        self.watch = asked.request
        self._gate = gate
        self._stream = stream
        self.prefix = prefix_of(target.kind)
        """Of the keys that it is about."""
        self._task = asyncio.current_task()
        self._held: list[bytes] | None = None
        self._held_bytes = 0
        self._is_cut = False
        self._past: deque[bytes] = deque(maxlen=REPEATED_MAX)

    def write(self, data: bytes) -> bool:
        is_flowing = self._held is None and not self._is_cut
        if is_flowing and not data.startswith(b'{"type":"BOOKMARK"'):
            self._gate.interference.delivering(self)
        return self._pass_on(data)

    def _pass_on(self, data: bytes) -> bool:
        if self._is_cut:
            return True
        if self._held is not None:
            self._held.append(data)
            self._held_bytes += len(data)
            return self._held_bytes <= HELD_BYTES_MAX
        return self._deliver(data)

    async def drain(self) -> None:
        await self._stream.drain()

    def end_soon(self) -> None:
        self._stream.end_soon()

    async def wait_closed(self) -> None:
        await self._stream.wait_closed()

    # Faults.

    def hold(self) -> None:
        """Keep everything back from now on."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Deliver what was kept back, and what comes from now on."""
        held, self._held, self._held_bytes = self._held, None, 0
        if held and not self._is_cut and not self._deliver(b"".join(held)):
            self._stream.end_soon()

    def cut(self, *, in_order: bool = False) -> None:
        """End the watch before what would be delivered next: in order, as a server does now and then, or abruptly."""
        self._is_cut = True
        if in_order:
            self._stream.end_soon()
        elif self._task is not None:
            self._task.cancel()

    def repeat(self, count: int) -> None:
        """Tell again the last changes that were told. Not part of the history: no server of ours does this."""
        if self._held is None and not self._is_cut and self._past:
            self._stream.write(b"".join(list(self._past)[-count:]))

    def _deliver(self, data: bytes) -> bool:
        now_ns = self._gate.loop.time_ns()
        for line in data.splitlines():
            event = _line_decoder.decode(line)
            metadata = event.object.metadata
            key = ""
            is_end_of_state = False
            if event.type == BOOKMARK:
                is_end_of_state = metadata.annotations is not None
            elif event.type != "ERROR":
                self._past.append(line + b"\n")
                key = (
                    f"{self.prefix}{metadata.namespace}/{metadata.name}"
                    if metadata.namespace
                    else (self.prefix + metadata.name)
                )
            revision = int(metadata.resource_version)
            self._gate.history.add(Delivered(now_ns, self.watch, self.who, event.type, key, revision, is_end_of_state))
        return self._stream.write(data)


def _opened(now_ns: int, asked: Asked, target: Target, options: Options) -> Opened:
    version = options.get("resourceVersion") or "0"
    after = int(version) if version.isdigit() else 0
    return Opened(
        at_ns=now_ns,
        watch=asked.request,
        who=asked.who,
        server=asked.server,
        prefix=prefix_of(target.kind, target.namespace),
        after=after,
        wants_state=after == 0 or options.flag("sendInitialEvents"),
        is_selecting=bool(target.name or options.get("labelSelector") or options.get("fieldSelector")),
    )


def _revision_of(body: bytes) -> int:
    try:
        return int(_named_decoder.decode(body).metadata.resource_version)
    except (msgspec.MsgspecError, ValueError):
        return 0


async def _break_off() -> NoReturn:
    """End the connection of the request that is being answered without an answer."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()  # The HTTP layer then closes the connection: there will be no answer.
    await asyncio.sleep(0)
    raise AssertionError("a cancelled task goes on")

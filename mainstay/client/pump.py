"""Does what a reflector says: asks for lists and watches, feeds what they bring to a cache, waits.

All decisions are the reflector's (reflector.py); here is what can fail and take time. A stream that brings nothing for
`silence_max` is taken to be dead: a connection can be half open for hours without either end being told. Servers send
bookmarks to prevent that: Kubernetes about every minute, ours every second as long as anything happens in the store.

Changes are handed on in the very step that read them, one by one and in order, so nothing is queued here and a slow
consumer slows the stream itself. The server cuts off those that are too slow; they come back and find out what they
missed."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NoReturn, Protocol, assert_never

import msgspec

from mainstay.api.annotations import INITIAL_EVENTS_END, STORE_EPOCH
from mainstay.api.causes import VERSION_TOO_LARGE
from mainstay.api.kind_name import KindName
from mainstay.client.cache import Cache, MalformedObject
from mainstay.client.entry import Change, ChangeType
from mainstay.client.errors import ApiError, BadRequest, Expired, Forbidden, Invalid, PutBack, Throttled, Unauthorized
from mainstay.client.reflector import (
    ApplyChange,
    Instructions,
    List,
    OpenWatch,
    Outside,
    Reached,
    Reflector,
    ReflectorFault,
    ReflectorPhase,
    ReplaceAll,
    WaitFor,
)
from mainstay.env import Env, tasks
from mainstay.env.invariants import broken

_logger = logging.getLogger(__name__)

SILENCE_MAX: Final = timedelta(seconds=90)
_EVENTS_AT_ONCE: Final = 200  # Then others may run, if the stream has more at hand. Some milliseconds.
_PUT_OFFS: Final = 10  # The end of patience is put off when a tenth of it is over, not at each event.
_NO_TIME: Final = timedelta(0)

_TYPES: Final = {each.value: each for each in ChangeType}


@dataclass(frozen=True, slots=True)
class Collection:
    """Which objects."""

    kind: KindName
    namespace: str = ""
    """Empty: all of them."""
    labels: str = ""
    """Selectors as the API has them."""
    fields: str = ""

    def __str__(self) -> str:
        """How it is named in views and metrics: `pods`, `pods/default`, `pods?labels=app=web`."""
        place = f"{self.kind.text}/{self.namespace}" if self.namespace else self.kind.text
        selectors = [f"labels={self.labels}"] * bool(self.labels) + [f"fields={self.fields}"] * bool(self.fields)
        return f"{place}?{'&'.join(selectors)}" if selectors else place


class PumpPage(Protocol):
    """A part of a list, its items as JSON."""

    @property
    def items(self) -> list[bytes]: ...
    @property
    def revision(self) -> str: ...
    @property
    def continue_(self) -> str: ...


class PumpEvent(Protocol):
    """What a watch delivers: ADDED, MODIFIED, DELETED or BOOKMARK, and an object as JSON."""

    @property
    def type(self) -> str: ...
    @property
    def object(self) -> bytes: ...


class PumpWatch(Protocol):
    """A watch that is open. Raises `ApiError`."""

    async def fetch(self, count_max: int) -> Sequence[PumpEvent]:
        """What has come, at least one. Empty at the end."""


class PumpSource(Protocol):
    """What is needed of a client (client.py). Both raise `ApiError`."""

    async def list_raw(
        self, kind: KindName, namespace: str, *, labels: str, fields: str, limit: int | None, continue_: str
    ) -> PumpPage: ...

    def watch(
        self,
        kind: KindName,
        namespace: str,
        *,
        resource_version: str,
        labels: str,
        fields: str,
        bookmarks: bool,
        initial_events: bool,
        opening: str,
    ) -> AbstractAsyncContextManager[PumpWatch]: ...


class Pump:
    """Follows one collection for as long as it runs."""

    def __init__(
        self,
        source: PumpSource,
        collection: Collection,
        reflector: Reflector,
        cache: Cache,
        env: Env,
        deliver: Callable[[Sequence[Change]], None],
        *,
        silence_max: timedelta = SILENCE_MAX,
    ) -> None:
        self._source = source
        self._collection = collection
        self._reflector = reflector
        self._cache = cache
        self._clock = env.clock
        self._jitter = env.chance.stream("client/backoff", str(collection))
        self._deliver = deliver
        self._silence_max = silence_max
        self._put_off_every_ns = silence_max // timedelta(microseconds=_PUT_OFFS) * 1000
        self.heard_at_ns: int | None = None
        """When a server last said anything, on the monotonic clock."""
        self.last_error = ""
        """Why the last list or watch failed; empty again when one succeeds."""

    async def run(self) -> NoReturn:
        step = self._carry_out(self._reflector.start())
        while True:
            match step:
                case WaitFor():
                    await tasks.sleep(step.delay(self._jitter.random()))
                    step = self._carry_out(self._reflector.waited())
                case List():
                    step = await self._list(step)
                case OpenWatch():
                    step = await self._watch(step)
                case None:
                    raise RuntimeError(f"{self._collection}: there is nothing left to do")
                case _:
                    assert_never(step)

    async def _list(self, asked: List) -> Outside | None:
        where = self._collection
        try:
            page = await self._source.list_raw(
                where.kind,
                where.namespace,
                labels=where.labels,
                fields=where.fields,
                limit=asked.limit,
                continue_=asked.continue_,
            )
            self._heard()
            entries = [self._cache.read_item(item) for item in page.items]
            instructions = self._reflector.page(entries, _revision(page.revision), page.continue_)
            self.last_error = ""
        except (ApiError, MalformedObject) as error:
            instructions = self._failed(error)
        return self._carry_out(instructions)

    async def _watch(self, asked: OpenWatch) -> Outside | None:
        """Follow a stream until it ends, one way or the other."""
        where = self._collection
        opened_ns: int | None = None
        try:
            async with (
                tasks.timeout(self._silence_max) as patience,
                self._source.watch(
                    where.kind,
                    where.namespace,
                    resource_version="" if asked.revision is None else str(asked.revision),
                    labels=where.labels,
                    fields=where.fields,
                    bookmarks=True,
                    initial_events=asked.revision is None,
                    opening=asked.opening,
                ) as stream,
            ):
                self._reflector.opened()
                self.last_error = ""
                opened_ns = last_ns = self._clock.monotonic_ns()
                while events := await stream.fetch(_EVENTS_AT_ONCE):
                    now_ns = self.heard_at_ns = self._clock.monotonic_ns()
                    if now_ns - last_ns >= self._put_off_every_ns and (end := patience.when()) is not None:
                        patience.reschedule(end + (now_ns - last_ns) / 1e9)
                        last_ns = now_ns
                    for event in events:
                        then = self._carry_out(self._take(event))
                        if then is not None:
                            return then
                    self._check_position()
                    if len(events) == _EVENTS_AT_ONCE:
                        await tasks.sleep(_NO_TIME)
            instructions = self._reflector.ended(self._since(opened_ns))
        except TimeoutError:
            self._note(f"no event or bookmark for {self._silence_max}")
            instructions = self._reflector.failed(ReflectorFault.SILENT, lasted=self._since(opened_ns))
        except (ApiError, MalformedObject) as error:
            instructions = self._failed(error, self._since(opened_ns))
        return self._carry_out(instructions)

    def _check_position(self) -> None:
        """What the reflector has taken as applied, the cache has applied: a gap would never be noticed again."""
        if self._reflector.phase is ReflectorPhase.WATCHING and self._reflector.revision != self._cache.revision:
            rule = "a cache is where its watch is"
            raise broken(rule, f"{self._collection}", cache=self._cache.revision, watch=self._reflector.revision)

    def _since(self, opened_ns: int | None) -> timedelta:
        """How long ago that was; no time if it never was."""
        return (
            _NO_TIME if opened_ns is None else timedelta(microseconds=(self._clock.monotonic_ns() - opened_ns) // 1000)
        )

    def _take(self, event: PumpEvent) -> Instructions:
        change = _TYPES.get(event.type)
        if change is not None:
            return self._reflector.event(change, self._cache.read(event.object))
        if event.type != "BOOKMARK":
            raise MalformedObject(f"{self._collection}: an event of type {event.type!r}")
        metadata = _read_bookmark(event.object)
        revision, annotations = _revision(metadata.resource_version), metadata.annotations
        if not annotations:
            return self._reflector.bookmark(revision)
        ends_state = annotations.get(INITIAL_EVENTS_END) == "true"
        return self._reflector.bookmark(revision, ends_state=ends_state, opening=str(annotations.get(STORE_EPOCH, "")))

    def _carry_out(self, instructions: Instructions) -> Outside | None:
        """Do what can be done here and now; return what the outside has to be asked for, if anything."""
        for instruction in instructions:
            if isinstance(
                instruction, ApplyChange
            ):  # Nearly always. A `match` over all of them takes longer than applying.
                self._deliver(self._cache.apply(instruction.entry, is_deleted=instruction.is_deleted))
            elif isinstance(instruction, Reached):
                self._cache.reached(instruction.revision)
            elif isinstance(instruction, ReplaceAll):
                self._replace(instruction)
            else:
                return instruction
        return None

    def _replace(self, state: ReplaceAll) -> None:
        if state.is_rewind:
            held = self._cache.revision
            _logger.warning("%s: the store went back from revision %d to %d", self._collection, held, state.revision)
        is_rewind = state.is_rewind or state.is_doubtful
        self._deliver(self._cache.replace(state.entries, state.revision, is_rewind=is_rewind))

    def _failed(self, error: ApiError | MalformedObject, lasted: timedelta = _NO_TIME) -> Instructions:
        # It goes on until the right is granted: say once what is missing, to those who do not ask for details.
        is_refused = isinstance(error, Forbidden | Unauthorized) and str(error) != self.last_error
        self._note(str(error), logging.WARNING if is_refused else logging.INFO)
        if isinstance(error, MalformedObject):
            return self._reflector.malformed()
        least = error.retry_after if isinstance(error, Throttled) else _NO_TIME
        return self._reflector.failed(classify_error(error), least=least, lasted=lasted)

    def _heard(self) -> None:
        self.heard_at_ns = self._clock.monotonic_ns()

    def _note(self, error: str, level: int = logging.INFO) -> None:
        self.last_error = error
        _logger.log(level, "%s at revision %d: %s", self._collection, self._cache.revision, error)


def classify_error(error: ApiError) -> ReflectorFault:
    """What an error of a list or a watch means for what to do next."""
    match error:
        case PutBack():
            return ReflectorFault.PUT_BACK
        case Expired():
            return ReflectorFault.EXPIRED
        case Invalid() | BadRequest():
            return ReflectorFault.UNSUPPORTED
    if any(cause.reason == VERSION_TOO_LARGE for cause in error.causes):
        return ReflectorFault.BEHIND
    return ReflectorFault.UNAVAILABLE


class _BookmarkMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, Any] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMetadata


_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode


def _read_bookmark(raw: bytes) -> _BookmarkMetadata:
    try:
        return _decode_bookmark(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedObject(f"invalid bookmark: {error}") from None


def _revision(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise MalformedObject(f"invalid resource version {text!r}: not a number")
    return int(text)

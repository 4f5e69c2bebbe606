"""The journal's pages: `/journal/…`, for those who explain what happens here, and those who tell what they decide.

What is asked and answered is in journal/wire.py. To read is for administrators: a page shows what is in all namespaces,
as it was, Secrets without their values. Users with fewer rights read Decision objects instead (reads.py).
To tell is for components and for agents. Both are asked of the authorizers, by path.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from urllib.parse import parse_qsl

from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.headers import PEER
from mainstay.env import tasks
from mainstay.http.messages import Answer, Request, Response
from mainstay.journal import wire
from mainstay.journal.errors import JournalUnreachable
from mainstay.journal.interface import Journal
from mainstay.journal.record import DecisionRecord, Ending, Outcome, RecordedMemory, Subject
from mainstay.server.auth.authorization import Authorizers, agent_in
from mainstay.server.decisions.journal import ServerJournal, unreachable
from mainstay.server.request.context import ApiCall
from mainstay.server.request.router import find_page_access
from mainstay.server.request.target import method_not_allowed

ASKED_AT_ONCE_MAX: Final = 32
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024

_NO_CACHE: Final = ("Cache-Control", "no-cache, private")


class JournalPages:
    """Implements `Route` (request/router.py). `journal` is None if none is kept."""

    def __init__(self, journal: ServerJournal | None, authorizers: Authorizers) -> None:
        self._authorizers = authorizers
        self._journal = journal
        # To make a large page must not hold up the loop.
        self._worker = tasks.Worker("journal pages")
        self._asked = 0

    def close(self) -> None:
        self._worker.close()

    def resolve(self, call: ApiCall) -> Answer | None:
        return None

    def authorize(self, call: ApiCall) -> None:
        self._authorizers.require(call.user, find_page_access(call))

    def handle(self, call: ApiCall) -> Answer | Awaitable[Answer]:
        request = call.request
        if self._journal is None:
            text = (
                "this server keeps no journal: it was started with --no-journal, or with a store that is forgotten"
                " with the process (--store memory)"
            )
            raise StatusError(404, wire.OFF, text, {})
        page = request.path.removeprefix(wire.PATH)
        if request.method == "POST" and page == "decisions":
            return self._collect(self._journal, call)
        if request.method != "GET":
            raise method_not_allowed()
        return self._answered(self._journal, page, request)

    async def _collect(self, journal: ServerJournal, call: ApiCall) -> Answer:
        request, node = call.request, agent_in(call.user)
        try:
            content = wire.plain(request.body, request.headers.get("content-type") or "", BATCH_BYTES_MAX)
        except wire.BadPage as error:
            raise bad_request(f"invalid decision records: {error}") from None
        count = await journal.collector.collect(content, node=node)
        return Response(200, b'{"records":%d}' % count, headers=(_NO_CACHE,))

    async def _answered(self, journal: ServerJournal, page: str, request: Request) -> Answer:
        if self._asked >= ASKED_AT_ONCE_MAX:
            text = f"{self._asked} other requests read the journal; retry later"
            raise StatusError(429, StatusReason.TOO_MANY_REQUESTS, text, retry_after_s=1)
        self._asked += 1
        try:
            query = parse_qsl(request.query, keep_blank_values=True)
            if request.headers.get(PEER) is None:
                make = await self._asked_for(journal.journal, journal.catch_up, page, query)
            else:  # Another server asks each for its own part, and is owed all that has come so far.
                await journal.catch_up()
                make = await self._asked_for(journal.local, journal.catch_up, page, query)
        except wire.BadPage as error:
            raise bad_request(str(error)) from None
        except JournalUnreachable as error:
            raise unreachable(error) from None
        finally:
            self._asked -= 1
        body, content_type = await self._worker.run(_made, make, request.headers.get("accept"))
        return Response(200, body, content_type, (_NO_CACHE,))

    async def _asked_for(
        self, journal: Journal, catch_up: Callable[[], Awaitable[None]], page: str, query: list[tuple[str, str]]
    ) -> Callable[[], bytes]:
        """What makes the page. Raises `BadPage`, `StatusError`, `JournalUnreachable`."""
        match page:
            case "extent":
                await catch_up()
                extent = await journal.extent()
                return lambda: wire.extent_page(extent)
            case "state":
                state = await journal.state(wire.vector_in(_values(query, "at")))
                _require_bounded(each.value for objects in state.kinds.values() for each in objects.values())
                return lambda: wire.state_page(state)
            case "changes":
                changes = await journal.changes(**wire.wanted_in(page, query))
                _require_bounded(each.value for each in changes.records)
                return lambda: wire.changes_page(changes)
            case "decisions":
                decisions = await journal.decisions(**wire.wanted_in(page, query))
                return lambda: wire.decisions_page(decisions)
            case "decision":
                decision = await journal.decision(_one(query, "id"))
                return lambda: wire.decision_page(decision)
            case "writes":
                writes = await journal.writes(**wire.wanted_in(page, query))
                return lambda: wire.writes_page(writes)
            case "memory":
                content = await journal.memory(_named(wire.digest_in(_one(query, "digest"))))
                return lambda: wire.memory_page(content)
            case _:
                raise StatusError(404, StatusReason.NOT_FOUND, f"the journal has no page {page!r}", {})


def _made(make: Callable[[], bytes], accepted: str | None) -> tuple[bytes, str]:
    return wire.compressed(make(), accepted)


def _require_bounded(values: Iterable[bytes | None]) -> None:
    """Raises `StatusError` (413) for an answer that is too large to hold in memory."""
    size = sum(len(value) for value in values if value)
    if size > ANSWER_BYTES_MAX:
        text = f"the answer has {size >> 20} MiB: ask for fewer kinds, an object, or a shorter time"
        raise StatusError(413, StatusReason.REQUEST_ENTITY_TOO_LARGE, text, {})


def _values(query: list[tuple[str, str]], name: str) -> list[str]:
    unknown = [each for each, _ in query if each != name]
    if unknown:
        raise wire.BadPage(f"unknown parameter {unknown[0]!r}")
    return [value for _, value in query]


def _one(query: list[tuple[str, str]], name: str) -> str:
    values = _values(query, name)
    if len(values) != 1:
        raise wire.BadPage(f"{name} must be given exactly once")
    return values[0]


def _named(digest: bytes) -> DecisionRecord:
    """A record whose memory has this digest, to ask a journal for that."""
    return DecisionRecord(
        "", 0, "", "", Subject("", "", ""), Outcome(Ending.DONE), memory=RecordedMemory(1, digest=digest)
    )

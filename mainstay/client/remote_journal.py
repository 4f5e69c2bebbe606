"""A journal behind a server, asked over the network (server/decisions/pages.py).

    journal = RemoteJournal(client)
    await journal.extent()            the server first catches up with its store

Where several servers share a store, each has all of the history, and of the decisions and requests those that came to
itself. Give a client for each of them: their answers are merged, and a server that cannot be reached is named in
`damages`. One client for all of them asks whichever it happens to be connected to.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Forbidden, NotFound, Throttled, Unauthorized, Unavailable
from mainstay.journal import wire
from mainstay.journal.answers import Answered, Changes, Decisions, Extent, StateAnswer, WritesAnswer
from mainstay.journal.errors import JournalUnreachable
from mainstay.journal.record import DecisionRecord
from mainstay.journal.scan import Damage
from mainstay.journal.wire import BadPage, Pairs

T = TypeVar("T")
A = TypeVar("A", bound=Answered)

_HEADERS: Final = {"Accept": f"{wire.COMPRESSED}, {wire.RECORDS}"}
_LIMIT: Final = 1_000  # The default of interface.py.


class RemoteJournal:
    """Implements `Journal` (asking.py). The caller closes the clients."""

    def __init__(self, client: Client, *others: Client) -> None:
        self._clients = (client, *others)

    async def extent(self) -> Extent:
        """Of the server that has got furthest."""
        answers, _ = await self._of_all("extent", [], wire.extent_in)
        return max(answers, key=lambda each: each.reached)

    async def state(self, vector: Mapping[str, int]) -> StateAnswer:
        return await self._of_first("state", wire.vector_query(vector), wire.state_in)

    async def changes(self, **wanted: Any) -> Changes:
        return await self._of_first("changes", wire.build_query(wanted), wire.changes_in)

    async def decision(self, decision: str) -> DecisionRecord | None:
        answers, _ = await self._of_all("decision", [("id", decision)], wire.decision_in)
        return next((each for each in answers if each is not None), None)

    async def decisions(self, **wanted: Any) -> Decisions:
        answers, damages = await self._of_all("decisions", wire.build_query(wanted), wire.decisions_in)
        if len(answers) == 1 and not damages:
            return answers[0]
        found = {each.id: each for answer in answers for each in answer.records}
        latest = sorted(found.values(), key=lambda each: (each.at, each.id))[-wanted.get("limit", _LIMIT) :]
        lost = dict.fromkeys(each for answer in answers for each in answer.lost)
        left_out = dict.fromkeys(each for answer in answers for each in answer.left_out)
        return Decisions((), _together(answers, damages), tuple(latest), tuple(lost), tuple(left_out))

    async def writes(self, **wanted: Any) -> WritesAnswer:
        answers, damages = await self._of_all("writes", wire.build_query(wanted), wire.writes_in)
        if len(answers) == 1 and not damages:
            return answers[0]
        found = {
            (each.revision, each.kind, each.namespace, each.name): each for answer in answers for each in answer.records
        }
        latest = [found[key] for key in sorted(found)][-wanted.get("limit", _LIMIT) :]
        return WritesAnswer((), _together(answers, damages), tuple(latest))

    async def memory(self, record: DecisionRecord) -> bytes | None:
        memory = record.memory
        if len(memory.inline) == memory.size:
            return memory.inline
        answers, _ = await self._of_all("memory", [("digest", memory.digest.hex())], wire.memory_in)
        return next((each for each in answers if each is not None), None)

    # Inside.

    async def _of_first(self, page: str, query: Pairs, read: Callable[[bytes], A]) -> A:
        """The history is the same everywhere, from when a server was first there: of the first that has all of it."""
        best: A | None = None
        silent: list[JournalUnreachable] = []
        for client in self._clients:
            try:
                answer = await _ask(client, page, query, read)
            except JournalUnreachable as error:
                silent.append(error)
                continue
            if answer.is_complete:
                return answer
            best = best or answer
        if best is None:
            raise silent[0]
        return best

    async def _of_all(self, page: str, query: Pairs, read: Callable[[bytes], T]) -> tuple[list[T], tuple[Damage, ...]]:
        """Raises `JournalUnreachable` if none of them answers."""
        answers: list[T] = []
        silent: list[JournalUnreachable] = []
        damages: list[Damage] = []
        for client in self._clients:
            try:
                answers.append(await _ask(client, page, query, read))
            except JournalUnreachable as error:
                silent.append(error)
                damages.append(Damage(", ".join(client.config.servers), f"cannot be reached: {error}"))
        if not answers:
            raise silent[0]
        return answers, tuple(damages)


def _together(answers: list[A], damages: tuple[Damage, ...]) -> tuple[Damage, ...]:
    return tuple(dict.fromkeys((*damages, *(each for answer in answers for each in answer.damages))))


async def _ask(client: Client, page: str, query: Pairs, read: Callable[[bytes], T]) -> T:
    """Raises `JournalUnreachable`."""
    try:
        response = await client.request("GET", wire.PATH + page, query=query, headers=_HEADERS)
    except ApiError as error:
        raise JournalUnreachable(_advice(client, error)) from error
    try:
        return read(wire.plain(response.body, response.headers.get("content-type", "")))
    except (BadPage, msgspec.MsgspecError) as error:
        text = f"cannot parse the answer of {_name(client)}: {error}; check whether it runs a newer version"
        raise JournalUnreachable(text) from None


def _advice(client: Client, error: ApiError) -> str:
    """What is wrong, and what to do."""
    who = _name(client)
    match error:
        case NotFound(reason=wire.OFF):
            return f"{who} keeps no journal: {error}"
        case NotFound():
            return f"{who} has no journal: it is not a Mainstay server, or an older version"
        case Forbidden() | Unauthorized():
            return f"{who} denies access to its journal: {error}; use an administrator's kubeconfig"
        case Throttled() | Unavailable():
            return f"cannot reach {who}: {error}; check that it is running and reachable, then retry"
        case ApiError(status=413):
            return f"the answer of {who} is too large: {error}"
        case _:
            return f"{who} rejected the request: {error}"


def _name(client: Client) -> str:
    servers = client.config.servers
    return f"the server {servers[0]}" if len(servers) == 1 else f"the servers {', '.join(servers)}"

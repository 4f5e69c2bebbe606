"""Several journals asked as one: those of API servers that share a store.

Each server has all of the history, and of the decisions and requests those that came to itself. So changes and states
are answered by the first that has all of them; decisions and writes are asked of all at the same time, and merged. One
that does not answer is named in `damages`: the answer is given all the same, and says that it is not complete. Only if
none of them answers, or if one that is silent may be the only one to know, is that an error.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mainstay.env import tasks
from mainstay.journal.answers import Answered, Changes, Decisions, Extent, StateAnswer, WritesAnswer
from mainstay.journal.errors import JournalUnreachable
from mainstay.journal.interface import Journal
from mainstay.journal.record import DecisionRecord
from mainstay.journal.scan import Damage

T = TypeVar("T")
A = TypeVar("A", bound=Answered)

_LIMIT: Final = 1_000  # The default of interface.py.


@dataclass(frozen=True, slots=True)
class JournalMember:
    name: str
    """As it is shown when it does not answer."""
    journal: Journal


class JointJournal:
    """Implements `Journal` (interface.py). `find_members` is asked with every question: servers come and go."""

    def __init__(self, find_members: Callable[[], Awaitable[Sequence[JournalMember]]]) -> None:
        self._find_members = find_members

    async def extent(self) -> Extent:
        """Of the one that has got furthest."""
        answers, _ = await self._of_all(lambda each: each.extent())
        return max(answers, key=lambda each: each.reached)

    async def state(self, vector: Mapping[str, int]) -> StateAnswer:
        return await self._of_first(lambda each: each.state(vector))

    async def changes(self, **wanted: Any) -> Changes:
        return await self._of_first(lambda each: each.changes(**wanted))

    async def decision(self, decision: str) -> DecisionRecord | None:
        answers, silent = await self._of_all(lambda each: each.decision(decision))
        return _only(answers, silent)

    async def decisions(self, **wanted: Any) -> Decisions:
        answers, silent = await self._of_all(lambda each: each.decisions(**wanted))
        if len(answers) == 1 and not silent:
            return answers[0]
        found = {each.id: each for answer in answers for each in answer.records}
        latest = sorted(found.values(), key=lambda each: (each.at, each.id))[-wanted.get("limit", _LIMIT) :]
        lost = dict.fromkeys(each for answer in answers for each in answer.lost)
        left_out = dict.fromkeys(each for answer in answers for each in answer.left_out)
        return Decisions((), _together(answers, silent), tuple(latest), tuple(lost), tuple(left_out))

    async def writes(self, **wanted: Any) -> WritesAnswer:
        answers, silent = await self._of_all(lambda each: each.writes(**wanted))
        if len(answers) == 1 and not silent:
            return answers[0]
        found = {
            (each.revision, each.kind, each.namespace, each.name): each for answer in answers for each in answer.records
        }
        latest = [found[key] for key in sorted(found)][-wanted.get("limit", _LIMIT) :]
        return WritesAnswer((), _together(answers, silent), tuple(latest))

    async def memory(self, record: DecisionRecord) -> bytes | None:
        answers, silent = await self._of_all(lambda each: each.memory(record))
        return _only(answers, silent)

    # Inside.

    async def _of_first(self, ask: Callable[[Journal], Awaitable[A]]) -> A:
        """The history is the same everywhere, from when a server was first there: of the first that has all of it."""
        best: A | None = None
        silent: list[JournalUnreachable] = []
        for member in await self._find_members():
            try:
                answer = await ask(member.journal)
            except JournalUnreachable as error:
                silent.append(error)
                continue
            if answer.is_complete:
                return answer
            best = best or answer
        if best is None:
            raise silent[0]
        return best

    async def _of_all(self, ask: Callable[[Journal], Awaitable[T]]) -> tuple[list[T], list[Damage]]:
        """The answers, and who gave none. Raises `JournalUnreachable` if none of them answers."""
        members = await self._find_members()
        asking = [tasks.spawn(_try(ask, each.journal), name=f"ask the journal of {each.name}") for each in members]
        try:
            outcomes = [await each for each in asking]
        finally:
            for each in asking:
                await tasks.stop(each)
        answers: list[T] = []
        silent: list[tuple[Damage, JournalUnreachable]] = []
        for member, (outcome, error) in zip(members, outcomes, strict=True):
            if error is not None:
                silent.append((Damage(member.name, str(error), is_server=True), error))
            else:
                answers += outcome
        if not answers:
            raise silent[0][1]
        return answers, [damage for damage, _ in silent]


async def _try(ask: Callable[[Journal], Awaitable[T]], journal: Journal) -> tuple[list[T], JournalUnreachable | None]:
    try:
        return [await ask(journal)], None
    except JournalUnreachable as error:
        return [], error


def _only(answers: Sequence[T | None], silent: Sequence[Damage]) -> T | None:
    """What one of them knows. Raises `JournalUnreachable` if only a silent one can know it."""
    found = next((each for each in answers if each is not None), None)
    if found is None and silent:
        raise JournalUnreachable(f"it is not in the journals that answer; {silent[0]}")
    return found


def _together(answers: Sequence[Answered], silent: Sequence[Damage]) -> tuple[Damage, ...]:
    return tuple(dict.fromkeys((*silent, *(each for answer in answers for each in answer.damages))))

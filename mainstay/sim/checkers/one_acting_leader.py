"""Of all that hold, or held, or believe to hold one lease, only the one whose term it is gets anything done.

Leaders name their term with each write (server/storage/terms.py). Several may *believe* at once that they lead: no
process can prevent that, and nothing here asks what they believe. What must never be is that it shows: a write is
committed only under the term that is in force at that revision; a term is used by one program; and a write that was
fenced has no effect.

A write that names no term is not fenced, and not looked at here.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import Event, RequestReceived, ResponseSent, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_TERMS: Final = f"{INTERNAL_PREFIX}terms/"
_VACANT: Final = 0


@dataclass(slots=True)
class _Lease:
    """Which term is in force, and which was before the revision that changed it."""

    term: int = _VACANT
    since: int = 0
    before: int = _VACANT

    def in_force_at(self, revision: int) -> int:
        """For a commit at this revision: the one that ends a term is itself still of that term."""
        return self.before if revision == self.since else self.term


class OneActingLeader:
    name = "one acting leader"

    def __init__(self) -> None:
        self._leases: dict[str, _Lease] = {}
        self._asked: dict[int, RequestReceived] = {}
        self._fenced: dict[int, ResponseSent] = {}
        self._acted: dict[
            tuple[str, int], tuple[RequestReceived, RevisionCommitted]
        ] = {}  # By lease and term: the first write under it.
        self._last_acted: dict[str, tuple[int, RequestReceived, RevisionCommitted]] = {}

    def saw(self, event: Event) -> None:
        match event:
            case RequestReceived():
                if event.term:
                    self._asked[event.request] = event
            case ResponseSent():
                if event.status == 409 and event.request in self._asked:
                    self._fenced[event.request] = event
            case RevisionCommitted():
                self._committed(event)
            case _:
                pass

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    def _committed(self, commit: RevisionCommitted) -> None:
        if commit.key.startswith(_TERMS):
            lease = self._leases.setdefault(commit.key.removeprefix(_TERMS), _Lease())
            lease.before = lease.term
            lease.term = _VACANT if commit.value is None else commit.revision
            lease.since = commit.revision
        asked = None if commit.request is None else self._asked.get(commit.request)
        if asked is not None and not commit.key.startswith(INTERNAL_PREFIX):
            self._check(asked, commit)

    def _check(self, asked: RequestReceived, commit: RevisionCommitted) -> None:
        name, _, text = asked.term.rpartition("=")
        term = int(text)
        refused = self._fenced.get(asked.request)
        if refused is not None:
            raise Violated(self.name, "a rejected write was committed", [asked, refused, commit])
        last = self._last_acted.get(name)
        if last is not None and term < last[0]:
            text = f"a write of term {term} of {name} was committed after one of term {last[0]}"
            raise Violated(self.name, text, [*last[1:], asked, commit])
        in_force = self._leases.get(name, _Lease()).in_force_at(commit.revision)
        if term != in_force:
            said = f"in term {in_force}" if in_force else "while the lease was vacant"
            raise Violated(self.name, f"a write of term {term} of {name} was committed {said}", [asked, commit])
        first = self._acted.setdefault((name, term), (asked, commit))
        if first[0].who != asked.who:
            text = f"{first[0].who} and {asked.who} both write under term {term} of {name}"
            raise Violated(self.name, text, [*first, asked, commit])
        self._last_acted[name] = (term, asked, commit)

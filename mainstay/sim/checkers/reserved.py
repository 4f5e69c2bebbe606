"""For one intent there is never a second reservation, and ledgers hold exactly what active reservations say.

An intent is told by the uid of the workload, its generation, and the intent's name. Judged by what was committed: what
is held and what is reserved are written together, so they agree at every revision.
"""

from typing import TYPE_CHECKING, Final

from mainstay.api.reservations import count_resources, is_active
from mainstay.server.placement.ledger.ledger import LEDGERS, ledger_in, plus
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.store.interface import Entry

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_PREFIX: Final = "mainstay.dev/reservations/"


class Reserved:
    name = "reserved"

    def __init__(self) -> None:
        self._first: dict[tuple[str, int, str], RevisionCommitted] = {}
        self._active: dict[str, tuple[str, dict[str, int]]] = {}  # By key: where, and how much.
        self._held: dict[str, dict[str, int]] = {}  # By node, as its ledger says.
        self._revision = 0
        self._touched: dict[str, RevisionCommitted] = {}  # Nodes of which that revision has changed something.

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if self._touched and event.revision != self._revision:
            self._require_agreement()
        self._revision = event.revision
        if event.key.startswith(_PREFIX):
            self._reservation(event)
        elif event.key.startswith(LEDGERS):
            node = event.key.removeprefix(LEDGERS)
            entry = None if event.value is None else Entry(event.key, event.value, event.revision, event.revision, 1)
            self._held[node] = dict(ledger_in(entry).held)
            self._touched[node] = event

    async def at_end(self, world: "World") -> None:
        self._require_agreement()

    def _reservation(self, event: RevisionCommitted) -> None:
        before = self._active.pop(event.key, None)
        if before is not None:
            self._touched[before[0]] = event
        reservation = None if event.value is None else decode_commit(event.value)
        if reservation is None or not is_active(reservation):
            return
        spec = reservation["spec"]
        self._active[event.key] = spec["nodeName"], count_resources(reservation)
        self._touched[spec["nodeName"]] = event
        if event.previous is None:
            intent = spec["workload"]["uid"], spec.get("generation") or 0, spec["intent"]
            first = self._first.setdefault(intent, event)
            if first is not event:
                text = f"{spec['workload']['name']} has a second reservation for {spec['intent']}: {event.key}"
                raise Violated(self.name, text, [first, event])

    def _require_agreement(self) -> None:
        touched, self._touched = self._touched, {}
        for node, commit in touched.items():
            total: dict[str, int] = {}
            for where, amounts in self._active.values():
                if where == node:
                    total = plus(total, amounts)
            said = self._held.get(node, {})
            if said != total:
                text = f"the ledger of {node} holds {said}, but reservations add up to {total}"
                raise Violated(self.name, text, [commit])

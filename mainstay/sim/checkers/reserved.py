"""For one intent there is never a second reservation, and ledgers hold exactly what active reservations say.

An intent is told by the uid of the workload, its generation, and the intent's name. Judged by what was committed.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.reservations import is_active, resources_of
from mainstay.server.ledger.ledger import LEDGERS, ledger_in, plus
from mainstay.sim.checkers import Violated
from mainstay.sim.history import Committed, Event

if TYPE_CHECKING:
    from mainstay.sim.world import World

_PREFIX: Final = "mainstay.dev/reservations/"
_decode = msgspec.json.Decoder(Object).decode


class Reserved:
    name = "reserved"

    def __init__(self) -> None:
        self._first: dict[tuple[str, int, str], Committed] = {}
        self._active: dict[str, Object] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, Committed) or not event.key.startswith(_PREFIX):
            return
        reservation = None if event.value is None else _decode(event.value)
        if reservation is None or not is_active(reservation):
            self._active.pop(event.key, None)
            return
        self._active[event.key] = reservation
        if event.previous is None:
            spec = reservation["spec"]
            intent = spec["workload"]["uid"], spec.get("generation") or 0, spec["intent"]
            first = self._first.setdefault(intent, event)
            if first is not event:
                text = f"{spec['workload']['name']} has a second reservation for {spec['intent']}: {event.key}"
                raise Violated(self.name, text, [first, event])

    async def at_end(self, world: "World") -> None:
        held: dict[str, dict[str, int]] = {}
        for reservation in self._active.values():
            node = reservation["spec"]["nodeName"]
            held[node] = plus(held.get(node, {}), resources_of(reservation))
        for entry in (await world.store.range(LEDGERS)).entries:
            node = entry.key.removeprefix(LEDGERS)
            said = ledger_in(entry).held
            if said != held.get(node, {}):
                text = f"the ledger of {node} holds {said} in the end, and reservations are {held.get(node, {})}"
                raise Violated(self.name, text)

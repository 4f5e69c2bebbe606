"""What is said in a status is said about the generation that was observed: never about one that is still to come.

Judged by what was committed: an `observedGeneration`, of a status, of one of its conditions or of its progress, is at
most the generation of the object at that revision. For kinds that a leader looks after it never goes back, and in the
end it is the last one (`find_unobserved`). An agent that restarts may read an old list, and then says truly that
it has observed less.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mainstay.api.kind import Object
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

NAME: Final = "observed generations"
_SAID: Final = b'"observedGeneration"'


class ObservedGenerations:
    name = NAME

    def __init__(self, prefixes: Sequence[str]) -> None:
        """How the keys of those kinds begin in the store that a leader looks after."""
        self._prefixes = tuple(prefixes)
        self._said: dict[str, dict[str, tuple[int, RevisionCommitted]]] = {}  # By uid: what was said of what.

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or event.value is None or event.key.startswith(INTERNAL_PREFIX):
            return
        if _SAID not in event.value:
            return
        obj = decode_commit(event.value)
        metadata = obj["metadata"]
        said = self._said.setdefault(metadata["uid"], {})
        for what, number in read_observed(obj):
            if number > (metadata.get("generation") or 0):
                text = f"{event.key} has generation {metadata.get('generation')}, but {what} is about {number}"
                raise Violated(self.name, text, [event])
            before, commit = said.get(what, (0, event))
            if number < before and event.key.startswith(self._prefixes):
                text = f"{what} of {event.key} went back from generation {before} to {number}"
                raise Violated(self.name, text, [commit, event])
            said[what] = number, event

    async def at_end(self, world: "World") -> None:
        if problem := await find_unobserved(world, self._prefixes):
            raise Violated(self.name, problem)


def read_observed(obj: Object) -> Iterator[tuple[str, int]]:
    """Of what there is to be read which generation it is about."""
    status: Mapping[str, Any] = obj.get("status") or {}
    if (number := status.get("observedGeneration")) is not None:
        yield "its status", number
    if (number := (status.get("progress") or {}).get("observedGeneration")) is not None:
        yield "its progress", number
    for each in status.get("conditions") or ():
        if (number := each.get("observedGeneration")) is not None:
            yield f"its condition {each.get('type')}", number


async def find_unobserved(world: "World", prefixes: Sequence[str]) -> str:
    """The first object whose last generation was not observed; empty if there is none."""
    for prefix in prefixes:
        for entry in (await world.store.range(prefix)).entries:
            obj = decode_commit(entry.value)
            said, generation = (obj.get("status") or {}).get("observedGeneration"), obj["metadata"].get("generation")
            if said != generation:
                return f"{entry.key} has generation {generation} at the end, but its status is about {said}"
    return ""

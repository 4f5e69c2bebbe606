"""Nothing is in a namespace that is gone, and in the end no namespace is still going.

Who deletes namespaces touches nothing in those that are there to stay.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_NAMESPACES: Final = "core/namespaces/"


class Namespaces:
    name = "namespaces"

    def __init__(self, prefixes: Iterable[str], deleters: Iterable[str], deciding: str = "") -> None:
        """How the keys of what is in namespaces begin in the store; which programs delete namespaces; and, if they do
        other things too, how the names of the decisions begin by which they do."""
        self._deciding = deciding
        self._prefixes = tuple(prefixes)
        self._deleters = frozenset(deleters)
        self._deletes: dict[int, RequestReceived] = {}
        self._going: dict[str, bool] = {}
        """Whether each namespace that is there is being deleted."""
        self._in: dict[str, dict[str, RevisionCommitted]] = {}

    def saw(self, event: Event) -> None:
        match event:
            case RequestReceived():
                is_deleting = event.who in self._deleters and event.decision.startswith(self._deciding)
                if event.method == "DELETE" and is_deleting:
                    self._deletes[event.request] = event
            case RevisionCommitted():
                if event.key.startswith(_NAMESPACES):
                    self._namespace(event)
                elif event.key.startswith(self._prefixes):
                    self._content(event)
            case _:
                pass

    async def at_end(self, world: "World") -> None:
        for name, is_going in self._going.items():
            if is_going:
                raise Violated(self.name, f"{name} is still being deleted at the end", list(self._in[name].values()))

    def _namespace(self, event: RevisionCommitted) -> None:
        name = event.key.removeprefix(_NAMESPACES)
        if event.value is not None:
            self._going[name] = "deletionTimestamp" in decode_commit(event.value)["metadata"]
            self._in.setdefault(name, {})
            return
        self._going.pop(name, None)
        left = self._in.pop(name, {})
        if left:
            text = f"{name} is gone, but {', '.join(sorted(left))} is left in it"
            raise Violated(self.name, text, [*left.values(), event])

    def _content(self, event: RevisionCommitted) -> None:
        namespace = event.key.split("/")[2]
        if event.request in self._deletes and self._going.get(namespace) is not True:
            asked = self._deletes[event.request or 0]
            raise Violated(self.name, f"{event.key} was deleted, but its namespace was not", [asked, event])
        if event.value is None:
            self._in.get(namespace, {}).pop(event.key, None)
        else:
            self._in.setdefault(namespace, {})[event.key] = event

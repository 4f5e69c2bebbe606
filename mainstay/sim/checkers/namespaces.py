"""Nothing is in a namespace that is gone, nothing new comes into one that is going, and in the end none is still going.

A server judges a new object by its namespace in the commit that creates it: so no object is ever committed into a
namespace that does not exist, or that is being deleted, however long the server took between its read and its commit.

Who deletes namespaces touches nothing in those that are there to stay.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mainstay.api import pod_state
from mainstay.api.annotations import is_at_most_one
from mainstay.api.kind import Object
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
        self._homeless: dict[str, RevisionCommitted] = {}
        """By namespace, of the revision that is being seen: what was created, and its namespace was not seen before."""

    def saw(self, event: Event) -> None:
        match event:
            case RequestReceived():
                is_deleting = event.who in self._deleters and event.decision.startswith(self._deciding)
                if event.method == "DELETE" and is_deleting:
                    self._deletes[event.request] = event
            case RevisionCommitted():
                self._require_homes(event.revision)
                if event.key.startswith(_NAMESPACES):
                    self._namespace(event)
                elif event.key.startswith(self._prefixes):
                    self._content(event)
            case _:
                pass

    async def at_end(self, world: "World") -> None:
        self._require_homes(None)
        blocked = await find_blocked(world)
        for name, is_going in self._going.items():
            if is_going and name not in blocked:
                raise Violated(self.name, f"{name} is still being deleted at the end", list(self._in[name].values()))

    def _namespace(self, event: RevisionCommitted) -> None:
        name = event.key.removeprefix(_NAMESPACES)
        self._homeless.pop(name, None)
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
            return
        if event.previous is None:
            self._created(namespace, event)
        self._in.setdefault(namespace, {})[event.key] = event

    def _created(self, namespace: str, event: RevisionCommitted) -> None:
        if self._going.get(namespace):
            raise Violated(self.name, f"{event.key} was created, but its namespace was being deleted", [event])
        if namespace not in self._going:
            self._homeless[namespace] = event  # Unless the same commit creates the namespace.

    def _require_homes(self, revision: int | None) -> None:
        """Of all revisions before this one: what was created had a namespace."""
        for event in self._homeless.values():
            if event.revision != revision:
                raise Violated(self.name, f"{event.key} was created, but its namespace did not exist", [event])


async def find_blocked(world: "World") -> dict[str, list[Object]]:
    """Namespaces that are being deleted, and cannot be gone: all pods that are left in them are on machines that are
    lost for good, and it is unknown whether they have ended. By namespace, these pods. Whatever else is in such a
    namespace stays until they are gone. (An at-most-one pod is no excuse: it is removed when the lease has passed.)"""
    pods: dict[str, list[Object]] = {}
    for entry in (await world.store.range("core/pods/")).entries:
        pod = decode_commit(entry.value)
        pods.setdefault(pod["metadata"]["namespace"], []).append(pod)
    going = [
        entry.key.removeprefix(_NAMESPACES)
        for entry in (await world.store.range(_NAMESPACES)).entries
        if "deletionTimestamp" in decode_commit(entry.value)["metadata"]
    ]
    return {name: pods[name] for name in going if name in pods and all(_is_stranded(world, pod) for pod in pods[name])}


def _is_stranded(world: "World", pod: Object) -> bool:
    return pod_state.is_leaving(pod) and pod_state.get_node_name(pod) in world.lost and not is_at_most_one(pod)

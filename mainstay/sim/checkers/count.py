"""Of what belongs together there is never more than was ever wanted, and in the end exactly as much as is wanted.

Some objects, the parents, say what they want; others, the children, are that. Both are told by the key under which they
are stored. What belongs together has one name: the owner's uid for the pods of a job, an owner and an address for what
stands in its slices. A parent that is gone wants nothing, and its children are not judged here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from mainstay.api.kind import Object
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class Count:
    name = "count"

    def __init__(
        self,
        parents: str,
        children: str,
        wants: Callable[[Object], Mapping[str, int]],
        belongs_to: Callable[[Object], Iterable[str]],
    ) -> None:
        """`parents` and `children` are how their keys begin in the store."""
        self._parents = parents
        self._children = children
        self._wants = wants
        self._belongs_to = belongs_to
        self._wanted: dict[str, dict[str, int]] = {}  # By key of the parent; 0 for what it does not want any more.
        self._most: dict[str, int] = {}
        self._there: dict[str, dict[str, RevisionCommitted]] = {}

    def saw(self, event: Event) -> None:
        if isinstance(event, RevisionCommitted):
            if event.key.startswith(self._parents):
                self._parent(event)
            elif event.key.startswith(self._children):
                self._child(event)

    async def at_end(self, world: "World") -> None:
        for parent, wanted in self._wanted.items():
            for group, count in wanted.items():
                there = self._there.get(group, {})
                if len(there) != count:
                    text = f"{parent} wants {count} of {group}, but there are {len(there)} at the end"
                    raise Violated(self.name, text, list(there.values()))

    def _parent(self, commit: RevisionCommitted) -> None:
        if commit.value is None:
            self._wanted.pop(commit.key, None)
            return
        before = self._wanted.get(commit.key, {}) if commit.previous is not None else {}
        wanted = self._wants(decode_commit(commit.value))
        self._wanted[commit.key] = {**dict.fromkeys(before, 0), **wanted}
        for group, count in wanted.items():
            self._most[group] = max(count, self._most.get(group, 0))

    def _child(self, commit: RevisionCommitted) -> None:
        if commit.previous is not None:
            for group in self._belongs_to(decode_commit(commit.previous)):
                self._there.get(group, {}).pop(commit.key, None)
        if commit.value is None:
            return
        for group in self._belongs_to(decode_commit(commit.value)):
            there = self._there.setdefault(group, {})
            there[commit.key] = commit
            most = self._most.get(group, 0)
            if len(there) > most:
                text = f"there are {len(there)} of {group}, but at most {most} were ever wanted"
                raise Violated(self.name, text, list(there.values()))

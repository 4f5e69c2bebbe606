"""In the end every task is on a node that is there: that very node, not one that has got its name since.

Meanwhile a task may be on a node that is gone: the scheduler can know of that only later.
"""

from typing import TYPE_CHECKING

from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class PlacedChecker:
    name = "placed"

    def __init__(self, nodes: str, tasks: str) -> None:
        """How the keys of both begin in the store. A task has the name and the uid of its node in its data."""
        self._nodes_prefix = nodes
        self._tasks_prefix = tasks
        self._nodes: dict[str, str] = {}
        self._tasks: dict[str, RevisionCommitted] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith(self._nodes_prefix):
            name = event.key.removeprefix(self._nodes_prefix)
            if event.value is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = decode_commit(event.value)["metadata"]["uid"]
        elif event.key.startswith(self._tasks_prefix):
            if event.value is None:
                self._tasks.pop(event.key, None)
            else:
                self._tasks[event.key] = event

    async def at_end(self, world: "World") -> None:
        for key, commit in self._tasks.items():
            data = decode_commit(commit.value or b"").get("data") or {}
            node = data.get("node")
            if node is None:
                raise Violated(self.name, f"{key} has no node at the end", [commit])
            if self._nodes.get(node) != data.get("uid"):
                raise Violated(self.name, f"{key} is on {node} at the end, but that node does not exist", [commit])

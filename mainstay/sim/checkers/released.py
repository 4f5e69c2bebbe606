"""Nothing is let go while it is still wanted: no reservation is released while its Deployment is there, and no pod is
removed by force from a node that is there, or was a moment ago.

Judged by the store at the moment of the commit. A node that comes back in the moment between may lose a pod.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.api.kind import Object
from mainstay.api.pod_resources import is_over
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_NODES: Final = "core/nodes/"
_PODS: Final = "core/pods/"
_WORKLOADS: Final = "apps/deployments/"
_RESERVATIONS: Final = "mainstay.dev/reservations/"
MOMENT_NS: Final = timedelta(seconds=10) // timedelta(microseconds=1) * 1000
SOON_NS: Final = timedelta(seconds=8) // timedelta(microseconds=1) * 1000


class Released:
    name = "released"

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}
        """Those that are there, and since when."""
        self._gone: dict[str, int] = {}
        """Since when the others are not."""
        self._workloads: dict[str, str] = {}
        """Key by uid."""
        self._asked: dict[int, RequestReceived] = {}

    def saw(self, event: Event) -> None:
        if isinstance(event, RequestReceived) and event.method == "DELETE":
            self._asked[event.request] = event
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith(_NODES):
            name = event.key.removeprefix(_NODES)
            if event.value is None:
                self._nodes.pop(name, None)
                self._gone[name] = event.at_ns
            else:
                self._nodes.setdefault(name, event.at_ns)
        elif event.key.startswith(_WORKLOADS):
            if event.previous is not None and event.value is None:
                self._workloads.pop(decode_commit(event.previous)["metadata"]["uid"], None)
            elif event.value is not None:
                self._workloads[decode_commit(event.value)["metadata"]["uid"]] = event.key
        elif event.key.startswith(_RESERVATIONS) and event.value is not None:
            reservation = decode_commit(event.value)
            owner = self._workloads.get(reservation["spec"]["workload"]["uid"])
            if owner and (reservation.get("status") or {}).get("phase") == "Released":
                raise Violated(self.name, f"{event.key} was released, but {owner} exists", [event])
        elif event.key.startswith(_PODS) and event.value is None and event.previous is not None:
            self._pod_went(event, decode_commit(event.previous))

    def _pod_went(self, event: RevisionCommitted, pod: Object) -> None:
        node = pod["spec"].get("nodeName") or ""
        if is_over(pod) or not node:
            return  # Nothing of it runs: no agent has to confirm it.
        asked = self._asked.get(event.request or 0)
        is_there = node in self._nodes and event.at_ns - self._nodes[node] > MOMENT_NS
        if asked is not None and asked.who != node and is_there and not pod["metadata"].get("deletionTimestamp"):
            raise Violated(self.name, f"{event.key} was deleted by {asked.who}, but {node} exists", [event])

        was_there = node not in self._nodes and event.at_ns - self._gone.get(node, 0) < SOON_NS
        if asked is not None and asked.who != node and was_there:
            raise Violated(
                self.name, f"{event.key} was deleted by {asked.who}, but {node} was removed only just before", [event]
            )

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

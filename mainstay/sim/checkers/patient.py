"""No node is given up too early: judged by what nodes have really written, not by reports or clocks.

- A node was marked unknown, its pods to be not ready, and pods are removed from it, only if it has not renewed its
  lease for as long as that lasts. (A renewal of the last moments may not have been heard of.)
- A pod that tolerates the taints of its node for a time has that time each time the node gets them.
- Nodes of a zone are released one by one, and not faster than the rate.
- None is released while no node at all renews its lease: then it is more likely that the controller is isolated.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from mainstay.api.kind import Object
from mainstay.api.node_health import RELEASED, UNHEARD
from mainstay.api.pod_state import find_condition, get_zone
from mainstay.api.taints import NO_EXECUTE, Taint, parse_taints, stays_for
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_NODES: Final = "core/nodes/"
_PODS: Final = "core/pods/"
_LEASES: Final = "coordination.k8s.io/leases/kube-node-lease/"

MOMENTS: Final = timedelta(seconds=6)
"""How old a renewal is that must have been heard of: a decision may be that old when it is carried out."""
RELEASE_EVERY: Final = timedelta(seconds=10)


class PatientEviction:
    name = "patient"

    def __init__(self, duration: timedelta) -> None:
        """How long the nodes' leases last."""
        self._duration_ns = _ns(duration)
        self._renewed: dict[str, list[int]] = {}
        self._released: dict[str, int] = {}
        """By zone: when a node of it was last released."""
        self._tainted: dict[str, dict[Taint, int]] = {}
        """By node: since when it has each `NoExecute` taint."""
        self._untainted: dict[str, int] = {}
        """By node: when it lost one."""

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or event.value is None:
            return
        if event.key.startswith(_LEASES):
            name = event.key.removeprefix(_LEASES)
            if (decode_commit(event.value).get("spec") or {}).get("holderIdentity") == name:
                self._renewed.setdefault(name, []).append(event.at_ns)
        elif event.previous is not None and event.key.startswith(_NODES):
            self._saw_node(event, decode_commit(event.value), decode_commit(event.previous))
        elif event.previous is not None and event.key.startswith(_PODS):
            self._saw_pod(event, decode_commit(event.value), decode_commit(event.previous))

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    def _saw_node(self, event: RevisionCommitted, new: Object, old: Object) -> None:
        name = new["metadata"]["name"]
        before = self._tainted.get(name, {})
        taints = [each for each in parse_taints(new) if each.effect == NO_EXECUTE]
        self._tainted[name] = {each: before.get(each, event.at_ns) for each in taints}
        if any(each not in taints for each in before):
            self._untainted[name] = event.at_ns
        if _is_unheard(new) and not _is_unheard(old):
            self._require_silent(name, "was marked unknown", event)
        if not _is_released(new) or _is_released(old):
            return
        self._require_silent(name, "is released", event)
        zone = get_zone(new)
        last_ns = self._released.get(zone)
        if last_ns is not None and event.at_ns - last_ns < _ns(RELEASE_EVERY) - _ns(timedelta(seconds=1)):
            raise Violated(self.name, f"{name} was released right after another node of zone {zone}", [event])
        self._released[zone] = event.at_ns
        since_ns = event.at_ns - self._duration_ns
        if not any(times[-1] >= since_ns for times in self._renewed.values() if times):
            raise Violated(self.name, f"{name} was released while no node renewed its lease", [event])

    def _saw_pod(self, event: RevisionCommitted, new: Object, old: Object) -> None:
        name, node = new["metadata"]["name"], (new.get("spec") or {}).get("nodeName") or ""
        if new["metadata"].get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp"):
            self._require_silent(node, f"loses {name}", event)
            self._require_tolerated(node, new, event)
        elif _read_status(new) == "Unknown" and _read_status(old) == "True":
            self._require_silent(node, f"was replaced by {name}", event)

    def _require_tolerated(self, node: str, pod: Object, event: RevisionCommitted) -> None:
        if not (tainted := self._tainted.get(node)) or self._untainted.get(node, 0) > event.at_ns - _ns(MOMENTS):
            return  # It was decided on by taints that are gone by now.
        for taint, since_ns in tainted.items():
            stays = stays_for(pod, [taint])
            if stays is not None and event.at_ns - since_ns >= _ns(stays) * 3 // 4:
                return
        shown = ", ".join(str(taint) for taint in tainted)
        raise Violated(self.name, f"{pod['metadata']['name']} is evicted although it still tolerates {shown}", [event])

    def _require_silent(self, node: str, what: str, event: RevisionCommitted) -> None:
        begin_ns, end_ns = event.at_ns - self._duration_ns * 3 // 4, event.at_ns - _ns(MOMENTS)
        if any(begin_ns < at_ns < end_ns for at_ns in self._renewed.get(node, ())):
            raise Violated(self.name, f"{node} {what} although it renewed its lease", [event])


def _is_unheard(node: Object) -> bool:
    return (find_condition(node, "Ready") or {}).get("reason") == UNHEARD


def _is_released(node: Object) -> bool:
    taints: list[Any] = (node.get("spec") or {}).get("taints") or []
    return any((each.get("key"), each.get("effect")) == (RELEASED.key, RELEASED.effect) for each in taints)


def _read_status(pod: Object) -> str:
    return str((find_condition(pod, "Ready") or {}).get("status") or "")


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000

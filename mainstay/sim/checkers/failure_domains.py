"""The control plane never takes the last ready pod of a workload in a failure domain without need. (SPEC T1)

The failure domain of a pod is the zone of its node; nodes without a zone are all in the same one. What a zone recovers
with is a ready pod of the workload that is there already. The ReplicaSet controller is who takes pods of a workload
away by itself: for a rollout, a rollback, or another number of replicas. When it deletes a ready pod, and no other pod
of the workload is ready in that zone, two promises hold:

- *the choice*: in its ReplicaSet there are not enough other pods that could go instead: those that are not ready, and
  those in whose zone another ready pod of the workload stays. So a user who asks for fewer pods than zones gets that,
  and one who asks for as many as there are zones keeps one in each;
- *the number*: if the set is an old one, made smaller by the Deployment controller, waiting could not have helped any
  more: the pods of the new set were all ready at some time before that. Or a user had asked for fewer replicas.

What users do by hand is theirs: deleting pods or workloads, draining nodes, the strategy Recreate. So are nodes that
are lost. How many pods have to be ready in all is another checker's business (recovery.py).

Judged by what was committed. Who decides may know of it later, by up to `late`: what was so at any time in that while
counts in favour of who decides, and what changed in that while counts for nothing. For so long after the store was put
back to a backup nothing is judged.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.api.pod_state import get_node_name, get_zone, is_active, is_leaving, is_ready
from mainstay.controllers.deployment.revisions import parse_revision
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit, decode_current
from mainstay.sim.checkers.recovery import WHILE, read_owner
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted, StoreRestored

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_PODS: Final = "core/pods/"
_NODES: Final = "core/nodes/"
_SETS: Final = "apps/replicasets/"
_APPS: Final = "apps/deployments/"
_REPLICASET: Final = "replicaset-"
_DEPLOYMENT: Final = "deployment-"
"""How the ids of their decisions begin."""
_ALWAYS: Final = 1 << 62


@dataclass(slots=True)
class _Pod:
    owner: str
    commit: RevisionCommitted
    node: str = ""
    is_active: bool = True
    is_ready: bool = False
    is_told: bool = False
    """Its own controller has deleted it."""
    changed_ns: int = 0
    """Since when it is as it is."""
    ready_until_ns: int = -_ALWAYS
    """When it was last ready; `_ALWAYS` while it is, and before all times if it never was."""


@dataclass(slots=True)
class _Node:
    zone: str
    since_ns: int


@dataclass(slots=True)
class _Lowered:
    """A set was made smaller."""

    at_ns: int
    is_old: bool
    """By its Deployment's controller, and another set was the new one."""
    was_complete: bool = True
    """All pods of the new set were ready shortly before, or a user had just asked for fewer."""


@dataclass(slots=True)
class _Set:
    key: str
    app: str
    revision: int
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Since when, and how many it wants."""
    lowered: _Lowered | None = None
    complete_ns: int = -_ALWAYS
    """When all its pods were last ready; `_ALWAYS` while they are."""


@dataclass(slots=True)
class _App:
    wanted: int
    is_rolling: bool
    eased_ns: int = -_ALWAYS
    """When a user last asked for fewer replicas, or for another strategy, or for its end."""


class FailureDomains:
    name = "failure domains"

    def __init__(self, late: timedelta = WHILE) -> None:
        self._late_ns = late // timedelta(microseconds=1) * 1000
        self._deletes: dict[int, RequestReceived] = {}
        self._sizings: dict[int, None] = {}
        self._apps: dict[str, _App] = {}  # By uid, as all that follow.
        self._sets: dict[str, _Set] = {}
        self._pods: dict[str, _Pod] = {}
        self._nodes: dict[str, _Node] = {}  # By name.
        self._judges_from_ns = 0

    def saw(self, event: Event) -> None:
        if isinstance(event, StoreRestored):
            self._judges_from_ns = event.at_ns + self._late_ns
        elif isinstance(event, RequestReceived):
            if event.method == "DELETE" and event.decision.startswith(_REPLICASET):
                self._deletes[event.request] = event
            elif event.method == "PATCH" and event.decision.startswith(_DEPLOYMENT):
                self._sizings[event.request] = None
        elif isinstance(event, RevisionCommitted):
            if event.key.startswith(_PODS):
                self._pod(event)
            elif event.key.startswith(_NODES):
                self._node(event)
            elif event.key.startswith(_SETS):
                self._set(event)
            elif event.key.startswith(_APPS):
                self._app(event)

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    # What there is.

    def _node(self, event: RevisionCommitted) -> None:
        name = event.key.removeprefix(_NODES)
        if event.value is None:
            self._nodes.pop(name, None)
            return
        zone, known = get_zone(decode_commit(event.value)), self._nodes.get(name)
        if known is None or known.zone != zone:
            self._nodes[name] = _Node(zone, event.at_ns)

    def _app(self, event: RevisionCommitted) -> None:
        obj = decode_current(event.value) or decode_current(event.previous) or {}
        is_there = event.value is not None and not is_leaving(obj)
        strategy = (obj["spec"].get("strategy") or {}).get("type", "RollingUpdate")
        wanted = int(obj["spec"].get("replicas", 1)) if is_there else 0
        is_rolling = is_there and strategy == "RollingUpdate"
        known = self._apps.setdefault(obj["metadata"]["uid"], _App(wanted, is_rolling))
        if wanted < known.wanted or not is_rolling:
            known.eased_ns = event.at_ns
        known.wanted, known.is_rolling = wanted, is_rolling

    def _set(self, event: RevisionCommitted) -> None:
        obj = decode_current(event.value) or decode_current(event.previous) or {}
        uid, wanted = obj["metadata"]["uid"], int(obj["spec"].get("replicas", 1))
        known = self._sets.get(uid)
        if known is None:
            known = self._sets[uid] = _Set(event.key, "", 0)
        known.app, known.revision = read_owner(obj), parse_revision(obj)
        before = known.sizes[-1][1] if known.sizes else wanted
        if event.value is None or is_leaving(obj):
            wanted = 0
        if not known.sizes or wanted != before:
            known.sizes.append((event.at_ns, wanted))
        if wanted < before:
            known.lowered = self._judge_lowering(uid, known, event)
        self._note_completeness(uid, event.at_ns)

    def _judge_lowering(self, uid: str, known: _Set, event: RevisionCommitted) -> _Lowered:
        siblings = [each for each in self._sets if known.app and self._sets[each].app == known.app]
        newest = max(siblings, key=lambda each: (self._sets[each].revision, each), default=uid)
        app = self._apps.get(known.app)
        if newest == uid or app is None or event.request not in self._sizings:
            return _Lowered(event.at_ns, is_old=False)
        since_ns = event.at_ns - self._late_ns
        was_complete = self._sets[newest].complete_ns >= since_ns or app.eased_ns >= since_ns
        return _Lowered(event.at_ns, is_old=True, was_complete=was_complete)

    def _pod(self, event: RevisionCommitted) -> None:
        now, before = decode_current(event.value), decode_current(event.previous)
        shown = now or before or {}
        uid, owner = shown["metadata"]["uid"], read_owner(shown)
        if owner not in self._sets:
            self._pods.pop(uid, None)
            return
        known = self._pods.setdefault(uid, _Pod(owner, event, changed_ns=event.at_ns))
        was_active, was_ready = known.is_active, known.is_ready
        known.commit, known.owner, known.node = event, owner, get_node_name(shown) or known.node
        known.is_active = now is not None and is_active(now)
        known.is_ready = known.is_active and now is not None and is_ready(now)
        if (known.is_active, known.is_ready) != (was_active, was_ready):
            known.changed_ns = event.at_ns
        if known.is_ready:
            known.ready_until_ns = _ALWAYS
        elif was_ready:
            known.ready_until_ns = event.at_ns
        asked = self._deletes.get(event.request or 0)
        if was_active and not known.is_active and asked is not None:
            known.is_told = True
            if was_ready and event.at_ns >= self._judges_from_ns:
                self._judge(uid, known, asked, event)
        if event.value is None and event.at_ns - self._late_ns > known.ready_until_ns:
            self._pods.pop(uid, None)
        self._note_completeness(owner, event.at_ns)

    def _note_completeness(self, uid: str, at_ns: int) -> None:
        known = self._sets[uid]
        ready = sum(each.is_ready for each in self._list_pods(uid))
        is_complete = ready >= known.sizes[-1][1]
        if is_complete:
            known.complete_ns = _ALWAYS
        elif known.complete_ns == _ALWAYS:
            known.complete_ns = at_ns

    # What is judged.

    def _judge(self, uid: str, pod: _Pod, asked: RequestReceived, event: RevisionCommitted) -> None:
        owner, zone = self._sets[pod.owner], self._find_zone(pod)
        since_ns = event.at_ns - self._late_ns
        lowered = owner.lowered
        if lowered is not None:
            since_ns = min(since_ns, lowered.at_ns - self._late_ns)
        if zone is None or self._is_shared(uid, pod, zone, since_ns):
            return
        what = f"{event.key}, the last ready pod of {owner.key} in zone {zone!r}, was deleted"
        if lowered is not None and lowered.is_old and not lowered.was_complete and self._is_steady(pod, since_ns):
            raise Violated(self.name, f"{what} for a rollout whose new pods are not all ready", [asked, event])
        surplus, cheaper = self._count_surplus(pod, since_ns), self._list_cheaper(uid, pod, since_ns)
        if surplus <= len(cheaper):
            more = f"{surplus} had to go, and {len(cheaper)} others could"
            raise Violated(self.name, f"{what}: {more}", [asked, event, *(each.commit for each in cheaper)])

    def _is_shared(self, uid: str, pod: _Pod, zone: str, since_ns: int) -> bool:
        """Whether another pod of the workload is ready in the zone, or was lately. That it has deleted another pod of
        the same set itself the controller knows."""
        for other, each in self._list_related(pod):
            is_known_to_go = each.is_told and each.owner == pod.owner
            if other != uid and not is_known_to_go and each.ready_until_ns >= since_ns:
                node = self._nodes.get(each.node)
                if node is None or node.zone == zone or node.since_ns > since_ns:
                    return True
        return False

    def _is_steady(self, pod: _Pod, since_ns: int) -> bool:
        """Whether nothing happened to the pods of a set but that some were deleted by its controller."""
        return all(each.is_told or each.changed_ns < since_ns for each in self._list_pods(pod.owner))

    def _count_surplus(self, pod: _Pod, since_ns: int) -> int:
        """How many more there are than the set wants, with this one: at most, as far as who decides may know."""
        there = sum(
            each is pod or (not each.is_told and (each.is_active or each.changed_ns >= since_ns))
            for each in self._list_pods(pod.owner)
        )
        sizes = self._sets[pod.owner].sizes
        lately = [
            wanted
            for place, (_, wanted) in enumerate(sizes)
            if place == len(sizes) - 1 or sizes[place + 1][0] > since_ns
        ]
        return there - min(lately)

    def _list_cheaper(self, uid: str, pod: _Pod, since_ns: int) -> list[_Pod]:
        """Those of the same set that could have gone instead, all of them, for certain."""
        steady = [
            (other, each)
            for other, each in self._list_related(pod)
            if other != uid and each.is_active and each.changed_ns < since_ns
        ]
        own = [each for _, each in steady if each.owner == pod.owner]
        found = [each for each in own if not each.is_ready]
        kept: dict[str, None] = {}
        for each in own:
            zone = self._find_zone(each)
            node = self._nodes.get(each.node)
            if not each.is_ready or zone is None or node is None or node.since_ns > since_ns:
                continue
            if zone in kept:
                found.append(each)
            kept[zone] = None
        return found

    def _find_zone(self, pod: _Pod) -> str | None:
        node = self._nodes.get(pod.node)
        return None if node is None else node.zone

    def _list_pods(self, owner: str) -> Iterator[_Pod]:
        return (each for each in self._pods.values() if each.owner == owner)

    def _list_related(self, pod: _Pod) -> Iterator[tuple[str, _Pod]]:
        app = self._sets[pod.owner].app
        for uid, each in self._pods.items():
            if each.owner == pod.owner or (app and self._sets[each.owner].app == app):
                yield uid, each

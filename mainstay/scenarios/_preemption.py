"""A controller that makes room for important pods: a small one, of the scenarios' own, beside the real scheduler.

A pod that was refused everywhere is *promised* a node where less important pods take the room. The promise is written
into the Node, on condition that no other scheduler has done so, and closes it (`unschedulable`): the server refuses at
the commit whatever any scheduler binds there, but for pods that bear it, as important ones do. Only then are the others
told to go. So their replacements, and any scheduler that places them, find no room; there is no other agreement between
schedulers, and none is needed. When the pod has a node, or is gone, or there is nothing left on the promised one that
could make room, the node is opened again.

Only CPU is looked at.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_resources import CPU, count_requests, read_allocatable
from mainstay.client.cache import Cache
from mainstay.client.entry import Change
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.decision import Decision, Delete, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from mainstay.scenarios._workloads import PODS_PREFIX, decode
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted
from mainstay.sim.cluster.world import World

PROMISED: Final = "example.com/promised-to"
NODES_PREFIX: Final = "core/nodes/"


def the_important_that_wait(change: Change, pods: Cache) -> Iterable[ObjectKey]:
    """A pod that comes, changes or goes may make room for each of them, or take it."""
    return [entry.key for entry in pods.entries() if is_waiting(pod := entry.object()) and read_priority(pod) > 0]


def whom_it_is_promised_to(change: Change) -> Iterable[ObjectKey]:
    """Also if that pod has long gone: the node has to be opened again."""
    entry = change.new
    promise = None if entry is None else read_promise(entry.object())
    return [] if promise is None else [promise[0]]


class PreemptionController(Controller):
    name = "preempting"
    kind = PODS
    reads = (
        Reads(PODS, wakes_among=the_important_that_wait),
        Reads(NODES, wakes=whom_it_is_promised_to, wakes_among=the_important_that_wait),
    )
    writes = (PODS, NODES)
    says_stalled = False

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        pod, nodes = view.get(PODS, key), view.all(NODES)
        uid = "" if pod is None or not is_waiting(pod) else pod["metadata"]["uid"]
        promised = [(node, promise[1]) for node in nodes if (promise := read_promise(node)) and promise[0] == key]
        unneeded = tuple([opened(node) for node, to in promised if is_unneeded(to, uid)])
        if unneeded or pod is None or not uid or not read_priority(pod):
            return Decision(unneeded)
        pods = view.all(PODS)
        mine = [node for node, to in promised if to == uid]
        if mine:
            return self._make_room(pod, mine[0], pods)
        if not _was_refused(pod):
            return Decision()  # It is the scheduler's turn.
        choices = [
            (victims, node) for node in nodes if (victims := victims_on(node, pod, pods)) and not _is_closed(node)
        ]
        if not choices:
            return Decision()  # Each change of a pod or node is a reason to look again.
        _, chosen = min(choices, key=lambda each: (len(each[0]), each[1]["metadata"]["name"]))
        return Decision((closed(chosen, pod),))

    def _make_room(self, pod: Object, node: Object, pods: Sequence[Object]) -> Decision:
        if _short(node, pod, pods) <= 0:
            return Decision()  # The scheduler sees it, and no other pod may have it.
        if _short(node, pod, [each for each in pods if not pod_state.is_leaving(each)]) <= 0:
            return Decision()  # It is about to be so.
        victims = victims_on(node, pod, pods)
        if not victims:
            return Decision(broken(node))
        return Decision(tuple([_told_to_go(each) for each in victims]))


def is_waiting(pod: Object) -> bool:
    return pod_state.is_active(pod) and not pod_state.get_node_name(pod)


def is_unneeded(promised_to: str, waits: str) -> bool:
    """A promise to one uid, while the pod of that name that waits, if any, has this one."""
    return promised_to != waits


def read_priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def read_promise(node: Object) -> tuple[ObjectKey, str] | None:
    """The pod that a node is promised to, and its uid."""
    text = (node["metadata"].get("annotations") or {}).get(PROMISED)
    if not text:
        return None
    namespace, name, uid = str(text).split("/")
    return ObjectKey(namespace, name), uid


def victims_on(node: Object, pod: Object, pods: Sequence[Object]) -> list[Object]:
    """Those on a node that would have to go for a pod, the least important first. None, if that would not do."""
    short = _short(node, pod, [each for each in pods if not pod_state.is_leaving(each)])
    found: list[Object] = []
    there = [each for each in _on(node, pods) if read_priority(each) < read_priority(pod) and pod_state.is_active(each)]
    for each in sorted(there, key=lambda each: (read_priority(each), each["metadata"]["name"])):
        if short <= 0:
            break
        found.append(each)
        short -= count_requests(each).get(CPU, 0)
    return found if short <= 0 else []


def closed(node: Object, pod: Object) -> Patch:
    """Promised to a pod, if it is still as it was seen: it has not been promised to another pod meanwhile."""
    metadata = pod["metadata"]
    promise = f"{metadata['namespace']}/{metadata['name']}/{metadata['uid']}"
    return _patched(node, {"metadata": {"annotations": {PROMISED: promise}}, "spec": {"unschedulable": True}})


def opened(node: Object) -> Patch:
    return _patched(node, {"metadata": {"annotations": {PROMISED: None}}, "spec": {"unschedulable": None}})


def broken(node: Object) -> tuple[Patch, ...]:
    """A promise that cannot be kept any more: others have the room, and are as important."""
    return (opened(node),)


def _patched(node: Object, body: Object) -> Patch:
    metadata = node["metadata"]
    key = ObjectKey("", metadata["name"])
    return Patch(
        NODES,
        key,
        metadata["uid"],
        body,
        resource_version=metadata["resourceVersion"],
        freshness=Freshness.SEEN_VERSION,
    )


def _told_to_go(pod: Object) -> Delete:
    metadata = pod["metadata"]
    return Delete(
        PODS, ObjectKey(metadata["namespace"], metadata["name"]), metadata["uid"], freshness=Freshness.MAY_BE_STALE
    )


def _on(node: Object, pods: Sequence[Object]) -> list[Object]:
    name = node["metadata"]["name"]
    return [pod for pod in pods if pod_state.get_node_name(pod) == name and not pod_state.is_over(pod)]


def _short(node: Object, pod: Object, pods: Sequence[Object]) -> int:
    """How much there is too little of on a node for a pod, if these are there."""
    taken = sum(count_requests(each).get(CPU, 0) for each in _on(node, pods))
    return count_requests(pod).get(CPU, 0) + taken - read_allocatable(node).get(CPU, 0)


def _is_closed(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _was_refused(pod: Object) -> bool:
    said = pod_state.find_condition(pod, "PodScheduled")
    return said is not None and said.get("status") == "False"


class Promises:
    """A pod is promised one node at a time; room is made only there, only by less important pods, and only so much."""

    name = "promises"

    def __init__(self, preemptors: Sequence[str], evicted_max: int) -> None:
        """For one important pod, no more than so many have to go."""
        self._preemptors = preemptors
        self._evicted_max = evicted_max
        self._promised: dict[str, tuple[str, RevisionCommitted]] = {}  # By node: the uid of a pod.
        self._priorities: dict[str, int] = {}  # By uid.
        self._asked: dict[int, None] = {}
        self._evicted: dict[str, list[RevisionCommitted]] = {}  # By uid of the one for whom.

    def saw(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            if event.method == "DELETE" and event.who in self._preemptors:
                self._asked[event.request] = None
        elif not isinstance(event, RevisionCommitted):
            return
        elif event.key.startswith(NODES_PREFIX):
            self._node(event.key.removeprefix(NODES_PREFIX), event)
        elif event.key.startswith(PODS_PREFIX):
            self._pod(event)

    async def at_end(self, world: World) -> None:
        """The stage looks at how it ended."""

    def _node(self, name: str, commit: RevisionCommitted) -> None:
        self._promised.pop(name, None)
        promise = None if commit.value is None else read_promise(decode(commit.value))
        if promise is None:
            return
        for other, (uid, since) in self._promised.items():
            if uid == promise[1]:
                raise Violated(self.name, f"{promise[0]} was promised both {name} and {other}", [since, commit])
        self._promised[name] = promise[1], commit

    def _pod(self, commit: RevisionCommitted) -> None:
        if commit.value is not None:
            pod = decode(commit.value)
            self._priorities[pod["metadata"]["uid"]] = read_priority(pod)
        if commit.request not in self._asked or commit.previous is None:
            return
        pod = decode(commit.previous)
        if not pod_state.is_active(pod):
            return
        promise = self._promised.get(pod_state.get_node_name(pod))
        if promise is None:
            text = f"{commit.key} was evicted from {pod_state.get_node_name(pod)}, which is not promised to any pod"
            raise Violated(self.name, text, [commit])
        uid, since = promise
        if self._priorities[uid] <= read_priority(pod):
            raise Violated(self.name, f"{commit.key} was evicted for a pod of no higher priority", [since, commit])
        evicted = self._evicted.setdefault(uid, [])
        evicted.append(commit)
        if len(evicted) > self._evicted_max:
            raise Violated(self.name, f"{len(evicted)} pods were evicted for one", [since, *evicted])

"""A controller of DaemonSets: a small one, of the scenario's own, on the production runtime.

On each node there is one pod of each set. A pod is made for a node, by its uid, and says so: whether the scheduler has
bound it already makes no difference, and a node that comes again under the same name is another one. A pod that has
failed stays for as long as the next attempt has to wait, which is longer each time: how often it was tried is said by
the pod itself, so a controller that restarts continues the count of the last one.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import DAEMON_SETS, NODES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.retry_shape import NO_BOUND, RetryShape
from mainstay.client.cache import Cache
from mainstay.client.entry import Change
from mainstay.client.indexes import OWNER
from mainstay.controllers.pods.slots import short_hash
from mainstay.controllers.replicaset.replacement import over_at
from mainstay.loop.controller import Controller, Reads, owner, reference_to
from mainstay.loop.decision import DONE, Action, Create, Decision, Delete, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View

NODE_UID: Final = "example.com/node-uid"
FAILURES: Final = "example.com/failures"
_SHAPE: Final = RetryShape(
    attempts_max=NO_BOUND, first_delay=timedelta(seconds=5), delay_max=timedelta(minutes=2), jitter=0
)


def all_sets(change: Change, sets: Cache) -> Iterable[ObjectKey]:
    """A node that comes or goes concerns each of them."""
    is_new = change.old is None or change.new is None
    return [entry.key for entry in sets.entries()] if is_new else []


class DaemonSetController(Controller):
    name = "daemons"
    kind = DAEMON_SETS
    reads = (Reads(NODES, wakes_among=all_sets), Reads(PODS, wakes=owner(DAEMON_SETS), indexes=(OWNER,)))
    writes = (PODS,)

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        found = view.get(DAEMON_SETS, key)
        if found is None or pod_state.is_leaving(found):
            return Decision()
        nodes = {node["metadata"]["uid"]: node for node in view.all(NODES)}
        pods: dict[str, list[Object]] = {uid: [] for uid in nodes}
        actions: list[Action] = []
        for pod in filter(is_counted, view.owned_by(PODS, found["metadata"]["uid"])):
            there = pods.get(read_node_uid(pod))
            if there is not None:
                there.append(pod)
            elif not pod_state.is_leaving(pod):
                actions.append(_removed(pod))
        wakes: list[datetime] = []
        for uid, own in pods.items():
            at = not_before(own)
            if any(not pod_state.is_over(pod) for pod in own):
                continue
            if at is not None and at > view.now:
                wakes.append(at)
                continue
            actions += [_removed(pod) for pod in own if not pod_state.is_leaving(pod)]
            actions.append(Create(PODS, a_daemon(found, nodes[uid], own)))
        result = WakeAt(min(wakes), "a pod that keeps failing is replaced") if wakes else DONE
        return Decision(tuple(actions), result)


def is_counted(pod: Object) -> bool:
    """From when it is made, and not only from when it has a node."""
    return True


def read_node_uid(pod: Object) -> str:
    """The node that a pod was made for."""
    return str(pod["metadata"]["annotations"][NODE_UID])


def not_before(own: Sequence[Object]) -> datetime | None:
    """When the pods of a node, all of which have failed, may get a successor. The first gets one at once."""
    if not own:
        return None
    last = max(own, key=read_failures)
    return over_at(last) + (_SHAPE.delay(read_failures(last), 0) if read_failures(last) else timedelta(0))


def read_failures(pod: Object) -> int:
    """How many have failed on its node before it."""
    return int(pod["metadata"]["annotations"][FAILURES])


def build_pod_name(found: Object, node: Object, failures: int) -> str:
    """Follows from what it is for: a retry finds it."""
    metadata = found["metadata"]
    return f"{metadata['name']}-{short_hash(metadata['uid'], node['metadata']['uid'], str(failures))}"


def a_daemon(found: Object, node: Object, before: Sequence[Object]) -> Object:
    metadata, template = found["metadata"], found["spec"]["template"]
    failures = max((read_failures(pod) + 1 for pod in before), default=0)
    field = {"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}
    wanted = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {
        "metadata": {
            "name": build_pod_name(found, node, failures),
            "namespace": metadata["namespace"],
            "labels": template["metadata"]["labels"],
            "annotations": {NODE_UID: node["metadata"]["uid"], FAILURES: str(failures)},
            "ownerReferences": [reference_to(found, DAEMON_SETS)],
        },
        "spec": {
            **template["spec"],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}},
        },
    }


def _removed(pod: Object) -> Delete:
    metadata = pod["metadata"]
    return Delete(
        PODS, ObjectKey(metadata["namespace"], metadata["name"]), metadata["uid"], freshness=Freshness.MAY_BE_STALE
    )

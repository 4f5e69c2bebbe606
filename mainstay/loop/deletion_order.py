"""Which pods go first when there are too many: those whose loss costs least.

In this order: without a node; pending before running; not ready; then those whose failure domain keeps another ready
pod of the same workload; then what `controller.kubernetes.io/pod-deletion-cost` says; on the node where most of them
are; ready for the shortest time; restarted most often; youngest; by name. But for the failure domain this is the order
in which kube-controller-manager does it (without its rounding of ages to powers of two).

The failure domain comes before the cost: a cost is a wish, and the last healthy pod of a zone is what a zone recovers
with. When only such pods are left they go, too: a user who asks for fewer pods than zones gets that. That a rollout
does not ask for it too early is taken care of in controllers/deployment/rolling.py.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES
from mainstay.api.object_key import ObjectKey
from mainstay.client.indexes import ZONE
from mainstay.loop.view import View

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def find_zones(view: View, pods: Sequence[Object]) -> dict[str, str]:
    """The zone of each node that has one of these pods: their failure domains. Nodes that say none are all in the same.
    The view must show nodes, with the index `ZONE`."""
    names = sorted({pod_state.get_node_name(pod) for pod in pods} - {""})
    return {name: "".join(view.find_values(NODES, ObjectKey("", name), ZONE.name)) for name in names}


def chosen(
    pods: Sequence[Object],
    count: int,
    *,
    related: Sequence[Object] = (),
    successors: Sequence[Object] = (),
    zones: Mapping[str, str] | None = None,
) -> list[Object]:
    """So many of these pods, those first that cost least.

    `related` are other pods of the same workload, those of its other ReplicaSets; of these, `successors` belong to the
    set that the workload moves to, and are going to stay. `zones` has the failure domain of each node; a node that is
    not in it is in the same as all others of which nothing is known.
    """
    crowd = _crowds([*pods, *related])
    last = last_of_domain(pods, successors, zones or {})

    def order(pod: Object) -> tuple[object, ...]:
        node = pod_state.get_node_name(pod)
        since = pod_state.ready_since(pod)
        return (
            bool(node),
            _PHASES.get((pod.get("status") or {}).get("phase", ""), 0),
            pod_state.is_ready(pod),
            pod["metadata"]["uid"] in last,
            _cost(pod),
            -crowd.get(node, 0) if node else 0,
            -since.timestamp() if since is not None else 0.0,
            -_restarts(pod),
            -pod_state.created_at(pod).timestamp(),
            pod["metadata"]["name"],
        )

    return sorted(pods, key=order)[:count]


def last_of_domain(pods: Sequence[Object], successors: Sequence[Object], zones: Mapping[str, str]) -> frozenset[str]:
    """The uids of those that would leave a failure domain without a ready pod if all others of `pods` went first.

    Of several ready ones in a domain, the one that has been ready for longest stays.
    """
    elsewhere = frozenset(_zone(pod, zones) for pod in successors if _serves(pod))
    kept: dict[str, Object] = {}
    for pod in sorted((pod for pod in pods if _serves(pod)), key=_seniority):
        kept.setdefault(_zone(pod, zones), pod)
    return frozenset(pod["metadata"]["uid"] for zone, pod in kept.items() if zone not in elsewhere)


def _serves(pod: Object) -> bool:
    return pod_state.is_active(pod) and pod_state.is_ready(pod)


def _zone(pod: Object, zones: Mapping[str, str]) -> str:
    return zones.get(pod_state.get_node_name(pod), "")


def _seniority(pod: Object) -> tuple[int, float, str]:
    since = pod_state.ready_since(pod)
    return (-_cost(pod), since.timestamp() if since is not None else 0.0, pod["metadata"]["name"])


def _crowds(pods: Sequence[Object]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in pods:
        if pod_state.is_active(pod):
            node = pod_state.get_node_name(pod)
            found[node] = found.get(node, 0) + 1
    return found


def _cost(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0  # The server refuses these; a client may have got one in before.


def _restarts(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(each.get("restartCount") or 0) for each in statuses), default=0)

"""How urgent a workload is in the queue of its controller: repair of what users depend on goes before clean-up."""

from mainstay.api.kind import Object
from mainstay.api.pod_state import is_leaving
from mainstay.loop.queue.items import Priority


def rank_workload(workload: Object) -> Priority:
    """Of a kind with `spec.replicas` and `status.availableReplicas`."""
    wanted = (workload.get("spec") or {}).get("replicas", 1)
    if is_leaving(workload) or wanted == 0:
        return Priority.BACKGROUND
    available = (workload.get("status") or {}).get("availableReplicas") or 0
    return Priority.HIGH if available < wanted else Priority.NORMAL

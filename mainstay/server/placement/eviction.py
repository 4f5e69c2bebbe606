"""Evicting a pod: a deletion that disruption budgets may refuse, and that they pay for in the same transaction.

So there is no moment in which a budget has paid for a pod that stays, or a pod goes that no budget has paid for,
whatever crashes in between. Which budget pays is decided from the pod and the budgets as they were read; if the pod has
changed since, or the budget covers others now, it is decided again. That another eviction has used the budget too
changes nothing: the payment is worked out from what is left at the commit (server/storage/shared_writes.py).

As in Kubernetes a pod that is not ready may go without being paid for, as long as its budget has enough that are.

While evictions are held (holds.py) none is committed, whatever the budgets say.
"""

from collections.abc import Sequence
from typing import Final

from mainstay.api import labels, times
from mainstay.api.causes import DISRUPTION_BUDGET
from mainstay.api.errors import StatusError, StatusReason, forbidden
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds.pods import POD
from mainstay.api.kinds.policy import POD_DISRUPTION_BUDGET
from mainstay.server.placement.holds import unless_frozen
from mainstay.server.request.options import DeleteOptions
from mainstay.server.storage.commit_points import NOTHING, TransactionParts, joined
from mainstay.server.storage.keyspace import build_prefix
from mainstay.server.storage.shared_writes import SharedWrite
from mainstay.server.storage.stored import StoredWrite, read, stored
from mainstay.server.storage.write_context import WriteContext
from mainstay.server.storage.writes import ObjectWriter
from mainstay.store.interface import Entry, Put, Store, Write

DISRUPTED_MAX: Final = 2000  # Evictions of one budget that its controller has not yet heard of.
RETRY_AFTER_S: Final = 10
_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."


class Evictions:
    """Deletes pods if their budgets allow and evictions are not held."""

    def __init__(self, store: Store, writes: ObjectWriter) -> None:
        self._store = store
        self._writes = writes

    async def evict(
        self, namespace: str, name: str, options: DeleteOptions, now: str, context: WriteContext
    ) -> StoredWrite:
        """Raises `StatusError`: 404; 429 if a budget or a Hold does not allow it; 500 for several budgets."""

        async def parts_for(pod: Object) -> TransactionParts:
            held = TransactionParts(shared=[unless_frozen(namespace, times.parse_time(now))])
            return joined((held, await _payment(self._store, POD_DISRUPTION_BUDGET, pod, now)))

        return await self._writes.delete(POD, namespace, name, options, context, parts_for)


async def _payment(store: Store, budgets: Kind, pod: Object, now: str) -> TransactionParts:
    """What goes with the deletion of a pod. Raises `StatusError`."""
    if _is_free(pod):
        return NOTHING
    entry = await _find_budget(store, budgets, pod)
    if entry is None:
        return NOTHING
    seen = read(budgets, entry)
    is_ready, name = _is_ready(pod), pod["metadata"]["name"]

    def change(found: Entry | None) -> Sequence[Write] | None:
        budget = None if found is None else read(budgets, found)
        if budget is None or _identity(budget) != _identity(seen):
            return None  # Not the one that was looked at: decide again.
        if not is_ready and _may_go_unready(budget):
            return ()
        return (Put(entry.key, stored(_paid(budget, name, now))),)

    return TransactionParts(shared=[SharedWrite(entry.key, change)])


def _identity(budget: Object) -> tuple[str, int]:
    """As long as it is the same, a budget covers the same pods."""
    return budget["metadata"]["uid"], budget["metadata"].get("generation", 0)


async def _find_budget(store: Store, budgets: Kind, pod: Object) -> Entry | None:
    page = await store.range(build_prefix(budgets, pod["metadata"]["namespace"]))
    found = [entry for entry in page.entries if _covers(read(budgets, entry), pod)]
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise StatusError(500, StatusReason.INTERNAL_ERROR, text)
    return found[0] if found else None


def _covers(budget: Object, pod: Object) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and labels.from_object(selector).matches(pod["metadata"].get("labels") or {})


def _is_free(pod: Object) -> bool:
    """A pod that does not run, or is on its way out already, is none that a budget would miss."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _may_go_unready(budget: Object) -> bool:
    """Whether a pod that is not ready may go without being paid for."""
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    return bool(0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0))


def _paid(budget: Object, name: str, now: str) -> Object:
    """The budget after one more disruption. Raises `StatusError` (429) if there is none left."""
    status, who = budget.get("status") or {}, budget["metadata"]["name"]
    allowed, disrupted = status.get("disruptionsAllowed", 0), status.get("disruptedPods") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _violated(f"The disruption budget {who} is still being processed by the server.", RETRY_AFTER_S)
    if allowed < 0:
        raise forbidden("poddisruptionbudgets", "policy", who, "pdb disruptions allowed is negative")
    if len(disrupted) > DISRUPTED_MAX:
        text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("poddisruptionbudgets", "policy", who, text)
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _violated(f"The disruption budget {who} needs {needs} healthy pods and has {has} currently")
    paid = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, name: now}}
    return {**budget, "status": paid}


def _violated(message: str, retry_after_s: int = 0) -> StatusError:
    """When to retry stands in the body alone: by a header clients would retry without showing why."""
    details: Object = {"causes": [{"reason": DISRUPTION_BUDGET, "message": message}]}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return StatusError(429, StatusReason.TOO_MANY_REQUESTS, _VIOLATED, details)

"""Evicting a pod: a deletion that disruption budgets may refuse, and that they pay for in the same transaction.

So there is no moment in which a budget has paid for a pod that stays, or a pod goes that nobody has paid for, whatever
crashes in between. Who pays is decided from the pod and the budgets as they were read; if the pod has changed since, or
the budget covers others now, it is decided again. That somebody else has used the budget too changes nothing: the
payment is worked out from what is left at the commit (server/storage/shared_writes.py).

As in Kubernetes a pod that is not ready may go without being paid for, as long as its budget has enough that are.

While somebody holds evictions (holds.py) none is committed, whatever the budgets say.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mainstay.api import labels, times
from mainstay.api.errors import ApiError, Reason, forbidden, not_found
from mainstay.api.kind import Kind, Object
from mainstay.server.placement.holds import unless_frozen
from mainstay.server.request.options import DeleteOptions
from mainstay.server.storage.commit_points import NOTHING, TransactionParts, joined
from mainstay.server.storage.keyspace import key_of, prefix_of
from mainstay.server.storage.shared_writes import SharedWrite
from mainstay.server.storage.stored import read, stored
from mainstay.server.storage.write_context import WriteContext
from mainstay.server.storage.writes import Writes
from mainstay.store.interface import Entry, Put, Store, Write

ATTEMPTS_MAX: Final = 20
DISRUPTED_MAX: Final = 2000  # Evictions of one budget that its controller has not yet heard of.
RETRY_AFTER_S: Final = 10
_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."


class _DecideAnew(Exception):
    """The budget is not the one that was looked at."""


async def evict(
    store: Store,
    writes: Writes,
    pods: Kind,
    budgets: Kind,
    namespace: str,
    name: str,
    options: DeleteOptions,
    now: str,
    context: WriteContext,
) -> None:
    """Delete a pod if its budget allows and nobody holds evictions. Raises `ApiError`: 404, 429 if that is not so, 500
    for several budgets."""
    if await writes.repeated(context) is not None:
        return
    for _ in range(ATTEMPTS_MAX):
        entry = await store.get(key_of(pods, namespace, name))
        if entry is None:
            raise not_found(pods.plural, pods.group, name)
        pod = read(pods, entry)
        paid = await _payment(store, budgets, pod, now)
        also = joined((TransactionParts(shared=[unless_frozen(namespace, times.parse_time(now))]), paid))
        if options.dry_run:
            for each in also.shared:
                each.change(await store.get(each.key))
        try:
            await writes.delete(pods, namespace, name, _pinned(options, pod), context, also)
        except _DecideAnew:
            continue
        except ApiError as error:
            # The pod has changed since it was looked at. Who has named a version themselves gets the conflict.
            is_ours = error.code == 409 and not (error.details or {}).get("causes")
            if not is_ours or options.resource_version or _is_other(options, pod):
                raise
            continue
        return
    raise ApiError(503, Reason.SERVICE_UNAVAILABLE, f'pods "{name}" is being changed all the time', retry_after_s=1)


def _pinned(options: DeleteOptions, pod: Object) -> DeleteOptions:
    """Only the pod that was looked at, as it was. What becomes of its dependents is said as with any deletion."""
    meta = pod["metadata"]
    return replace(
        options,
        uid=options.uid or meta["uid"],
        resource_version=options.resource_version or meta["resourceVersion"],
    )


def _is_other(options: DeleteOptions, pod: Object) -> bool:
    return bool(options.uid) and options.uid != pod["metadata"]["uid"]


async def _payment(store: Store, budgets: Kind, pod: Object, now: str) -> TransactionParts:
    """What goes with the deletion of a pod. Raises `ApiError`."""
    if _is_free(pod):
        return NOTHING
    entry = await _budget_of(store, budgets, pod)
    if entry is None:
        return NOTHING
    seen = read(budgets, entry)
    is_ready, name = _is_ready(pod), pod["metadata"]["name"]

    def change(found: Entry | None) -> Sequence[Write]:
        budget = None if found is None else read(budgets, found)
        if budget is None or _identity(budget) != _identity(seen):
            raise _DecideAnew
        if not is_ready and _may_go_unready(budget):
            return ()
        return (Put(entry.key, stored(_paid(budget, name, now))),)

    return TransactionParts(shared=[SharedWrite(entry.key, change)])


def _identity(budget: Object) -> tuple[str, int]:
    """As long as it is the same, a budget covers the same pods."""
    return budget["metadata"]["uid"], budget["metadata"].get("generation", 0)


async def _budget_of(store: Store, budgets: Kind, pod: Object) -> Entry | None:
    page = await store.range(prefix_of(budgets, pod["metadata"]["namespace"]))
    found = [entry for entry in page.entries if _covers(read(budgets, entry), pod)]
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, Reason.INTERNAL_ERROR, text)
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
    """The budget after one more disruption. Raises `ApiError` (429) if there is none left."""
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


def _violated(message: str, retry_after_s: int = 0) -> ApiError:
    """When to try again is said in the body alone: by the header clients would go by themselves, and tell nobody."""
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return ApiError(429, Reason.TOO_MANY_REQUESTS, _VIOLATED, details)

"""Evicting a pod: a deletion that disruption budgets may refuse. A commit point: the budget pays first."""

from mainstay.api import labels
from mainstay.api.errors import ApiError, Reason, not_found
from mainstay.api.kind import Kind, Object, Propagation
from mainstay.server.escort import Escort
from mainstay.server.keyspace import key_of, prefix_of
from mainstay.server.options import DeleteOptions
from mainstay.server.stored import read, stored
from mainstay.server.writes import Writes
from mainstay.store.interface import Check, Committed, Entry, Put, Store

ATTEMPTS_MAX = 20


async def evict(
    store: Store,
    writes: Writes,
    pods: Kind,
    budgets: Kind,
    namespace: str,
    name: str,
    options: DeleteOptions,
    now: str,
    escort: Escort,
) -> None:
    """Delete a pod if its budget allows. Raises `ApiError`: 404, 429 if it does not, 500 for several budgets."""
    if await writes.repeated(escort) is not None:
        return
    for _ in range(ATTEMPTS_MAX):
        entry = await store.get(key_of(pods, namespace, name))
        if entry is None:
            raise not_found(pods.plural, pods.group, name)
        pod = read(pods, entry)
        budget = await _budget_of(store, budgets, namespace, pod)
        if budget is not None and _counts(pod):
            paid = _paid(read(budgets, budget), name, now)
            if not options.dry_run:
                checks = [Check(budget.key, budget.revision), Check(entry.key, entry.revision)]
                answer = await store.commit(checks, [Put(budget.key, stored(paid))])
                if not isinstance(answer, Committed):
                    continue
        wanted = DeleteOptions(
            options.dry_run, options.grace_period_s, Propagation.BACKGROUND, pod["metadata"]["uid"], ""
        )
        await writes.delete(pods, namespace, name, wanted, escort)
        return
    raise ApiError(503, Reason.SERVICE_UNAVAILABLE, f'pods "{name}" is being changed all the time', retry_after_s=1)


async def _budget_of(store: Store, budgets: Kind, namespace: str, pod: Object) -> Entry | None:
    page = await store.range(prefix_of(budgets, namespace))
    found = [entry for entry in page.entries if _covers(read(budgets, entry), pod)]
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, Reason.INTERNAL_ERROR, text)
    return found[0] if found else None


def _covers(budget: Object, pod: Object) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and labels.from_object(selector).matches(pod["metadata"].get("labels") or {})


def _counts(pod: Object) -> bool:
    """Only a pod that is ready, and not on its way out already, is one that a budget would miss."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]:
        return False
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or [])


def _paid(budget: Object, name: str, now: str) -> Object:
    """The budget after one more disruption. Raises `ApiError` (429) if there is none left."""
    status = budget.get("status") or {}
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0 or status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        who = budget["metadata"]["name"]
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {who} needs {needs} healthy pods and has {has} currently",
        }
        text = "Cannot evict pod as it would violate the pod's disruption budget."
        raise ApiError(429, Reason.TOO_MANY_REQUESTS, text, {"causes": [cause]})
    disrupted = {**(status.get("disruptedPods") or {}), name: now}
    return {**budget, "status": {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}}

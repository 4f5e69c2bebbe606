"""How much larger a ResourceQuota has to be for some pods to be made, and what else would do.

A quota refuses pods before there are any: the scheduler never sees them. So there is no decision to run again; whether
a change is enough is plain arithmetic, and done here by the rules that the server refuses by (plan/quotas.py).
"""

from collections.abc import Iterable
from typing import Final

from mainstay.api import kind_names
from mainstay.api.kind import Object
from mainstay.api.quantity import ZERO, Quantity
from mainstay.api.quota_refusal import show_missing
from mainstay.api.quota_usage import PODS, count_usage, find_missing, is_about
from mainstay.explain.cures.owner import find_workload, patched, set_requests
from mainstay.explain.cures.values import CureKind, TriedCure
from mainstay.explain.plan.quotas import QuotaBook, read_limit

_EXAMPLES: Final = {"cpu": "100m", "memory": "128Mi"}


def quota_cures(quotas: Iterable[Object], pod: Object, count: int = 1) -> tuple[TriedCure, ...]:
    """What lets so many pods like this one be made, given all ResourceQuotas of their namespace; nothing if they can.

    Each was tried: with it, all of them are let in. But for a container that has to say what it needs: how much that
    is, only its owner knows.
    """
    limits = sorted(quotas, key=lambda each: str(each["metadata"]["name"]))
    if not _refused(limits, pod, count):
        return ()
    said = _say_it(limits, pod)
    if said is not None:
        return (said,)
    raised, parts, commands = [], [], []
    for quota in limits:
        more = _missing(quota, pod, count)
        raised.append({**quota, "spec": {**quota["spec"], "hard": {**quota["spec"]["hard"], **more}}})
        if more:
            metadata, hard = quota["metadata"], quota["spec"]["hard"]
            listed = ", ".join(f"{name} from {hard[name]} to {more[name]}" for name in sorted(more))
            parts.append(f"raise quota {metadata['name']}: {listed}")
            patch = {"spec": {"hard": more}}
            commands.append(patched("resourcequota", metadata["name"], metadata.get("namespace") or "", patch, "merge"))
    found = []
    if parts and not _refused(raised, pod, count):
        text = f"{'; '.join(parts)}: then {_pods(count)} can be created"
        found.append(TriedCure((CureKind.RAISE_QUOTA,), text, (), "", " && ".join(commands), cost=20 + 10 * len(parts)))
    fewer = _fits(limits, pod, count)
    if 0 < fewer < count:
        text = f"request {count - fewer} fewer: {_pods(fewer)} can be created within the quota"
        found.append(TriedCure((CureKind.SCALE_DOWN,), text, (), "", cost=40))
    return tuple(found)


def _refused(quotas: Iterable[Object], pod: Object, count: int) -> bool:
    """Whether one of them is not let in."""
    return _fits(quotas, pod, count) < count


def _fits(quotas: Iterable[Object], pod: Object, count: int) -> int:
    book = QuotaBook(read_limit(quota) for quota in quotas)
    for number in range(count):
        if book.refusal(kind_names.PODS, pod, None):
            return number
        book.change(kind_names.PODS, pod, None)
    return count


def _missing(quota: Object, pod: Object, count: int) -> dict[str, str]:
    """What a quota has to allow, of all that it does not."""
    limit = read_limit(quota)
    if not is_about(limit.terms, PODS, pod):
        return {}
    found = {}
    for name, amount in count_usage(PODS, pod).items():
        if name in limit.hard and amount > ZERO:
            least = limit.used[name] + Quantity(amount.nano * count, amount.format)
            if least > limit.hard[name]:
                found[name] = str(Quantity(least.nano, limit.hard[name].format))
    return found


def _say_it(quotas: Iterable[Object], pod: Object) -> TriedCure | None:
    """A quota over CPU or memory wants every container to say how much it needs: more of it does not help."""
    for quota in quotas:
        limit = read_limit(quota)
        if not is_about(limit.terms, PODS, pod):
            continue
        missing = find_missing(limit.hard, pod)
        if missing:
            workload = find_workload(pod)
            text = f"specify {show_missing(missing)} (quota {limit.name} counts it)"
            container = (pod["spec"].get("containers") or [{}])[0].get("name", "")
            resources = {name.removeprefix("requests.") for name in missing}
            example = {name: amount for name, amount in _EXAMPLES.items() if name in resources}
            is_limit = any(name.startswith("limits.") for name in missing)
            command = "" if is_limit else set_requests(workload, container, example)
            return TriedCure((CureKind.SAY_REQUEST,), text, (), "", command, cost=20)
    return None


def _pods(count: int) -> str:
    return "the pod" if count == 1 else f"{count} pods"

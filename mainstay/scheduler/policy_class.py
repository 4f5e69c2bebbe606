"""What a placement policy makes of the class of a pod: the constraints that it adds, or turns into preferences.

All that decides about a pod, or explains a decision, asks for the class by `class_under`: the cycle, the recheck, a
replay, `plan` and `what_if` come to the same constraints. For a policy that only weighs scores it is the pod's
own class, and costs nothing.

`maxZoneSkew` is a hard spread constraint over zones, of the pods that the same owner controls. As with those of pods,
nodes without a zone are left out, and only nodes count that the pod's node selector and affinity allow; nodes whose
taints it does not tolerate do not count, so that a lost zone does not keep pods from the others. A pod without an owner
is a workload of its own, and has nothing to be spread over.
"""

from dataclasses import replace

from mainstay.api.memo import Memo, encoded
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.scheduler.cache.charge import WorkloadPods
from mainstay.scheduler.pod_class import PodClass, PodToPlace, SpreadConstraint
from mainstay.scheduler.policy import Policy

_memo: Memo[PodClass] = Memo()


def class_under(pod: PodToPlace, policy: Policy) -> PodClass:
    """The class of a pod that goes by a policy."""
    if policy.enforces_spread and not policy.max_zone_skew:
        return pod.pod_class
    own, workload = pod.pod_class, pod.charge.workload
    skew = policy.max_zone_skew if workload else 0
    is_relaxed = not policy.enforces_spread and any(each.is_hard for each in own.spread)
    if not skew and not is_relaxed:
        return own
    key = encoded([own.key, is_relaxed, skew and [policy.name, skew, workload]])
    found = _memo.get(key)
    if found is None:
        spread = tuple(replace(each, is_hard=False) for each in own.spread) if is_relaxed else own.spread
        if skew:
            spread = (*spread, _bound_skew(policy, workload))
        found = replace(own, key=key, spread=spread)
        _memo.put(key, found)
    return found


def _bound_skew(policy: Policy, workload: str) -> SpreadConstraint:
    return SpreadConstraint(
        key=ZONE_LABEL,
        max_skew=policy.max_zone_skew,
        is_hard=True,
        selector=WorkloadPods(workload),
        min_domains=1,
        honors_affinity=True,
        honors_taints=True,
        matches_itself=True,
        policy=policy.name,
    )

"""What ServiceLevelObjectives say about the workloads that go by the candidate. (SPEC F1, W8)

An objective counts for a stage if its target, a Deployment or a ReplicaSet, has created pods under the candidate since
the stage took effect. What a burn may lead to is in the table of evidence (loop/evidence.py):

- a budget that burns holds the gate, whatever the cause;
- one for which the table allows to roll back counts as a regression, if it began to burn after the stage took effect
  and no objective of a workload beside the candidate burns, too. Else the fault is probably elsewhere.

An objective that has not reported about the present template and its own present spec holds the gate as a stale signal.
One that reports that it has measured too little does not: how many samples a gate needs, the rollout itself says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mainstay.api.kind import Object
from mainstay.api.objectives import BURNING, TargetKind, find_targets
from mainstay.api.owners import find_controller
from mainstay.api.pod_state import find_condition
from mainstay.api.policy_scope import find_workload
from mainstay.api.well_known_labels import HASH_LABEL
from mainstay.controllers.policy_rollout.freshness import StaleSignal
from mainstay.loop.evidence import Evidence, EvidenceResponse, allowed
from mainstay.loop.signals import collect_slo_burn


@dataclass(frozen=True, slots=True)
class ObjectiveSignals:
    burning: tuple[Evidence, ...] = ()
    """About workloads under the candidate."""
    stale: tuple[StaleSignal, ...] = ()
    regressions: tuple[str, ...] = ()
    """In words, each: what the candidate is rolled back for."""


def judge_objectives(
    slos: Iterable[Object], candidate: Sequence[Object], baseline: Sequence[Object], since: datetime
) -> ObjectiveSignals:
    """`candidate` and `baseline` are the pods of both sides that were created since the stage took effect."""
    ours, theirs = _find_targets(candidate), _find_targets(baseline)
    burning: list[Evidence] = []
    stale: list[StaleSignal] = []
    is_elsewhere = False
    for slo in sorted(slos, key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"])):
        [target] = find_targets(slo["spec"])
        key = f"{slo['metadata']['namespace']}/{target}"
        uid = str((slo.get("status") or {}).get("targetUid") or "")
        if uid in theirs.get(key, ()):
            is_elsewhere = is_elsewhere or bool(collect_slo_burn((slo,), uid))
        if key not in ours:
            continue
        if uid not in ours[key] or not _is_current(slo):
            name = f"ServiceLevelObjective {slo['metadata']['namespace']}/{slo['metadata']['name']}"
            stale.append(StaleSignal(name, "", f"{name} has not reported about the present template of {target}"))
            continue
        burning += collect_slo_burn((slo,), uid)
    blamed = [
        each.words
        for each in burning
        if EvidenceResponse.ROLL_BACK in allowed((each,)) and each.since is not None and each.since > since
    ]
    return ObjectiveSignals(tuple(burning), tuple(stale), () if is_elsewhere else tuple(blamed))


def _find_targets(pods: Iterable[Object]) -> Mapping[str, set[str]]:
    """What objectives about these pods may name as their target (`risk/Deployment/web`), with the uids of the
    ReplicaSets that created them."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        owner, metadata = find_controller(pod), pod["metadata"]
        if owner is None or owner.get("kind") != TargetKind.REPLICA_SET:
            continue
        namespace, uid = metadata.get("namespace") or "", str(owner.get("uid") or "")
        found.setdefault(f"{namespace}/{TargetKind.REPLICA_SET}/{owner.get('name')}", set()).add(uid)
        if (metadata.get("labels") or {}).get(HASH_LABEL):
            deployment = find_workload(pod).rpartition("/")[2]
            found.setdefault(f"{namespace}/{TargetKind.DEPLOYMENT}/{deployment}", set()).add(uid)
    return found


def _is_current(slo: Object) -> bool:
    said = find_condition(slo, BURNING)
    generation = int(slo["metadata"].get("generation") or 0)
    return said is not None and int(said.get("observedGeneration") or 0) >= generation

"""The evidence behind what is done, or not done, about a workload: signals, their strength, and what they allow.

The same collectors that the components ask (loop/signals.py), on the objects of one moment: the workload and what it
owns, its pods and their nodes, and the reports of the controllers that have to act. Of nodes, the words that node
health has written down are read (api/node_health.py): how long a node was silent only that controller knows.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, JOBS, REPLICASETS
from mainstay.api.node_health import record_in
from mainstay.explain.debug.view import EvidenceView
from mainstay.loop.evidence import TABLE, Evidence, EvidenceResponse, Scope, Signal, Strength, allowed
from mainstay.loop.signals import (
    collect_controller_errors,
    collect_probe_transitions,
    collect_queue_age,
    collect_rollout_deadline,
    collect_slo_burn,
    collect_unobserved_generation,
)

PODS_MAX: Final = 20
_ACTING: Final = {
    DEPLOYMENTS: ("deployment", "replicaset"),
    REPLICASETS: ("replicaset",),
    JOBS: ("job",),
}
"""Whose work a workload waits for."""


def collect_about_workload(
    kind: KindName,
    workload: Object,
    owned: Iterable[Object],
    states: Sequence[Object],
    slos: Sequence[Object],
    now: datetime,
) -> tuple[Evidence, ...]:
    """About a workload, what it owns, and the controllers that have to act."""
    acting = _ACTING.get(kind, ())
    found = [*collect_rollout_deadline(workload)] if kind == DEPLOYMENTS else []
    for slo in slos:
        found += collect_slo_burn((slo,), (slo.get("status") or {}).get("targetUid") or "")
    for each in (workload, *owned):
        if "observedGeneration" in (each.get("status") or {}):
            found += collect_unobserved_generation(each, None, now)
    return (*found, *collect_queue_age(states, acting, now), *collect_controller_errors(states, acting, now))


def collect_about_pods(pods: Iterable[Object]) -> tuple[Evidence, ...]:
    """About pods that have a node, and are not ready."""
    bound = [pod for pod in pods if pod_state.is_active(pod) and pod_state.get_node_name(pod)]
    return tuple([piece for pod in bound for piece in collect_probe_transitions(pod)][:PODS_MAX])


def read_node_evidence(node: Object) -> tuple[Evidence, ...]:
    """What node health has written down about a node."""
    record = record_in(node)
    since = pod_state.parse_time_or_none(record.since)
    found = []
    for words in record.evidence:
        signal, _, strength = words.partition(" ")
        if signal in list(Signal) and strength.upper() in Strength.__members__:
            name = node["metadata"]["name"]
            detail = record.held or f"the node is {record.state}"
            found.append(Evidence(Signal(signal), Strength[strength.upper()], Scope.NODE, name, since, detail))
    return tuple(found)


def view_evidence(evidence: Iterable[Evidence]) -> tuple[EvidenceView, ...]:
    """The strongest first, each with what it allows by itself."""
    ordered = sorted(evidence, key=lambda each: (-each.strength, each.signal, each.name))
    return tuple(
        [
            EvidenceView(
                signal=str(each.signal),
                strength=each.strength.name.lower(),
                about=f"{each.scope.lower()} {each.name}".strip(),
                since=each.since,
                detail=each.detail,
                allows=tuple([str(one) for one in allowed((each,)).responses if one is not _ALWAYS]),
                never=TABLE[each.signal].may_not,
            )
            for each in ordered
        ]
    )


_ALWAYS: Final = EvidenceResponse.PUBLISH_CONDITION

"""The evidence behind what is done, or not done, about a workload: signals, their strength, and what they allow.

The same collectors that the components use (loop/signals.py), on the objects of one moment: the workload and what it
owns, its pods and their nodes, and the reports of the controllers that have to act. What a component remembers is taken
from the journal: since when a generation is not observed, from the versions of the object; how many bindings of a pod
the server has refused in a row, from the scheduler's records. Of nodes, the words that node health has written down are
read (api/node_health.py): how long a node was silent only that controller knows.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Final

from mainstay.api import pod_state
from mainstay.api.causes import BindingCause
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, JOBS, REPLICASETS
from mainstay.api.node_health import record_in
from mainstay.explain.debug.view import EvidenceView
from mainstay.explain.writers import Version
from mainstay.journal.record import DecisionRecord
from mainstay.loop.evidence import TABLE, Evidence, EvidenceResponse, Scope, Signal, Strength, allowed
from mainstay.loop.signals import (
    collect_bind_conflicts,
    collect_controller_errors,
    collect_probe_transitions,
    collect_queue_age,
    collect_rollout_deadline,
    collect_slo_burn,
    collect_unobserved_generation,
)

PODS_MAX: Final = 20
_NEVER: Final[Mapping[str, datetime]] = {}
_ACTING: Final = {
    DEPLOYMENTS: ("deployment", "replicaset"),
    REPLICASETS: ("replicaset",),
    JOBS: ("job",),
}
"""Whose work a workload waits for."""
_CONFLICTS: Final = frozenset(map(str, BindingCause)) - {
    BindingCause.ALREADY_BOUND,
    BindingCause.POD_DELETED,
    BindingCause.POD_GONE,
    BindingCause.OTHER,
}
"""Refusals after which a scheduler tries another node (scheduler/bindings.py)."""


def collect_about_workload(
    kind: KindName,
    workload: Object,
    owned: Iterable[Object],
    states: Sequence[Object],
    slos: Sequence[Object],
    now: datetime,
    *,
    set_uid: str = "",
    unobserved_since: Mapping[str, datetime] = _NEVER,
) -> tuple[Evidence, ...]:
    """About a workload, what it owns, and the controllers that have to act. `set_uid`: of the ReplicaSet of the present
    template, empty if there is none; `unobserved_since`: by uid of the object."""
    acting = _ACTING.get(kind, ())
    found = [*collect_rollout_deadline(workload)] if kind == DEPLOYMENTS else []
    found += collect_slo_burn(slos, set_uid) if set_uid else ()
    for each in (workload, *owned):
        if is_unobserved(each):
            found += collect_unobserved_generation(each, unobserved_since.get(each["metadata"].get("uid", "")), now)
    return (*found, *collect_queue_age(states, acting, now), *collect_controller_errors(states, acting, now))


def is_unobserved(obj: Object) -> bool:
    """Whether its status is about an older generation."""
    observed = (obj.get("status") or {}).get("observedGeneration")
    return observed is not None and int(observed) < int(obj["metadata"].get("generation") or 0)


def find_unobserved_since(obj: Object, versions: Sequence[Version]) -> datetime | None:
    """From when on the object has had its generation, as far as the journal goes back: a component that has seen each
    version has counted since then."""
    metadata = obj["metadata"]
    of_object = [each for each in versions if each.object["metadata"].get("uid") == metadata.get("uid")]
    first = next((each for each in of_object if _get_generation(each) == metadata.get("generation")), None)
    return None if first is None else first.at


def _get_generation(version: Version) -> int | None:
    found: int | None = version.object["metadata"].get("generation")
    return found


def collect_about_placement(pod: Object, records: Sequence[DecisionRecord]) -> tuple[Evidence, ...]:
    """About a pod without a node: the refusals of its last bindings in a row, from the records of its placements in
    order. Its condition does not tell a refusal of the server from one of the scheduler's own."""
    last_first = reversed([record.outcome.reason for record in records])
    refusals = list(takewhile(_CONFLICTS.__contains__, last_first))
    return collect_bind_conflicts(pod["metadata"]["name"], len(refusals), refusals[0]) if refusals else ()


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

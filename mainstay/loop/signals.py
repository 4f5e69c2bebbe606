"""Collectors: what objects and reports show, as evidence (evidence.py). Plain functions, used by all who ask the table.

    QueueAge, ControllerErrors    from the queues in ComponentStates (component_state.py), by controller
    GenerationNotObserved         from a status that is about an older generation
    RolloutDeadline               from the condition Progressing of a workload (a PolicyRollout has its own deadline)
    ProbeTransitions              from the condition Ready of a pod, and from the verdict of a probe on its own node
    SloBurn                       from the status of ServiceLevelObjectives (controllers/objectives/)
    BindConflicts                 from the refusals of a pod's bindings in a row
    LeaseExpiry of a leader       from how long a candidate has seen its lease unchanged (fencing.py)

MissedHeartbeats, and the WatchDisconnects and ApiTimeouts of the component itself, are collected by node health alone
(controllers/node_health/). Each collector knows the periods of its signal and judges its strength by them. What it
cannot know it does not make up: a report that is missing or old is no evidence, neither of health nor of a fault. A
component that must not go on without reports checks that itself (controllers/policy_rollout/freshness.py).
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.objectives import BURNING, get_objectives, read_burn
from mainstay.api.pod_state import find_condition, is_ready, parse_time_or_none
from mainstay.loop.evidence import Evidence, Scope, Signal, Strength
from mainstay.loop.objectives import WINDOWS

QUEUE_AGES: Final = (
    (timedelta(seconds=60), Strength.SUSTAINED),
    (timedelta(seconds=15), Strength.REPEATED),
    (timedelta(seconds=5), Strength.HINT),
)
"""For how long the oldest key is in the queue."""
ERROR_COUNTS: Final = ((10, Strength.SUSTAINED), (3, Strength.REPEATED), (1, Strength.HINT))
"""Decisions in a row that failed through no fault of their objects (`LoopCounters.errors_in_a_row`)."""
CONFLICT_COUNTS: Final = ((8, Strength.SUSTAINED), (3, Strength.REPEATED), (1, Strength.HINT))
"""Bindings of one pod that the server refused, in a row."""
UNOBSERVED_FOR: Final = (
    (timedelta(seconds=60), Strength.SUSTAINED),
    (timedelta(seconds=5), Strength.REPEATED),
)
"""For how long a status is about an older generation. A moment of it is a hint: every change begins with that."""
SLO_BURNS: Final = ((14.0, Strength.SUSTAINED), (6.0, Strength.REPEATED), (1.0, Strength.HINT))
"""How many times as fast as it lasts a budget burns, in every window."""
REPORTS_FRESH_FOR: Final = timedelta(seconds=150)
"""A ComponentState is written at least once a minute. One that is older says nothing about the present."""
DEADLINE_REASON: Final = "ProgressDeadlineExceeded"


# Controllers, from their reports.


def collect_queue_age(states: Iterable[Object], controllers: Collection[str], now: datetime) -> tuple[Evidence, ...]:
    """Controllers, of those named, whose oldest key has been in the queue for long."""
    found = []
    for name, (queue, at) in _find_queues(states, controllers, now).items():
        age = timedelta(seconds=float(queue.get("oldestSeconds") or 0))
        strength = next((strength for least, strength in QUEUE_AGES if age >= least), None)
        if strength is not None:
            detail = f"oldest key {int(age.total_seconds())}s in the queue"
            found.append(Evidence(Signal.QUEUE_AGE, strength, Scope.CONTROLLER, name, at - age, detail))
    return tuple(found)


def collect_controller_errors(
    states: Iterable[Object], controllers: Collection[str], now: datetime
) -> tuple[Evidence, ...]:
    """Controllers, of those named, whose last decisions all failed. One broken object is none: others succeed."""
    found = []
    for name, (queue, _) in _find_queues(states, controllers, now).items():
        count = int(queue.get("errorsInARow") or 0)
        strength = next((strength for least, strength in ERROR_COUNTS if count >= least), None)
        if strength is not None:
            detail = f"the last {count} decisions failed" if count > 1 else "the last decision failed"
            found.append(Evidence(Signal.CONTROLLER_ERRORS, strength, Scope.CONTROLLER, name, None, detail))
    return tuple(found)


def _find_queues(
    states: Iterable[Object], controllers: Collection[str], now: datetime
) -> dict[str, tuple[Mapping[str, Any], datetime]]:
    """By controller, the latest report of its queue and when it was made. Of a leader that has lost its office an old
    report may remain beside that of the new one."""
    found: dict[str, tuple[Mapping[str, Any], datetime]] = {}
    for state in states:
        status = state.get("status") or {}
        at = parse_time_or_none(status.get("observedAt"))
        if at is None or now - at > REPORTS_FRESH_FOR:
            continue
        for queue in status.get("queues") or ():
            name = str(queue.get("name") or "")
            if name in controllers and (name not in found or found[name][1] < at):
                found[name] = queue, at
    return dict(sorted(found.items()))


# Objects.


def collect_unobserved_generation(obj: Object, since: datetime | None, now: datetime) -> tuple[Evidence, ...]:
    """That the status of an object is about an older generation. `since`: from when on the caller has seen it so."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    generation, observed = int(metadata.get("generation") or 0), int(status.get("observedGeneration") or 0)
    if observed >= generation:
        return ()
    unobserved_for = timedelta() if since is None else now - since
    strength = next((strength for least, strength in UNOBSERVED_FOR if unobserved_for >= least), Strength.HINT)
    detail = f"observed generation {observed} of {generation}"
    return (Evidence(Signal.GENERATION_NOT_OBSERVED, strength, Scope.WORKLOAD, metadata["name"], since or now, detail),)


def collect_rollout_deadline(workload: Object) -> tuple[Evidence, ...]:
    """That the rollout of a workload has passed its deadline, by its own condition."""
    said = find_condition(workload, "Progressing") or {}
    if said.get("reason") != DEADLINE_REASON:
        return ()
    since = parse_time_or_none(said.get("lastTransitionTime"))
    seconds = workload["spec"].get("progressDeadlineSeconds")
    detail = f"no progress for {seconds}s"
    name = workload["metadata"]["name"]
    return (Evidence(Signal.ROLLOUT_DEADLINE, Strength.REPEATED, Scope.WORKLOAD, name, since, detail),)


def collect_slo_burn(slos: Iterable[Object], target_uid: str) -> tuple[Evidence, ...]:
    """Objectives whose budget burns. `target_uid` is of the ReplicaSet of the present template: what was measured of an
    earlier one, or for an earlier spec of the objective, is neither good nor bad news."""
    found = []
    for slo in slos:
        said, metadata, status = find_condition(slo, BURNING) or {}, slo["metadata"], slo.get("status") or {}
        is_current = int(said.get("observedGeneration") or 0) >= int(metadata.get("generation") or 0)
        if said.get("status") != "True" or not is_current or status.get("targetUid") != target_uid:
            continue
        since = parse_time_or_none(said.get("lastTransitionTime"))
        rate = max([_least_burn(each) for each in get_objectives(slo)], default=0.0)
        strength = next((strength for least, strength in SLO_BURNS if rate >= least), Strength.HINT)
        detail = str(said.get("message") or "")
        found.append(Evidence(Signal.SLO_BURN, strength, Scope.WORKLOAD, metadata["name"], since, detail))
    return tuple(found)


def _least_burn(objective: Mapping[str, Any]) -> float:
    burns = [read_burn(objective, window) for window in WINDOWS]
    return min([0.0 if each is None else each for each in burns], default=0.0)


def collect_probe_transitions(pod: Object) -> tuple[Evidence, ...]:
    """That a pod is not ready, by its condition; also if it never was."""
    if is_ready(pod):
        return ()
    said = find_condition(pod, "Ready") or {}
    since, reason = parse_time_or_none(said.get("lastTransitionTime")), str(said.get("reason") or "not ready")
    name = pod["metadata"]["name"]
    return (Evidence(Signal.PROBE_TRANSITIONS, Strength.HINT, Scope.POD, name, since, reason),)


def collect_failed_probe(container: str, probe: str) -> tuple[Evidence, ...]:
    """That a probe has failed as often in a row as its `failureThreshold` says, seen by the agent itself."""
    return (Evidence(Signal.PROBE_TRANSITIONS, Strength.REPEATED, Scope.POD, container, None, f"{probe} failed"),)


def collect_bind_conflicts(pod: str, refusals: int, cause: str) -> tuple[Evidence, ...]:
    """That the server has refused bindings of a pod, so many in a row."""
    strength = next((strength for least, strength in CONFLICT_COUNTS if refusals >= least), None)
    if strength is None:
        return ()
    detail = f"{refusals} refused in a row, last {cause}" if refusals > 1 else cause
    return (Evidence(Signal.BIND_CONFLICTS, strength, Scope.POD, pod, None, detail),)


def collect_lease_expiry(lease: Object, *, is_fenced: bool) -> tuple[Evidence, ...]:
    """That the holder of a lease does not renew it. Fenced: it must have stopped (fencing.py); else it may be late."""
    name = (lease.get("metadata") or {}).get("name", "")
    strength = Strength.CONCLUSIVE if is_fenced else Strength.HINT
    holder = (lease.get("spec") or {}).get("holderIdentity") or ""
    return (Evidence(Signal.LEASE_EXPIRY, strength, Scope.LEASE, name, None, f"held by {holder}"),)


def describe_evidence(evidence: Iterable[Evidence]) -> str:
    """In words, the strongest first."""
    ordered = sorted(evidence, key=lambda each: (-each.strength, each.signal, each.name))
    return "; ".join(
        f"{each.words}{f' since {times.format_time(each.since)}' if each.since is not None else ''}" for each in ordered
    )

"""What an agent has decided about a pod, as the journal's record of it. Only what changes something is recorded.

A pod is looked at whenever something has happened, and mostly nothing is to be done. A decision is worth a record when
what it leads to differs from the last one's: containers begun, ended or begun again after a while, what they wait for,
whether the pod is ready, how it ended, that it was refused. The status that is written then carries the decision's id.

These decisions depend on what the machine knows of its processes, which no store has: they cannot be made again.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mainstay.agent.pod.facts import PodRefused
from mainstay.agent.pod.plan import End, PodPlan, RemovePod, RunHook, StartContainer
from mainstay.api.kind import Object
from mainstay.client.call import NOTHING_SAID, WriteOptions
from mainstay.env import Chance
from mainstay.journal.record import (
    Ending,
    LookedAt,
    Outcome,
    RecordedCondition,
    Subject,
    ViewPart,
    WhyNot,
    micros,
)
from mainstay.loop.record import Origin, Recorder, make_record
from mainstay.loop.record_marks import read_marks

COMPONENT: Final = "agent"
PODS: Final = "pods"
_TERMINAL: Final = ("Succeeded", "Failed")
_NO_NEWS: Final = ("", "ContainerCreating", "PodInitializing")  # What every container waits for at first.
_BACK_OFF: Final = "CrashLoopBackOff"


class PodReason(StrEnum):
    """What was decided, where neither an end, a refusal nor a container's own reason says it. Only add."""

    STARTING = "Starting"
    RESTARTING = "Restarting"
    READY = "Ready"
    NOT_READY = "NotReady"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REMOVING = "Removing"
    """Nothing of it runs any more, and its last status is stored."""
    GONE = "Gone"
    """The server does not have it any more: what is left of it is ended."""


@dataclass(frozen=True, slots=True)
class PodDecisionSummary:
    """What there is to tell of a decision. Two that are equal need one record."""

    outcome: Outcome
    steps: tuple[str, ...] = ()
    conditions: tuple[RecordedCondition, ...] = ()


def summarize_plan(plan: PodPlan, refused: PodRefused | None) -> PodDecisionSummary | None:
    """What a plan changes, in words. None: nothing that is worth it."""
    steps = tuple(text for text in map(_step, plan.steps) if text)
    outcome = _outcome(plan, refused)
    if outcome is None:
        return None
    return PodDecisionSummary(outcome, (*steps, *_containers(plan.status)), _ready(plan.status))


class AgentRecording:
    """The decisions of one agent. Without a recorder nothing is recorded, and nothing carries an id."""

    def __init__(self, recorder: Recorder | None, chance: Chance, node: str, build: str = "") -> None:
        self._recorder = recorder
        self._chance = chance
        self._node = node
        self._origin = Origin(COMPONENT, build)
        self._number = 0

    @property
    def is_on(self) -> bool:
        return self._recorder is not None

    def record(self, pod: Object, told: PodDecisionSummary, seen: int, now: datetime) -> str:
        """Record a decision about a pod, made when the cache was at a revision. Returns its id, or nothing."""
        if self._recorder is None:
            return ""
        self._number += 1
        name = f"{COMPONENT}-{self._chance.uid(f'decision of {self._node}', self._number)}"
        metadata, at = pod["metadata"], micros(now)
        where = metadata.get("namespace", ""), metadata["name"]
        self._recorder(
            make_record(
                self._origin,
                name,
                Subject(PODS, *where, metadata.get("uid", ""), metadata.get("generation", 0)),
                told.outcome,
                at,
                at,
                view=(ViewPart(PODS, seen, fields=f"spec.nodeName={self._node}"),),
                looked_at=(LookedAt(PODS, *where, int(metadata.get("resourceVersion", 0))),),
                looked_at_count=1,
                reasons=(f"node={self._node}", *told.steps),
                conditions=told.conditions,
                why_not=(WhyNot.READ_OUTSIDE,),
                **read_marks(pod)._asdict(),
            )
        )
        return name


def write_for(decision: str, pod: Object) -> WriteOptions:
    """What a write says that a decision about a pod has led to."""
    if not decision:
        return NOTHING_SAID
    metadata = pod["metadata"]
    cause = f"{PODS}/{metadata.get('namespace', '')}/{metadata['name']}@{metadata.get('resourceVersion', '')}"
    return WriteOptions(decision=decision, cause=cause)


def gone() -> PodDecisionSummary:
    return PodDecisionSummary(
        Outcome(Ending.DONE, PodReason.GONE, "the API server does not have the pod; ending its containers")
    )


def _outcome(plan: PodPlan, refused: PodRefused | None) -> Outcome | None:
    status = plan.status
    if refused is not None:
        return Outcome(Ending.REFUSED, refused.reason, refused.message)
    ends = [step for step in plan.steps if isinstance(step, End)]
    if ends:
        names = ", ".join(dict.fromkeys(step.id.name for step in ends))
        return Outcome(Ending.DONE, str(ends[0].why), f"ends {names}")
    if any(isinstance(step, RemovePod) for step in plan.steps):
        return Outcome(Ending.DONE, PodReason.REMOVING)
    for name, reason, message in _waiting(status):
        if reason == _BACK_OFF:
            wake_at = micros(plan.wake_at) if plan.wake_at is not None else 0
            return Outcome(Ending.WAKE_AT, reason, f"{name}: {message}", wake_at)
        return Outcome(Ending.RETRY, reason, f"{name}: {message}")
    starts = [step for step in plan.steps if isinstance(step, StartContainer)]
    if starts:
        is_again = any(step.attempt for step in starts)
        names = ", ".join(step.name for step in starts)
        return Outcome(Ending.DONE, PodReason.RESTARTING if is_again else PodReason.STARTING, f"starts {names}")
    if status.get("phase") in _TERMINAL:
        word = PodReason.SUCCEEDED if status["phase"] == "Succeeded" else PodReason.FAILED
        return Outcome(Ending.DONE, status.get("reason") or word, status.get("message") or "")
    for ready in _ready(status):
        is_ready = ready.status == "True"
        if is_ready or status.get("phase") == "Running":
            return Outcome(Ending.DONE, PodReason.READY if is_ready else PodReason.NOT_READY, ready.message)
    return None


def _step(step: Any) -> str:
    match step:
        case StartContainer(name=name, attempt=attempt):
            return f"start {name} attempt {attempt}"
        case End(id=id_, why=why):
            return f"end {id_.name} attempt {id_.attempt}: {why}"
        case RunHook(id=id_):
            return f"run the postStart hook of {id_.name}"
        case RemovePod():
            return "remove the pod"
        case _:
            return ""


def _statuses(status: Object) -> list[Object]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _waiting(status: Object) -> list[tuple[str, str, str]]:
    """Containers that wait for something that does not come by itself: name, reason and message."""
    found = []
    for each in _statuses(status):
        waiting = (each.get("state") or {}).get("waiting") or {}
        if (reason := waiting.get("reason") or "") not in _NO_NEWS:
            found.append((each["name"], reason, waiting.get("message") or ""))
    return found


def _containers(status: Object) -> list[str]:
    """How each container has ended, or last did."""
    said = []
    for each in _statuses(status):
        ended = (each.get("state") or {}).get("terminated") or (each.get("lastState") or {}).get("terminated")
        if ended is not None:
            said.append(f"{each['name']} ended: {ended.get('reason') or 'Unknown'} ({ended.get('exitCode')})")
    return said


def _ready(status: Object) -> tuple[RecordedCondition, ...]:
    return tuple(
        RecordedCondition("Ready", each["status"], each.get("reason") or "", each.get("message") or "")
        for each in status.get("conditions") or ()
        if each["type"] == "Ready"
    )

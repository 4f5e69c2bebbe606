"""Why an autoscaler asks for as many replicas as it does, and why not for more.

    target found ─► metrics known ─► within its bounds ─► the target gets what it asked for

What stands in the way of the target is the target's own story: its room is asked.
"""

from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import AUTOSCALERS
from mainstay.api.kinds import BUILTIN
from mainstay.api.pod_state import find_condition, is_leaving, parse_time_or_none
from mainstay.controllers.autoscaler.debug import find_decisive
from mainstay.controllers.autoscaler.limits import ScaleLimit
from mainstay.controllers.autoscaler.proposals import MISSING_REQUEST
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import Also, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.control import not_done
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    broken,
    build_subject,
    done,
    said_by,
    sentence,
    shortened,
    waiting,
)
from mainstay.explain.why.removal import leaving

_OURS: Final = frozenset(ScaleLimit)
_CAUSES: Final = {
    "FailedUpdateScale": Cause.CONTROLLER_FAILING,
    "InvalidSelector": Cause.INVALID,
    "InvalidMetricSourceType": Cause.INVALID,
    "FailedGetObjectMetric": Cause.INVALID,
    "FailedGetExternalMetric": Cause.INVALID,
    "AmbiguousSelector": Cause.FIGHTING_WRITERS,
    "ScalingDisabled": Cause.SCALED_TO_ZERO,
}
"""By the reason of what failed; all others are metrics that cannot be had."""
_SUPPORTED: Final = "Use a metric of type Resource, ContainerResource or Pods: others are not supported."
_ADVICE: Final = {
    "FailedGetObjectMetric": _SUPPORTED,
    "FailedGetExternalMetric": _SUPPORTED,
    "FailedGetPodsMetric": (
        "Check that ready pods of its target serve the metric, and their annotations `prometheus.io/scrape`, "
        "`prometheus.io/port` and `prometheus.io/path`."
    ),
}
_SET_REQUESTS: Final = "Set the request in every container of the pods, also in sidecars."
_GIVE_SCALE: Final = "Correct `spec.scaleTargetRef`: its kind must have the subresource scale."


async def why_autoscaler(case: Case, autoscaler: Object) -> Finding:
    if is_leaving(autoscaler):
        return await leaving(case, AUTOSCALERS, autoscaler)
    subject = build_subject(AUTOSCALERS, autoscaler)
    status, reference = autoscaler.get("status") or NOTHING, autoscaler["spec"]["scaleTargetRef"]
    if not status.get("conditions"):
        since = parse_time_or_none(autoscaler["metadata"].get("creationTimestamp"))
        what = f"{subject.words} has no status yet"
        return await not_done(case, AUTOSCALERS, autoscaler, "horizontal-pod-autoscaler", what, since)
    target = f"{reference['kind']} {reference['name']}"
    desired = int(status.get("desiredReplicas") or 0)
    said = find_decisive(autoscaler)
    reason, message = str(said.get("reason") or ""), shortened(str(said.get("message") or ""))
    since = parse_time_or_none(said.get("lastTransitionTime"))
    evidence = said_by(autoscaler, said)
    if said.get("status") == "False" and said.get("type") != "ScalingLimited":
        text = f"{subject.words} does not scale {target} ({reason}): {message}"
        cause, advice = _CAUSES.get(reason, Cause.METRICS_MISSING), _ADVICE.get(reason, "")
        if reason == "FailedGetScale":
            is_missing = '" not found' in message  # As the server names an object; a kind without scale it does not.
            cause, advice = (Cause.REFERENCE_MISSING, "") if is_missing else (Cause.INVALID, _GIVE_SCALE)
        elif MISSING_REQUEST in str(said.get("message") or ""):
            advice = _SET_REQUESTS
        return Finding(
            cause=cause,
            sentence=sentence(text),
            verdict=Verdict.BLOCKED,
            since=since,
            chain=(broken("autoscaler", f"{reason}: {message}", evidence),),
            advice=advice,
        )
    active = find_condition(autoscaler, "ScalingActive")
    links = (done("metrics", str((active or NOTHING).get("message") or ""), said_by(autoscaler, active)),)
    if reason in _OURS:
        text = f"{subject.words} keeps {target} at {desired} replicas ({reason}): {message}"
        link = waiting("progress", f"{reason}: {message}", evidence)
        deeper = await _ask_target(case, autoscaler)
        return Finding(
            cause=deeper.cause if deeper is not None else Cause.SCALING,
            sentence=sentence(text),
            verdict=Verdict.WAITING,
            since=since,
            chain=(*links, link),
            also=() if deeper is None else (Also(deeper.cause, deeper.sentence, 1),),
        )
    limit = f", limited: {message}" if said.get("type") == "ScalingLimited" and said.get("status") == "True" else ""
    text = f"{subject.words} wants {desired} replicas of {target}{limit}"
    link = done("autoscaler", f"{desired} replicas{limit}", evidence)
    return Finding(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(*links, link))


async def _ask_target(case: Case, autoscaler: Object) -> Finding | None:
    """What the room of the target finds; None if it has all that it wants, or is not known."""
    reference = autoscaler["spec"]["scaleTargetRef"]
    kind = _find_kind(reference)
    if kind is None:
        return None
    obj = await case.get(kind, reference["name"], autoscaler["metadata"]["namespace"])
    analyse = case.rooms.analyser(kind.text)
    if obj is None or analyse is None:
        return None
    found = await analyse(case, obj)
    return None if found.verdict is Verdict.SATISFIED else found


def _find_kind(reference: Object) -> KindName | None:
    group, _, _ = str(reference.get("apiVersion") or "").rpartition("/")
    names = [each.reference for each in BUILTIN]
    return next((each for each in names if (each.group, each.kind) == (group, reference["kind"])), None)


ROOM: Final = WhyRoom(analyser=why_autoscaler)

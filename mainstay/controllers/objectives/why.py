"""Why the error budget of an objective burns, and what stands in the way of its target.

    target found ─► enough was measured ─► within budget

What is wrong with the target is the target's own story: its room is asked.
"""

from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, REPLICASETS, SERVICE_LEVEL_OBJECTIVES
from mainstay.api.kinds.objectives import parse_slo
from mainstay.api.objectives import BURNING, ObjectiveReason, TargetKind, get_objectives
from mainstay.api.pod_state import find_condition, is_leaving, parse_time_or_none
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import Also, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.control import not_done
from mainstay.explain.why.found import NOTHING, Finding, broken, build_subject, done, said_by, sentence, waiting
from mainstay.explain.why.removal import leaving


async def why_objective(case: Case, slo: Object) -> Finding:
    if is_leaving(slo):
        return await leaving(case, SERVICE_LEVEL_OBJECTIVES, slo)
    subject, said = build_subject(SERVICE_LEVEL_OBJECTIVES, slo), find_condition(slo, BURNING)
    if said is None or int(said.get("observedGeneration") or 0) < subject.generation:
        since = parse_time_or_none(slo["metadata"].get("creationTimestamp"))
        what = f"Generation {subject.generation} of {subject.words} is not observed yet"
        return await not_done(case, SERVICE_LEVEL_OBJECTIVES, slo, "service-level-objective", what, since)
    target = parse_slo(slo).target
    reason, message = str(said.get("reason") or ""), str(said.get("message") or "")
    since, evidence = parse_time_or_none(said.get("lastTransitionTime")), said_by(slo, said)
    about = f"{target.kind} {target.name}"
    if reason == ObjectiveReason.NO_TARGET:
        text = f"{subject.words} measures nothing: {message}"
        link = broken("target", message, evidence)
        return Finding(
            cause=Cause.REFERENCE_MISSING, sentence=sentence(text), verdict=Verdict.BLOCKED, since=since, chain=(link,)
        )
    if said.get("status") == "Unknown":
        text = f"{subject.words} cannot be judged yet: {message}"
        link = waiting("measurement", message, evidence)
        return Finding(
            cause=Cause.NOT_OBSERVED_YET, sentence=sentence(text), verdict=Verdict.WAITING, since=since, chain=(link,)
        )
    figures = _list_figures(slo)
    if said.get("status") != "True":
        text = f"{subject.words} is within its budgets for {about}: {figures}"
        link = done("budget", figures, evidence)
        return Finding(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    deeper = await _ask_target(case, slo)
    return Finding(
        cause=Cause.OBJECTIVE_MISSED,
        sentence=sentence(f"{subject.words} burns its budget for {about}: {message} ({figures})"),
        verdict=Verdict.WAITING,
        since=since,
        chain=(broken("budget", figures, evidence),),
        also=() if deeper is None else (Also(deeper.cause, deeper.sentence, 1), *deeper.also),
    )


def _list_figures(slo: Object) -> str:
    found = []
    for each in get_objectives(slo):
        burns = ", ".join(f"{rate} over {window}" for window, rate in sorted((each.get("burn") or NOTHING).items()))
        pods = f", {each.get('late') or 0} of {each['pods']} pods late" if "pods" in each else ""
        found.append(f"{each.get('type')} burn {burns or 'unknown'}{pods}")
    return "; ".join(found) or "nothing was measured"


async def _ask_target(case: Case, slo: Object) -> Finding | None:
    """What the room of the target finds; None if it has all that it wants."""
    target = parse_slo(slo).target
    kind = DEPLOYMENTS if target.kind is TargetKind.DEPLOYMENT else REPLICASETS
    obj, analyse = await case.get(kind, target.name, slo["metadata"]["namespace"]), case.rooms.analyser(kind.text)
    if obj is None or analyse is None:
        return None
    found = await analyse(case, obj)
    return None if found.verdict is Verdict.SATISFIED else found


ROOM: Final = WhyRoom(analyser=why_objective)

"""Why a Service routes to no pod, or not to all that it selects."""

import difflib
from collections.abc import Mapping
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, SERVICES
from mainstay.api.pod_state import get_node_name, is_active, is_ready
from mainstay.controllers.endpoints.routes import find_bad_address
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import Also, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    broken,
    build_subject,
    count,
    done,
    listed,
    said_by,
    sentence,
    shortened,
)
from mainstay.explain.why.workload import find_worst

_ALIKE: Final = 0.8  # So near to what is wanted that it was probably meant.


async def why_service(case: Case, service: Object) -> Finding:
    subject = build_subject(SERVICES, service)
    selector: Mapping[str, str] = (service.get("spec") or NOTHING).get("selector") or {}
    if not selector:
        text = f"{subject.words} has no selector: its owner manages its endpoints"
        link = done("selector", "none", said_by(service))
        return Finding(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    wanted = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    pods = [pod for pod in await case.all(PODS) if pod["metadata"].get("namespace") == subject.namespace]
    chosen = [pod for pod in pods if _matches(selector, pod) and is_active(pod)]
    if not chosen:
        return await _nothing_selected(case, service, subject.words, selector, wanted, pods)
    ready = [pod for pod in chosen if is_ready(pod) and not find_bad_address(pod)]
    bad = [
        f"{pod['metadata']['name']} is left out: status.podIP {why}" for pod in chosen if (why := find_bad_address(pod))
    ]
    left_out = f". Pod {listed(bad, 2)}" if bad else ""
    link = done("selector", f"{wanted} matches {count(len(chosen), 'pod')}", said_by(service))
    if ready:
        missing = len(chosen) - len(ready)
        whole = f"{count(len(chosen), 'pod')}, {missing} not ready" if missing else count(len(chosen), "ready pod")
        text = f"{subject.words} routes to {len(ready)} of {whole} (selector {wanted}){left_out}"
        troubled = await case.in_trouble(map(get_node_name, ready))
        slow = [pod for pod in chosen if not is_ready(pod) or get_node_name(pod) in troubled]
        worst = await find_worst(case, slow)
        also = () if worst is None else (Also(worst[0].cause, worst[0].sentence, worst[1]), *worst[2])
        found = done("ready", f"{len(ready)} ready", said_by(service))
        return Finding(
            cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link, found), also=also
        )
    worst = await find_worst(case, chosen)
    if worst is None:
        text = f"{subject.words} has no ready endpoints: none of its pods is ready{left_out}"
        return Finding(cause=Cause.NOT_READY_YET, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,))
    found_below, _, also = worst
    none = "the only pod" if len(chosen) == 1 else f"none of the {len(chosen)} pods"
    is_ready_ = "is not ready" if len(chosen) == 1 else "is ready"
    text = f"{subject.words} has no ready endpoints: {none} it selects {is_ready_}. {found_below.sentence}"
    return Finding(
        cause=found_below.cause,
        sentence=shortened(text, 420),
        verdict=found_below.verdict,
        since=found_below.since,
        about=found_below.about,
        chain=(link, *found_below.chain),
        cures=found_below.cures,
        also=also,
    )


def _matches(selector: Mapping[str, str], pod: Object) -> bool:
    return selector.items() <= (pod["metadata"].get("labels") or {}).items()


async def _nothing_selected(
    case: Case, service: Object, words: str, selector: Mapping[str, str], wanted: str, pods: list[Object]
) -> Finding:
    """What the pods have instead of what is selected by."""
    near: dict[str, list[str]] = {}
    for pod in pods:
        if is_active(pod):
            for key, value in sorted((pod["metadata"].get("labels") or {}).items()):
                if key in selector and value != selector[key]:
                    near.setdefault(f"{key}={value}", []).append(pod["metadata"]["name"])
    alike = [each for part in wanted.split(",") for each in difflib.get_close_matches(part, near, n=1, cutoff=_ALIKE)]
    text = f"{words} has no endpoints: no pod matches its selector {wanted}"
    if alike:
        names = near[alike[0]]
        text += f"; {count(len(names), 'pod')} ({listed(names, 2)}) {'has' if len(names) == 1 else 'have'} {alike[0]}"
    link = broken("selector", f"{wanted} matches no pod", said_by(service))
    return Finding(
        cause=Cause.SELECTOR_MISMATCH if alike else Cause.NOTHING_SELECTED,
        sentence=sentence(text),
        verdict=Verdict.BLOCKED,
        chain=(link,),
    )


ROOM: Final = WhyRoom(analyser=why_service)

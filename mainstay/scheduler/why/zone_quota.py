"""Why a ZoneQuota lets nothing more into its zone."""

from collections.abc import Mapping
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS, ZONE_QUOTAS
from mainstay.api.pod_resources import amount, count_requests, is_over, parse_amounts
from mainstay.api.pod_state import get_node_name, get_zone, is_active
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import NOTHING, Finding, broken, build_subject, done, listed, said_by, sentence


async def why_zone_quota(case: Case, quota: Object) -> Finding:
    subject, spec = build_subject(ZONE_QUOTAS, quota), quota.get("spec") or NOTHING
    zone, hard = str(spec.get("zone") or ""), parse_amounts(_plain(spec.get("hard") or {}))
    nodes = {node["metadata"]["name"] for node in await case.all(NODES) if get_zone(node) == zone}
    used: dict[str, int] = {}
    waiting_pods = []
    for pod in await case.all(PODS):
        if pod["metadata"].get("namespace") != subject.namespace or is_over(pod):
            continue
        if get_node_name(pod) in nodes:
            for resource, size in {**count_requests(pod), "pods": 1}.items():
                used[resource] = used.get(resource, 0) + size
        elif not get_node_name(pod) and is_active(pod):
            waiting_pods.append(pod)
    words = ", ".join(
        f"{name} {amount(name, used.get(name, 0))} of {amount(name, hard[name])}" for name in sorted(hard)
    )
    full = [name for name in sorted(hard) if used.get(name, 0) >= hard[name]]
    held_up = [
        pod["metadata"]["name"]
        for pod in waiting_pods
        if any(count_requests(pod).get(name, 0) > hard[name] - used.get(name, 0) for name in hard)
    ]
    text = f"{subject.words} in zone {zone}: {words}"
    if not full and not held_up:
        link = done("used", words, said_by(quota))
        return Finding(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    text = f"{subject.words} {'is exhausted' if full else 'has too little left'} in zone {zone} ({words})"
    if held_up:
        text += f"; {listed(held_up)} {'waits' if len(held_up) == 1 else 'wait'} for it, or for another zone"
    return Finding(
        cause=Cause.ZONE_QUOTA_EXCEEDED,
        sentence=sentence(text),
        verdict=Verdict.WAITING,
        chain=(broken("used", words, said_by(quota)),),
    )


def _plain(hard: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("requests."): value for name, value in hard.items() if not name.startswith("limits.")}


ROOM: Final = WhyRoom(analyser=why_zone_quota)

"""What a ResourceQuota had no room for, by the words of the refusal, and whether it has by now."""

import re
from collections.abc import Mapping
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import RESOURCE_QUOTAS
from mainstay.api.quantity import parse
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.components import no_controllers
from mainstay.explain.why.found import NOTHING, Found, broken, listed, sentence, waiting

_REFUSED: Final = re.compile(r"exceeded quota: ([^,]+), requested: (.*?), used: ")


def refused_in(message: str) -> tuple[str, dict[str, str]] | None:
    """The quota that a refusal names, and what was asked of it."""
    match = _REFUSED.search(message)
    if match is None:
        return None
    pairs = (each.partition("=") for each in match[2].split(","))
    return match[1], {name.strip(): size for name, _, size in pairs}


def has_room(quota: Object, wanted: Mapping[str, str]) -> bool:
    """Whether a quota would let this in, by what it says of itself."""
    hard, used = _hard_and_used(quota)
    return all(
        parse(str(used.get(name, "0"))) + parse(size) <= parse(str(hard[name]))
        for name, size in wanted.items()
        if name in hard
    )


async def room_by_now(case: Case, namespace: str, message: str) -> str:
    """That the quota that refused something has room for it by now, in words. Empty: it has not, or nobody knows."""
    refused = refused_in(message)
    if refused is None:
        return ""
    name, wanted = refused
    quota = await case.get(RESOURCE_QUOTAS, name, namespace)
    if quota is None:
        return f"there is no ResourceQuota {name} any more"
    if not has_room(quota, wanted):
        return ""
    hard, used = _hard_and_used(quota)
    sizes = (f"{each} {used.get(each, '0')} of {hard[each]}" for each in sorted(wanted) if each in hard)
    return f"ResourceQuota {name} has room by now ({listed(sizes)})"


def _hard_and_used(quota: Object) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return (quota.get("spec") or NOTHING).get("hard") or {}, (quota.get("status") or NOTHING).get("used") or {}


async def freed(case: Case, namespace: str, message: str, what: str, controller: str) -> Found | None:
    """If the quota that refused something has room for it by now: who has not tried again yet."""
    room = await room_by_now(case, namespace, message)
    if not room:
        return None
    text = f"{what}: a quota had no room for more, but {room}"
    absent = await no_controllers(case)
    if absent is not None:
        return Found(
            cause=absent.cause,
            sentence=sentence(f"{text}, and {absent.text}"),
            verdict=Verdict.WAITING,
            since=absent.since,
            chain=(broken("controller", absent.text, *absent.evidence),),
        )
    return Found(
        cause=Cause.SCALING,
        sentence=sentence(f"{text}, and the controller {controller} has not tried again yet"),
        verdict=Verdict.WAITING,
        chain=(waiting("admission", room),),
    )

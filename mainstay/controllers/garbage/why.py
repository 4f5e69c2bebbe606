"""Why the garbage collector removed an object: its owner is gone, and who removed that."""

from typing import Final

from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import ChainLink
from mainstay.explain.why.case import OWNER_KINDS, Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import clock
from mainstay.explain.why.removal import Removal, told_to_go, why_told_to_go
from mainstay.explain.writers import Version


async def why_removed(case: Case, told: Version, link: ChainLink) -> Removal:
    """Its owner is gone: who removed that?"""
    obj = told.object
    namespace = obj["metadata"].get("namespace") or ""
    for reference in obj["metadata"].get("ownerReferences") or ():
        kind = OWNER_KINDS.get((str(reference.get("apiVersion") or "").rpartition("/")[0], str(reference.get("kind"))))
        name = str(reference.get("name") or "")
        text = f"its owner {reference.get('kind')} {name} no longer exists"
        if kind is None:
            return Removal(Cause.OWNER_DELETED, text, (link,))
        versions = await case.versions(kind.text, namespace, name)
        went = told_to_go(versions, str(reference.get("uid") or "")) or next(
            (each for each in reversed(versions) if each.after is None), None
        )
        if went is None:
            return Removal(Cause.OWNER_DELETED, text, (link,))
        above = await why_told_to_go(case, went)
        text = f"its owner {reference.get('kind')} {name} was deleted at {clock(went.at)}{above.after_time}"
        return Removal(Cause.OWNER_DELETED, text, (*above.links, link), above.involved)
    return Removal(Cause.OWNER_DELETED, "its owner no longer exists", (link,))


ROOM: Final = WhyRoom(remover=why_removed)

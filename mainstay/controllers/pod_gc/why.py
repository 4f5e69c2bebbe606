"""Why the collection of ended pods removed one."""

from typing import Final

from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import ChainLink
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.removal import Removal
from mainstay.explain.writers import Version


async def why_removed(case: Case, told: Version, link: ChainLink) -> Removal:
    return Removal(Cause.COMPLETED, "it had terminated, and the oldest terminated pods are deleted", (link,))


ROOM: Final = WhyRoom(remover=why_removed)

"""Why repair removed a pod: its node is gone."""

from typing import Final

from mainstay.api.pod_state import get_node_name
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import ChainLink
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.removal import Removal
from mainstay.explain.writers import Version


async def why_removed(case: Case, told: Version, link: ChainLink) -> Removal:
    text = f"its node {get_node_name(told.object)} no longer exists, and repair deleted it"
    return Removal(Cause.NODE_LOST, text, (link,))


ROOM: Final = WhyRoom(remover=why_removed)

"""Components have every right that they use: no request of theirs is refused for want of one.

What an agent may read follows the pods of its node, so its refusals may be right: a pod has just moved. Those that do
not name an object are not.
"""

from typing import TYPE_CHECKING, Final

from mainstay.api.system_users import build_node_user
from mainstay.server.auth import identities
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import Event, ResponseSent

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_REFUSALS: Final = tuple(
    f'User "{user.name}" cannot '.encode()
    for user in (identities.SCHEDULER, identities.CONTROLLERS, *identities.CONTROLLER_USERS)
)
_AGENTS: Final = f'User "{build_node_user("")}'.encode()
_UNRELATED: Final = b"no relationship found"


class ComponentRights:
    name = "rights of components"

    def saw(self, event: Event) -> None:
        if isinstance(event, ResponseSent) and event.status == 403 and _is_wrong(event.body):
            raise Violated(self.name, event.body.decode(errors="replace"), [event])

    async def at_end(self, world: "World") -> None:
        """It is seen at once, or not at all."""


def _is_wrong(refusal: bytes) -> bool:
    return any(each in refusal for each in _REFUSALS) or (_AGENTS in refusal and _UNRELATED not in refusal)

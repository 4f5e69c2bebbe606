"""When all is healed, the status of an unschedulable pod says why, and is then stable: the reasons do not alternate.

Judged by the conditions `PodScheduled` that are committed: after healing each pod gets at most `TIMES_MAX` of them that
say no (a message is repeated at longer and longer intervals), and none that takes the last but one reason back.
"""

from typing import TYPE_CHECKING, Final

from mainstay.api.kind import Object
from mainstay.server.storage.keyspace import CORE
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, FaultsHealed, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

TIMES_MAX: Final = 4
_PODS: Final = f"{CORE}/pods/"


class RefusalStability:
    name = "told"

    def __init__(self) -> None:
        self._is_healed = False
        self._said: dict[str, list[tuple[str, RevisionCommitted]]] = {}  # By uid: reasons, and where they were written.

    def saw(self, event: Event) -> None:
        if isinstance(event, FaultsHealed):
            self._is_healed = True
        if not self._is_healed or not isinstance(event, RevisionCommitted) or not event.key.startswith(_PODS):
            return
        after, before = _refusal_in(event.value), _refusal_in(event.previous)
        if after is None or after == before:
            return
        reason = str(after["reason"])
        said = self._said.setdefault(decode_commit(event.value or b"{}")["metadata"]["uid"], [])
        reasons = [each for each, _ in said]
        said.append((reason, event))
        commits = [commit for _, commit in said]
        if len(said) > TIMES_MAX:
            raise Violated(
                self.name, f"the reason why {event.key} is unschedulable was written {len(said)} times", commits
            )
        if reasons and reasons[-1] != reason and reason in reasons:
            raise Violated(
                self.name,
                f"{event.key} was unschedulable because of {', '.join(reasons)}, and then of {reason} again",
                commits,
            )

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""


def _refusal_in(value: bytes | None) -> Object | None:
    if value is None:
        return None
    for each in (decode_commit(value).get("status") or {}).get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            found: Object = each
            return found
    return None

"""When all is healed, no pod waits for long for a node that would take it.

Whether a node would is judged by the server's own books: its ledger has the room, it accepts pods, and it has no taint
that the pod does not tolerate. A pod in a namespace with quotas for zones may have to wait for these, one in the scope
of a placement policy for the skew that it allows, and no checker waits in vain while schedulers are held: then nothing
is concluded.

A pod that waits for a node of which it holds a reservation is looked at by others (_scheduling.py).
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.api.kind import Object
from mainstay.api.pod_resources import count_requests
from mainstay.api.pod_state import get_node_name, is_active
from mainstay.api.taints import NO_EXECUTE, NO_SCHEDULE, Taint, parse_taints, parse_tolerations
from mainstay.server.placement.ledger.ledger import LEDGERS, Ledger, ledger_in
from mainstay.server.placement.ledger.room import shortages
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, FaultsHealed, RevisionCommitted
from mainstay.store.interface import Entry

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

WITHIN: Final = timedelta(minutes=4)
"""A watch that has died unheard is given up after 90 seconds, and a leader has to be elected first."""
_PODS: Final = "core/pods/"
_NODES: Final = "core/nodes/"
_ZONE_QUOTAS: Final = "mainstay.dev/zonequotas/"
_HOLDS: Final = "mainstay.dev/holds/"
_POLICIES: Final = "mainstay.dev/placementpolicies/"


class BoundInTime:
    name = "bound in time"

    def __init__(self, within: timedelta = WITHIN) -> None:
        self._within_ns = within // timedelta(microseconds=1) * 1000
        self._healed_ns: int | None = None
        self._waiting: dict[str, tuple[Object, RevisionCommitted]] = {}  # By key: pods without a node.
        self._since_ns: dict[str, int] = {}  # By key: since when one would take it.
        self._ledgers: dict[str, Ledger] = {}
        self._taints: dict[str, tuple[Taint, ...]] = {}
        self._limited: dict[str, None] = {}  # Keys of what may keep pods waiting with good reason.

    def saw(self, event: Event) -> None:
        if isinstance(event, FaultsHealed):
            self._healed_ns = event.at_ns
            self._since_ns = dict.fromkeys(self._since_ns, event.at_ns)
        elif isinstance(event, RevisionCommitted) and self._changed(event):
            self._judge(event.at_ns)
        if self._since_ns and self._healed_ns is not None:
            self._require_in_time(event.at_ns)

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    def _changed(self, event: RevisionCommitted) -> bool:
        key, value = event.key, event.value
        if key.startswith(_PODS):
            pod = None if value is None else decode_commit(value)
            if pod is not None and is_active(pod) and not get_node_name(pod):
                self._waiting[key] = pod, event
                return True
            self._since_ns.pop(key, None)
            return self._waiting.pop(key, None) is not None
        if key.startswith(LEDGERS):
            entry = None if value is None else Entry(key, value, event.revision, event.revision, 1)
            self._ledgers[key.removeprefix(LEDGERS)] = ledger_in(entry)
        elif key.startswith(_NODES):
            self._taints[key.removeprefix(_NODES)] = () if value is None else parse_taints(decode_commit(value))
        elif key.startswith((_ZONE_QUOTAS, _HOLDS, _POLICIES)):
            self._limited.pop(key, None)
            if value is not None and (not key.startswith(_POLICIES) or _bounds_skew(decode_commit(value))):
                self._limited[key] = None
        else:
            return False
        return bool(self._waiting)

    def _judge(self, at_ns: int) -> None:
        for key, (pod, _) in self._waiting.items():
            if self._limited or not any(self._would_take(node, pod) for node in self._ledgers):
                self._since_ns.pop(key, None)
            else:
                self._since_ns.setdefault(key, at_ns)

    def _would_take(self, node: str, pod: Object) -> bool:
        ledger = self._ledgers[node]
        if not ledger.node_uid or not ledger.is_accepting:
            return False
        tolerations = parse_tolerations(pod["spec"])
        for taint in self._taints.get(node, ()):
            is_hard = taint.effect in (NO_SCHEDULE, NO_EXECUTE)
            if is_hard and not any(each.tolerates(taint) for each in tolerations):
                return False
        return not shortages(ledger, {resource: amount for resource, amount in count_requests(pod).items() if amount})

    def _require_in_time(self, at_ns: int) -> None:
        for key, since_ns in self._since_ns.items():
            if at_ns - since_ns > self._within_ns:
                pod, commit = self._waiting[key]
                node = next(name for name in self._ledgers if self._would_take(name, pod))
                waited_s = (at_ns - since_ns) / 1e9
                raise Violated(
                    self.name, f"{key} has waited for {waited_s:.0f} s, although {node} would accept it", [commit]
                )


def _bounds_skew(policy: Object) -> bool:
    return bool(policy["spec"].get("active") and policy["spec"].get("maxZoneSkew"))

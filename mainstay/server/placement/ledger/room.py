"""May this pod be bound to this node now? The rules of a binding, as plain functions of the node's ledger.

Asked at the commit, of the ledger as it is at that very moment. What a scheduler saw does not count; what it says that
it saw is only looked at if it wants to be refused whenever anything has changed since (`strict`, observed.py).

Only what a pod asks for is looked at: a node that has less of something than is taken of it, because it has shrunk,
takes pods that need none of that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mainstay.api.causes import BindingCause
from mainstay.api.kind import Object
from mainstay.api.pod_resources import conflicts
from mainstay.api.well_known_labels import UNSCHEDULABLE_TAINT
from mainstay.server.placement.ledger.charge import Charge, parse_port
from mainstay.server.placement.ledger.history import find_unseen
from mainstay.server.placement.ledger.ledger import Ledger
from mainstay.server.placement.ledger.refusals import LedgerRefusal, shown
from mainstay.server.placement.observed import Observed


class BindOptions(msgspec.Struct, frozen=True):
    """What a binding says besides pod and node."""

    observed: Observed | None = None
    """What the scheduler had seen."""
    needs_node: bool = False
    """Refuse if there is no such Node. Kubernetes does not, but a scheduler that says what it saw has seen one."""
    bears_cordon: bool = False
    """The pod may go to a node that takes no others."""


def find_refusal(ledger: Ledger, revision: int, charge: Charge, asked: BindOptions) -> LedgerRefusal | None:
    """Why a pod cannot be bound; None if it can. `revision` is the ledger's, 0 if there is none yet.

    Room that the pod has reserved for itself must have been let go of before (ledger.py).
    """
    node = charge.node
    seen = asked.observed
    if seen is not None and seen.is_strict and (unseen := find_unseen(ledger.history, revision, seen)) is not None:
        kind, at, observed = unseen
        text = f"node {node} changed at revision {at} by {kind}, of which revision {observed} was observed"
        return LedgerRefusal(BindingCause.STALE, text)
    if not ledger.node_uid:
        # As in Kubernetes, where a binding to a node that is not there is accepted. The agent has the last word.
        return LedgerRefusal(BindingCause.NODE_GONE, f"node {node} not found") if asked.needs_node else None
    if not ledger.is_accepting and not asked.bears_cordon:
        return LedgerRefusal(BindingCause.NODE_NOT_ACCEPTING, f"node {node} is unschedulable")
    short = shortages(ledger, charge.amounts)
    if short:
        cause, why = _find_cause(ledger, charge)
        listed = "; ".join(
            f"{resource}: requested {shown(resource, wanted)}, free {shown(resource, max(free, 0))}"
            for resource, (wanted, free) in sorted(short.items())
        )
        return LedgerRefusal(cause, f"node {node} cannot take the pod, {why}: {listed}")
    taken = taken_port(charge.ports, (*ledger.ports, *ledger.held_ports))
    if taken is not None:
        wanted_port, by = taken
        cause = BindingCause.HELD_BY_GHOSTS if _is_only_by_ghosts(ledger, charge) else BindingCause.PORT_TAKEN
        return LedgerRefusal(cause, f"port {wanted_port} of node {node} is already in use (by {by})")
    return None


def shortages(
    ledger: Ledger, amounts: Mapping[str, int], *, counts_held: bool = True, counts_ghosts: bool = True
) -> dict[str, tuple[int, int]]:
    """Of which resources there is too little: what is wanted and what is free, which may be less than nothing."""
    found: dict[str, tuple[int, int]] = {}
    for resource, wanted in amounts.items():
        free = ledger.allocatable.get(resource, 0) - ledger.used.get(resource, 0) - ledger.promised.get(resource, 0)
        if counts_held:
            free -= ledger.held.get(resource, 0)
        if not counts_ghosts:
            free += sum(ghost.amounts.get(resource, 0) for ghost in ledger.ghosts.values())
        if wanted > free:
            found[resource] = wanted, free
    return found


def _find_cause(ledger: Ledger, charge: Charge) -> tuple[BindingCause, str]:
    """Why there is too little. Ghosts come first: only the server knows of them."""
    if ledger.ghosts and not shortages(ledger, charge.amounts, counts_ghosts=False):
        return BindingCause.HELD_BY_GHOSTS, "force-deleted pods hold the rest of its resources"
    if not shortages(ledger, charge.amounts, counts_held=False):
        return BindingCause.RESERVATION_HELD, "the rest of its resources is reserved"
    return BindingCause.CAPACITY_CHANGED, "insufficient resources"


def _is_only_by_ghosts(ledger: Ledger, charge: Charge) -> bool:
    """Whether none of the ports would be taken if the ghosts were gone."""
    by_ghosts = Counter(port for ghost in ledger.ghosts.values() for port in ghost.ports)
    others = [port for port, count in ledger.ports.items() if count > by_ghosts[port]]
    return bool(by_ghosts) and taken_port(charge.ports, (*others, *ledger.held_ports)) is None


def taken_port(wanted: Iterable[str], taken: Iterable[str]) -> tuple[str, str] | None:
    """The first port that another pod has, and as what."""
    for text in wanted:
        port = parse_port(text)
        for other in taken:
            if conflicts(port, parse_port(other)):
                return text, other
    return None


def bears_cordon(pod: Object) -> bool:
    """Whether a pod tolerates that its node is unschedulable, as those of daemon sets do."""
    return any(_tolerates(each) for each in pod["spec"].get("tolerations") or ())


def _tolerates(toleration: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", "NoSchedule"):
        return False
    is_exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return is_exists
    return bool(toleration["key"] == UNSCHEDULABLE_TAINT and (is_exists or not toleration.get("value")))

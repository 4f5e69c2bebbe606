"""What a Node says of itself, and what that makes of its ledger. Plain functions.

What is taken stays taken when a Node changes, goes or comes back: pods are on a name. Only ghosts end with their Node,
because to delete it is to say that nothing runs there any more.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from mainstay.api.kind import Object
from mainstay.api.pod_resources import read_allocatable
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.server.placement.ledger.ledger import Ledger, confirm_gone

_OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"


class LedgerNode(msgspec.Struct, frozen=True):
    """What a ledger knows of its Node."""

    uid: str
    is_accepting: bool
    zone: str
    allocatable: dict[str, int]


def read_facts(node: Object) -> LedgerNode:
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    zone = labels.get(ZONE_LABEL) or labels.get(_OLD_ZONE) or ""
    is_accepting = not (node.get("spec") or {}).get("unschedulable")
    allocatable = {resource: amount for resource, amount in read_allocatable(node).items() if amount}
    return LedgerNode(metadata["uid"], is_accepting, zone, allocatable)


def has_other_facts(new: Object, old: Object) -> bool:
    """Whether a write of a Node is one for its ledger, which knows when the Node last changed (history.py): asked of
    every heartbeat, so nothing is worked out."""
    now, before = new.get("spec") or {}, old.get("spec") or {}
    return (
        (new.get("status") or {}).get("allocatable") != (old.get("status") or {}).get("allocatable")
        or bool(now.get("unschedulable")) != bool(before.get("unschedulable"))
        or now.get("taints") != before.get("taints")
        or new["metadata"].get("labels") != old["metadata"].get("labels")
    )


def with_node(ledger: Ledger, facts: LedgerNode) -> Ledger:
    """The ledger of a Node that has come, or has changed. Ghosts of another Node of that name are none of this one."""
    if ledger.node_uid not in ("", facts.uid):
        ledger = confirm_gone(ledger, ledger.ghosts)
    return replace(
        ledger,
        node_uid=facts.uid,
        is_accepting=facts.is_accepting,
        zone=facts.zone,
        allocatable=facts.allocatable,
    )


def without_node(ledger: Ledger) -> Ledger:
    """The ledger of a name whose Node is gone: it has nothing to give, but its pods are still on it."""
    resting = confirm_gone(ledger, ledger.ghosts)
    return replace(resting, node_uid="", is_accepting=True, zone="", allocatable={})

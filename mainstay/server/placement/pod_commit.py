"""The commit point of pods: a pod on a node is charged to it, until it has ended or is gone.

What a pod is to be charged with follows from the pod alone (ledger/charge.py); what it is charged with lies beside it.
A write that makes a difference between the two changes the charge and the ledger in its own transaction:

    made with spec.nodeName        charged, whether or not there is room, as in Kubernetes
    bound                          charged if there is room: binding.py
    Succeeded or Failed            given back
    resized                        charged with the larger of what it has and what it wants
    removed by its agent           given back
    removed by another client     becomes a ghost: taken until the agent says that it is gone, or the Node is deleted

`deletionTimestamp` gives nothing back: a pod runs until its agent has ended it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.pod_resources import is_over
from mainstay.server.placement.charges import Charging
from mainstay.server.placement.ledger.charge import Charge, build_charge, charge_key, decode_charge
from mainstay.server.storage.commit_points import NOTHING, Intended, TransactionParts
from mainstay.store.interface import ABSENT, Check, Store

_NOTHING: Final[Mapping[str, Any]] = {}
_decode = msgspec.json.Decoder().decode


class PodPoint:
    """Implements `CommitPoint` (server/storage/commit_points.py)."""

    def __init__(self, store: Store, charging: Charging) -> None:
        self._store = store
        self._charging = charging

    def applies_to(self, intended: Intended) -> bool:
        new, old = intended.new, intended.old
        if old is None:
            return new is not None and bool(new["spec"].get("nodeName"))
        if new is None:
            return not is_over(old) and is_on_a_node(old)
        if is_over(new) != is_over(old) or intended.subresource == "resize":
            return True
        return resources_of_states(new) != resources_of_states(old)

    async def parts_for(self, intended: Intended) -> TransactionParts:
        pod = intended.new or intended.old
        if pod is None:
            raise AssertionError("a write has an object before it, or after it, or both")
        metadata = pod["metadata"]
        key = charge_key(metadata["namespace"], metadata["name"])
        wanted = None if intended.new is None else build_charge(_whole(intended.new))
        entry = await self._store.get(key)
        if entry is None and wanted is not None:
            return await self._charging.came(key, wanted)
        if entry is None:
            # Where a charge is missing, a recount may be about to write it: on condition of the pod, which is as it was
            # until this is committed. So this is on condition of the charge, and one of the two decides again.
            return TransactionParts((Check(key, ABSENT),))
        charge = decode_charge(entry.value)
        if intended.new is None and intended.context.agent_of != charge.node:
            return await self._charging.vanished(entry, charge)
        if wanted is None:
            return await self._charging.went(entry, charge)
        if _is_same(wanted, charge):
            return NOTHING
        return await self._charging.changed(entry, charge, wanted)


def is_on_a_node(pod: Object) -> bool:
    spec = pod["spec"]
    return b'"nodeName"' in bytes(spec) if isinstance(spec, msgspec.Raw) else bool(spec.get("nodeName"))


def resources_of_states(pod: Object) -> list[tuple[Any, Any]]:
    """What the agent says that containers have been given: by this a resize begins and ends to count."""
    status = pod.get("status") or _NOTHING
    return [
        (each.get("allocatedResources"), each.get("resources"))
        for name in ("containerStatuses", "initContainerStatuses")
        for each in status.get(name) or ()
        if "allocatedResources" in each or "resources" in each
    ]


def _is_same(wanted: Charge, charge: Charge) -> bool:
    return wanted.amounts == charge.amounts and wanted.ports == charge.ports and wanted.node == charge.node


def _whole(pod: Object) -> Object:
    spec = pod["spec"]
    return {**pod, "spec": _decode(spec)} if isinstance(spec, msgspec.Raw) else pod

"""Counting anew what is kept beside the objects, when somebody asks for it: repair does, for each in turn.

    POST /api/v1/nodes/NAME/recount         { wasWrong, isRight, missing: [pod …], leftOver: [pod …] }
    POST /api/v1/namespaces/NAME/recount    { wasWrong, isRight, quotas: [name …], leftOver: [name …], zones: [zone …] }

The first is about the ledger of a node, the second about what is used of the quotas of a namespace. Also for a node or
a namespace that is not there any more: what is left of a ledger then is what pods are charged to it. To ask twice does
no harm, and what is right is not written.
"""

from typing import Any

from mainstay.server.placement.ledger.ledger import ledger_key
from mainstay.server.placement.ledger.recount import find_drift, recount
from mainstay.server.quota.recount import find_quota_drift, recount_quotas
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.store.interface import Store


async def recounted(store: Store, shared: SharedWrites, node: str) -> dict[str, Any]:
    drift, _, _ = await find_drift(store, node)
    is_right = True
    if not drift.is_none:
        is_right = await recount(store, node)
        shared.forget(ledger_key(node))
    return {
        "kind": "NodeRecount",
        "apiVersion": "mainstay.dev/v1",
        "metadata": {"name": node},
        "wasWrong": not drift.is_none,
        "isRight": is_right,
        "missing": sorted(charge.pod for charge in drift.missing),
        "leftOver": sorted(charge.pod for charge in drift.left_over),
    }


async def quotas_recounted(store: Store, shared: SharedWrites, namespace: str) -> dict[str, Any]:
    drift = await find_quota_drift(store, namespace)
    return {
        "kind": "NamespaceRecount",
        "apiVersion": "mainstay.dev/v1",
        "metadata": {"name": namespace},
        "wasWrong": not drift.is_none,
        "isRight": drift.is_none or await recount_quotas(store, shared, namespace),
        "quotas": sorted(drift.wrong),
        "leftOver": sorted(drift.left_over),
        "zones": sorted(drift.zones),
    }

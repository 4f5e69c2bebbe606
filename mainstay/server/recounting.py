"""Counting a node's ledger anew when somebody asks for it: repair does, for each node in turn.

    POST /api/v1/nodes/NAME/recount    { wasWrong, isRight, missing: [pod …], leftOver: [pod …] }

Also for a node that is not there any more: what is left of its ledger then is what pods are charged to it. To ask
twice does no harm, and one that is right is not written.
"""

from typing import Any

from mainstay.server.ledger.ledger import ledger_key
from mainstay.server.ledger.recount import find_drift, recount
from mainstay.server.shared_writes import SharedWrites
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

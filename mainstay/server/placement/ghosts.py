"""Ghosts: pods that were removed by force from a node that may still run them.

What they take stays taken, in the ledger of the node, until the node's agent says that they have ended, or the Node is
deleted. The agent asks which there are, ends what it finds of them, and says which are gone:

    GET /api/v1/nodes/NAME/ghosts    { items: [ { uid, namespace, name, resources, ports } … ] }
    PUT /api/v1/nodes/NAME/ghosts    { gone: [uid …] }   answered with what is left

To say it twice, or of a pod that is no ghost, does no harm. What each of them holds is for schedulers, which know of
ghosts only from being refused (`HeldByGhosts`).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from mainstay.api.errors import bad_request, not_found
from mainstay.api.json_values import UNREADABLE
from mainstay.server.placement.ledger.charge import parse_port
from mainstay.server.placement.ledger.ledger import GHOSTS_MAX, Ledger, build_write, confirm_gone, ledger_in, ledger_key
from mainstay.server.placement.ledger.refusals import shown
from mainstay.server.storage.keyspace import CORE
from mainstay.server.storage.shared_writes import SharedWrite, SharedWrites
from mainstay.server.storage.transact import too_many_conflicts, transact
from mainstay.store.interface import Check, Committed, Entry, Store, Write


class _Report(msgspec.Struct):
    gone: list[str]


_decode = msgspec.json.Decoder(_Report).decode


class Ghosts:
    def __init__(self, store: Store, shared: SharedWrites) -> None:
        self._store = store
        self._shared = shared

    async def of(self, node: str) -> dict[str, Any]:
        """Those of a node, as an object. Raises `StatusError` (404)."""
        await self._node(node)
        return _shown(node, ledger_in(await self._store.get(ledger_key(node))))

    async def reported(self, node: str, body: bytes) -> dict[str, Any]:
        """The agent says which are gone. Returns those that are left. Raises `StatusError`: 400, 404."""
        gone = uids_in(body)
        key = ledger_key(node)
        left: list[Ledger] = []

        def change(entry: Entry | None) -> Sequence[Write]:
            before = ledger_in(entry)
            left[:] = [confirm_gone(before, gone)]
            return (build_write(key, left[0], entry),)

        async def attempt() -> Ledger | None:
            # While the Node is there: if it goes, so do all of its ghosts.
            there = await self._node(node)
            before = ledger_in(await self._store.get(key))
            if not any(uid in before.ghosts for uid in gone):
                return before
            answer = await self._shared.commit([Check(there.key, there.revision)], (), (SharedWrite(key, change),))
            return left[0] if isinstance(answer, Committed) else None

        ledger = await transact(attempt)
        if ledger is None:
            raise too_many_conflicts(f'nodes "{node}"')
        return _shown(node, ledger)

    async def _node(self, node: str) -> Entry:
        entry = await self._store.get(f"{CORE}/nodes/{node}")
        if entry is None:
            raise not_found("nodes", "", node)
        return entry


def uids_in(body: bytes) -> list[str]:
    """Raises `StatusError` (400)."""
    try:
        gone = _decode(body).gone
    except UNREADABLE as error:
        raise bad_request(f'the body must be {{"gone": [uid …]}}: {error}') from None
    if len(gone) > GHOSTS_MAX:
        raise bad_request(f"at most {GHOSTS_MAX} uids at once")
    return gone


def _shown(node: str, ledger: Ledger) -> dict[str, Any]:
    items = []
    for uid, charge in sorted(ledger.ghosts.items()):
        namespace, _, name = charge.pod.partition("/")
        resources = {resource: shown(resource, amount) for resource, amount in sorted(charge.amounts.items())}
        ports = [
            {"hostPort": port.port, "protocol": port.protocol, "hostIP": port.ip}
            for port in map(parse_port, charge.ports)
        ]
        items.append({"uid": uid, "namespace": namespace, "name": name, "resources": resources, "ports": ports})
    return {"kind": "NodeGhosts", "apiVersion": "mainstay.dev/v1", "metadata": {"name": node}, "items": items}

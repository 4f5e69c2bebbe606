"""The commit point of Nodes: their ledger knows what they have to give, from the same revision on."""

from collections.abc import Sequence

from mainstay.server.placement.ledger.history import LedgerPart
from mainstay.server.placement.ledger.ledger import build_write, ledger_in, ledger_key
from mainstay.server.placement.ledger.nodes import has_other_facts, read_facts, with_node, without_node
from mainstay.server.storage.commit_points import Intended, TransactionParts
from mainstay.server.storage.shared_writes import SharedWrite
from mainstay.store.interface import Entry, Write


class NodePoint:
    """Implements `CommitPoint` (server/storage/commit_points.py)."""

    def applies_to(self, intended: Intended) -> bool:
        new, old = intended.new, intended.old
        return new is None or old is None or has_other_facts(new, old)

    async def parts_for(self, intended: Intended) -> TransactionParts:
        node = intended.new or intended.old
        if node is None:
            raise AssertionError("a write has an object before it, or after it, or both")
        key = ledger_key(node["metadata"]["name"])
        facts = None if intended.new is None else read_facts(intended.new)
        is_made = intended.old is None

        def change(entry: Entry | None) -> Sequence[Write]:
            if facts is None:
                gone = without_node(ledger_in(entry))
                return (build_write(key, gone, entry, LedgerPart.NODES),) if entry is not None else ()
            if entry is None and not is_made:
                return ()  # It was made before there were ledgers. What needs one counts all of it (recount.py).
            return (build_write(key, with_node(ledger_in(entry), facts), entry, LedgerPart.NODES),)

        return TransactionParts(shared=(SharedWrite(key, change),))

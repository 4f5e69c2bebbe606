"""When a ledger last changed, and by what: for schedulers that want to be refused if they have not seen it.

A scheduler follows nodes, pods and reservations by separate watches, and each may be late. So a ledger knows the
revision of its last change by each of the three:

    nodes          the Node changed: what it has to give, its labels or taints, whether it takes pods
    pods           a pod was charged
    reservations   room was reserved

What gives room back takes nothing from a decision and counts as no change. Charges are also known by who bound the pod:
a scheduler counts the pods that it has bound itself as soon as it has decided, before any watch shows them.

A write does not know its own revision. So a history says what the last write was, and its revision is the entry's;
`note_change` writes it down when the next one comes. Every write of a ledger has to go through it (`build_write`).
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mainstay.server.placement.observed import Observed


class LedgerPart(StrEnum):
    """What changed a ledger. Kept in it: only add."""

    NODES = "n"
    PODS = "p"
    RESERVATIONS = "r"
    NOTHING = ""
    """Room was given back, or a mistake was put right."""
    ANYTHING = "?"
    """It is not known, because an earlier version of the server wrote it: it may have been each of them."""


class LedgerHistory(Struct, frozen=True, array_like=True):
    last: str = LedgerPart.ANYTHING
    """What the last write was. Its revision is that of the entry, and not here yet."""
    by: str = ""
    """Who bound the pod that was charged last; empty: not a scheduler that says its name."""
    nodes: int = 0
    pods: int = 0
    reservations: int = 0
    pods_of_others: int = 0
    """The last charge of a pod that was bound by any other than `by`."""


NO_HISTORY: Final = LedgerHistory()


def note_change(history: LedgerHistory, revision: int, part: LedgerPart, by: str = "") -> LedgerHistory:
    """With one more write, after the entry of this revision."""
    settled = _settle(history, revision)
    if part is not LedgerPart.PODS:
        return replace(settled, last=str(part))
    others = settled.pods_of_others if by and by == settled.by else settled.pods
    return replace(settled, last=str(part), by=by, pods_of_others=others)


def find_unseen(history: LedgerHistory, revision: int, observed: Observed) -> tuple[str, int, int] | None:
    """What a scheduler has not seen of a ledger at this revision: the kind, when it changed, and what was observed.
    None: it has seen everything."""
    settled = _settle(history, revision)
    is_own = bool(observed.by) and observed.by == settled.by
    changes = (
        ("nodes", settled.nodes, observed.nodes),
        ("pods", settled.pods_of_others if is_own else settled.pods, observed.pods),
        ("reservations", settled.reservations, observed.reservations),
    )
    return next(((kind, at, seen) for kind, at, seen in changes if seen is not None and at > seen), None)


def _settle(history: LedgerHistory, revision: int) -> LedgerHistory:
    match history.last:
        case LedgerPart.NODES:
            return replace(history, last="", nodes=revision)
        case LedgerPart.PODS:
            return replace(history, last="", pods=revision)
        case LedgerPart.RESERVATIONS:
            return replace(history, last="", reservations=revision)
        case LedgerPart.ANYTHING:
            return replace(history, last="", nodes=revision, pods=revision, reservations=revision)
        case _:
            return history

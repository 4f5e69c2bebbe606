"""Placement policies at the commit: two active ones of equal specificity never select the same pod.

Which policies are active is read from the store when one becomes active, or gets another limit while it is. Two that
are activated at once, on whichever servers, both write the same key on condition that it has not changed since they
read it: the second one is judged again, and finds the first. The key says nothing but that; the policies themselves are
what counts. To deactivate or to remove a policy needs none of it, because that can only end a tie.
"""

from typing import Final

import msgspec

from mainstay.api.errors import invalid, invalid_value
from mainstay.api.kind import Kind, Object
from mainstay.api.policy_scope import is_active, overlap, parse_scope, specificity
from mainstay.server.storage.commit_points import NOTHING, Intended, TransactionParts
from mainstay.server.storage.keyspace import INTERNAL_PREFIX, build_prefix
from mainstay.store.interface import ABSENT, Check, Put, Store

ACTIVATED: Final = f"{INTERNAL_PREFIX}placement-policy-activated"
"""The last policy that became active, by name: written so that activations come one after the other."""

_decode = msgspec.json.Decoder(dict).decode


class PolicyPoint:
    """Implements `CommitPoint`, for PlacementPolicy."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def applies_to(self, intended: Intended) -> bool:
        new, old = intended.new, intended.old
        if new is None or not is_active(new):
            return False
        return old is None or not is_active(old) or parse_scope(old) != parse_scope(new)

    async def parts_for(self, intended: Intended) -> TransactionParts:
        """Raises `StatusError` (422) if another active policy ties with it."""
        new = intended.new
        if new is None or parse_scope(new) is None:
            return NOTHING
        last = await self._store.get(ACTIVATED)  # Before the others: what becomes active after it is read changes it.
        for entry in (await self._store.range(build_prefix(intended.kind))).entries:
            if entry.key != intended.key:
                _require_no_tie(intended.kind, new, _decode(entry.value))
        check = Check(ACTIVATED, ABSENT if last is None else last.revision)
        return TransactionParts(checks=[check], writes=[Put(ACTIVATED, new["metadata"]["name"].encode())])


def _require_no_tie(kind: Kind, new: Object, other: Object) -> None:
    scope, others = parse_scope(new), parse_scope(other)
    if scope is None or others is None or not is_active(other) or specificity(scope) != specificity(others):
        return
    if overlap(scope, others):
        name = other["metadata"]["name"]
        detail = (
            f'ties with the active PlacementPolicy "{name}": some pods are in both scopes, and neither scope is more'
            f" specific; narrow the scope, or deactivate {name} first"
        )
        field = "scope" if scope.limit is None else "limit"
        shown = msgspec.json.encode(new["spec"][field]).decode()
        raise invalid(kind.kind, kind.group, new["metadata"]["name"], [invalid_value(f"spec.{field}", shown, detail)])

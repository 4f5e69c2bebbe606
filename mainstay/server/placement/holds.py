"""Holds at the commit: one ends in time by the server's clock, and while evictions are held none is committed.

A user who has been told that evictions are held can rely on it: all Holds of evictions are also noted under one key, in
the transaction that makes, changes or removes them, and each eviction looks at that key in its own transaction. So
there is no eviction that began before the Hold and is committed after it, on whichever server.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from mainstay.api.errors import StatusCause, StatusError, StatusReason, invalid, invalid_value
from mainstay.api.holds import LONGEST, HoldReason, HoldScope, ParsedHold, freezing, longest_first, parse_hold
from mainstay.api.kind import Object
from mainstay.api.kind_names import HOLDS
from mainstay.api.times import format_time
from mainstay.env import Clock
from mainstay.server.storage.commit_points import NOTHING, Intended, TransactionParts
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.storage.shared_writes import SharedWrite
from mainstay.store.interface import DeleteEntry, Entry, Put, Write

FROZEN: Final = f"{INTERNAL_PREFIX}frozen-evictions"
_SLACK_S: Final = 60  # The clock of a client that asks for the longest time there is may be ahead of ours.


class _Noted(msgspec.Struct, frozen=True, omit_defaults=True):
    """All Holds of evictions, by name. Those whose time is over are there until they are removed."""

    holds: dict[str, ParsedHold] = {}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Noted).decode


class HoldPoint:
    """Refuses a Hold that would last too long, and notes those of evictions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def applies_to(self, intended: Intended) -> bool:
        return intended.subresource != "status"

    async def parts_for(self, intended: Intended) -> TransactionParts:
        new, old = intended.new, intended.old
        if new is not None:
            _require_in_time(new, old, self._clock.wall())
        if not any(_is_of_evictions(each) for each in (new, old)):
            return NOTHING
        name, held = (new or old or {})["metadata"]["name"], None if new is None else parse_hold(new)

        def change(found: Entry | None) -> Sequence[Write]:
            before = {} if found is None else _decode(found.value).holds
            after = {each: noted for each, noted in before.items() if each != name}
            if held is not None and not held.is_leaving:
                after[name] = held
            if after == before:
                return ()
            return (Put(FROZEN, _encode(_Noted(dict(sorted(after.items()))))) if after else DeleteEntry(FROZEN),)

        return TransactionParts(shared=(SharedWrite(FROZEN, change),))


def _is_of_evictions(hold: Object | None) -> bool:
    return hold is not None and (hold.get("spec") or {}).get("what") == HoldScope.EVICTIONS


def _require_in_time(new: Object, old: Object | None, now: datetime) -> None:
    """Raises `StatusError` if it would end too late, or is over already. What was let pass before may stay."""
    held, before = parse_hold(new), None if old is None else parse_hold(old)
    if held is None or held.is_leaving or (before is not None and before.expires_at == held.expires_at):
        return
    problem = ""
    if not held.is_in_force(now):
        problem = f"must be in the future: it is {format_time(now)}"
    elif (held.expires_at - now - LONGEST).total_seconds() > _SLACK_S:
        most = format_time(now + LONGEST)
        problem = (
            f"a Hold lasts at most {LONGEST.days} days, until {most}; create another Hold later if that is not enough"
        )
    if problem:
        cause: StatusCause = invalid_value("spec.expiresAt", held.until, problem)
        raise invalid(HOLDS.kind, HOLDS.group, held.name, [cause])


def unless_frozen(namespace: str, now: datetime) -> SharedWrite:
    """For the transaction of an eviction: it is refused (429) while evictions of its namespace are held."""

    def change(found: Entry | None) -> Sequence[Write]:
        if found is not None:
            holds = [held for held in _decode(found.value).holds.values() if held.is_in_force(now)]
            frozen = freezing(longest_first(holds), namespace)
            if frozen is not None:
                raise frozen_error(frozen)
        return ()

    return SharedWrite(FROZEN, change)


def frozen_error(held: ParsedHold) -> StatusError:
    """As with a budget, when to retry stands in the body alone: by a header clients would retry without showing why."""
    where = f" in namespace {held.namespace}" if held.namespace else ""
    message = f"evictions{where} are frozen by Hold {held.name}: {held.words}"
    details = {"causes": [{"reason": str(HoldReason.EVICTIONS_FROZEN), "message": message}]}
    return StatusError(429, StatusReason.TOO_MANY_REQUESTS, f"Cannot evict pod: {message}", details)

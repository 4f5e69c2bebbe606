"""Which changes only say that their writer is still there.

Leases are renewed, and components publish how far they have come, without end and whether or not anything happens. To
those who watch other kinds, that the store has gone on by nothing but these is no news: bookmarks for each would be
most of what an idle cluster sends.

A lease that changes hands, or is acquired again by its former holder, is news: its revision is a term, and a new leader
waits until all that it knows has come as far (loop/lease.py).
"""

from typing import Any, Final

import msgspec

from mainstay.store.interface import KeyChange

LEASES: Final = "coordination.k8s.io/leases/"
COMPONENT_STATES: Final = "mainstay.dev/componentstates/"


class _Spec(msgspec.Struct, rename="camel", gc=False):
    """All of a lease's spec but when it was renewed."""

    holder_identity: str | None = None
    acquire_time: str | None = None
    lease_transitions: Any = None
    lease_duration_seconds: Any = None


class _Lease(msgspec.Struct, gc=False):
    spec: _Spec | None = None


_decode = msgspec.json.Decoder(_Lease).decode


def is_heartbeat(change: KeyChange) -> bool:
    key = change.key
    if change.entry is None or change.previous is None:
        return False
    if key.startswith(LEASES):
        try:
            return _decode(change.entry.value) == _decode(change.previous.value)
        except msgspec.MsgspecError:
            return False  # Not as we know them.
    return key.startswith(COMPONENT_STATES)

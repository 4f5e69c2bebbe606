"""Terms of leaders, by which the writes of a deposed one are refused.

A leader's *term* is the revision at which it acquired its Lease. A key beside the lease is written in the same
transaction whenever the holder changes, and never when the lease is only renewed: so the resource version that the
acquiring write was answered is the revision of that key. A write that names its term is committed only while the key
is still at that revision:

    Mainstay-Term: kube-system/scheduler=5012

A client that acquires the lease later, or deletes it, moves the key, and from then on nothing of the former holder can
happen, however long it was paused or its request was under way. Not promised: that a write which names no term is
kept out, or that a leader knows it was deposed before it is told so.
"""

import re
from typing import Final

from mainstay.api.causes import FENCED
from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.headers import TERM
from mainstay.api.kind import Kind, Object
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.interface import Check, DeleteEntry, Put, Write

_FORM: Final = re.compile(r"(?P<lease>[a-z0-9.-]{1,253}/[a-z0-9.-]{1,253})=(?P<revision>[1-9][0-9]{0,18})")
_HELD_BY: Final = ("holderIdentity", "leaseTransitions", "acquireTime")


def parse_term(header: str | None) -> Check | None:
    """What must hold for a write that names its term. Raises `StatusError` (400) for one that cannot be read."""
    if not header:
        return None
    found = _FORM.fullmatch(header)
    if found is None:
        raise bad_request(f"{TERM} must be NAMESPACE/LEASE=REVISION, and is {header!r}")
    return Check(_key(found["lease"]), int(found["revision"]))


def fenced(term: Check) -> StatusError:
    """The answer to a leader that is none any more."""
    lease = term.key.removeprefix(_key(""))
    text = f"the term {term.revision} of lease {lease} is over: another holder has acquired it, or it was deleted"
    details = {"name": lease.partition("/")[2], "group": "coordination.k8s.io", "kind": "leases"}
    return StatusError(409, StatusReason.CONFLICT, text, {**details, "causes": [{"reason": FENCED, "message": text}]})


def term_writes(kind: Kind, new: Object | None, old: Object | None) -> list[Write]:
    """What goes into the transaction that writes a lease, or removes it (`new` is None)."""
    if kind.kind != "Lease" or kind.group != "coordination.k8s.io":
        return []
    meta = (new or old or {})["metadata"]
    key = _key(f"{meta['namespace']}/{meta['name']}")
    if new is None:
        return [DeleteEntry(key)]
    holder, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    if all(holder.get(name) == before.get(name) for name in _HELD_BY):
        return []
    return [Put(key, str(holder.get("holderIdentity", "")).encode())]


def _key(lease: str) -> str:
    return f"{INTERNAL_PREFIX}terms/{lease}"

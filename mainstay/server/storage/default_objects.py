"""Objects that a server makes itself when it starts, and brings back: the bootstrap roles, and those of flow control.

They are written past the API, in as few transactions as the store allows, and nothing is written if nothing has to be.
Which objects there should be, and what of theirs is users' to change, the rooms that have them say.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mainstay.api import managed_fields
from mainstay.api.kind import Kind, Object
from mainstay.server.storage.transact import too_many_conflicts, transact
from mainstay.store.interface import TRANSACTION_OPERATIONS_MAX, Check, Committed, Entry, Put, Store

_WRITES_MAX: Final = TRANSACTION_OPERATIONS_MAX // 2  # In one transaction: each has a check.
_LONG_AGO: Final = "1970-01-01T00:00:00Z"

FindChanges = Callable[[Mapping[str, Entry]], list[tuple[Check, Put]]]
"""What is to be written, given what is there by key."""


async def reconcile(store: Store, prefixes: Iterable[str], find_changes: FindChanges, what: str) -> None:
    """Write what has to be. `what` it is, for the error message. Raises `StatusError`, `StoreError`."""
    looked_at = tuple(prefixes)

    async def attempt() -> bool | None:
        entries: dict[str, Entry] = {}
        for prefix in looked_at:
            entries |= {entry.key: entry for entry in (await store.range(prefix)).entries}
        changes = find_changes(entries)
        for at in range(0, len(changes), _WRITES_MAX):
            some = changes[at : at + _WRITES_MAX]
            answer = await store.commit([check for check, _ in some], [put for _, put in some])
            if not isinstance(answer, Committed):
                return None  # Another server does the same.
        return True

    if await transact(attempt) is None:
        raise too_many_conflicts(what)


def build_default(kind: Kind, obj: Object, manager: str) -> Object:
    """An object with the owner of its fields, and without what differs from cluster to cluster: see `begin_default`."""
    made = {**obj, "metadata": {**obj["metadata"], "uid": ""}}
    owners = managed_fields.updated(
        None, made, manager=manager, api_version=kind.group_version, now=_LONG_AGO, message=kind.message
    )
    managed_fields.put(made, owners)
    return made


def begin_default(built: Object, uid: str, now: str) -> Object:
    """One of `build_default`, as it is first written in a cluster."""
    metadata = {**built["metadata"], "uid": uid, "creationTimestamp": now}
    metadata["managedFields"] = [{**entry, "time": now} for entry in metadata["managedFields"]]
    return {**built, "metadata": metadata}

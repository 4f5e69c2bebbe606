"""Hashes that do not depend on addresses, for what asyncio programs put into sets: protocols, streams, queues, locks.

Python hashes these by address, and the order of a set is that of the hashes: aiohttp, for one, closes its connections
in the order of a set of protocols. Inside a run each is given a number of its loop instead, when it is first asked for
its hash. Tasks, futures, transports and sockets of a run have numbers by themselves.

An object must keep its hash for life, or is not found again in the set that it was put into, and objects live longer
than runs. So the method stays where the first run of the process has put it. Whatever no run has numbered has the hash
that it always had.

Not covered: an object that was put into a set before the first run of the process (before any run, if it has no room
for a number), and is asked for its hash in a run. It is not found in that set any more. A library that is only imported
in the course of a run has its own classes covered from the next one on. And the objects of the program's own classes:
their order in a set is the program's to avoid.
"""

import asyncio
import asyncio.mixins
import sys
import zlib
from collections.abc import Callable
from typing import Any, Final

from mainstay.sim.foreign import context

_CLASSES: Final[tuple[type, ...]] = (
    asyncio.BaseProtocol,
    asyncio.StreamReader,
    asyncio.StreamWriter,
    asyncio.mixins._LoopBoundMixin,  # Queues, events, locks, conditions, semaphores.
    asyncio.tasks._GatheringFuture,  # type: ignore[attr-defined]  # The one future made without asking the loop.
)

# Classes of libraries, by module and name, that go into one set with the above. One address is enough for a set to have
# another order: this stands in aiohttp's set of connections for one that is being made.
_FOREIGN_CLASSES: Final = (("aiohttp.connector", "_TransportPlaceholder"),)

# Values of libraries that are put into sets, by module, name, and the fields by which they are equal. Their texts hash
# differently in each process: kopf begins to watch what it serves in the order of a set.
_FOREIGN_VALUES: Final = (("kopf._cogs.structs.references", "Resource", ("group", "version", "plural")),)

# Some classes leave no room for a number (`__slots__`, as aiohttp's server side). All objects of such a class that a
# run has met have one hash: their order in a set is then a matter of the order in which they were put there. Sets of
# thousands of them are slow. Here are their addresses: a new object at such an address has that hash too, which does no
# harm, since it has had no other.
_SHARED_HASH: Final = 1
_sharing: set[int] = set()


def install() -> None:
    """Put the hashes in place, unless they are already. There they stay."""
    for owner in _CLASSES:
        _install_in(owner)
    for module, name in _FOREIGN_CLASSES:
        foreign = getattr(sys.modules.get(module), name, None)
        if isinstance(foreign, type):
            _install_in(foreign)
    for module, name, fields in _FOREIGN_VALUES:
        value = getattr(sys.modules.get(module), name, None)
        if isinstance(value, type) and value not in _by_text:
            _by_text[value] = None
            value.__hash__ = _text_hash(fields)  # type: ignore[method-assign, assignment]


_by_text: dict[type, None] = {}
"""Those that have such a hash by now."""


def _text_hash(fields: tuple[str, ...]) -> Callable[[Any], int]:
    def text_hash(value: Any) -> int:
        return zlib.crc32("/".join(str(getattr(value, field)) for field in fields).encode())

    return text_hash


def _install_in(owner: type) -> None:
    if owner.__dict__.get("__hash__") is not _read_number:
        owner.__hash__ = _read_number  # type: ignore[method-assign, assignment]


def _read_number(numbered: Any) -> int:
    try:
        return object.__getattribute__(numbered, "_mainstay_number")  # type: ignore[no-any-return]
    except AttributeError:
        pass
    run = context.current()
    # Also remembered if it is the address: a later run must not change it.
    number = object.__hash__(numbered) if run is None else run.loop.next_number()
    try:
        object.__setattr__(numbered, "_mainstay_number", number)
    except AttributeError:
        if run is not None:
            _sharing.add(id(numbered))
        return _SHARED_HASH if id(numbered) in _sharing else number
    return number

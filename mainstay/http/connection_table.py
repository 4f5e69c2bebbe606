"""Which connections there are, by client address, and which has to go when there are too many.

A connection counts from the moment it is accepted: one that never begins TLS takes a file of the process like any
other. Clients with a certificate (nodes, the scheduler, controllers, administrators) are counted and never closed for
others; a tenth of all connections is for them alone. For the rest there is a limit per address, and one in all. When
either is reached, a new connection makes room for itself, of the same address or of all:

    1. the oldest that has asked nothing yet is closed, unless there are few of these: a handshake takes its time
    2. the oldest that waits for its client is closed
    3. all are busy: the new one goes on only if its client shows a certificate, and is answered 503 otherwise

So a flood of connections pushes out its own, and a client that has something to say still gets through.
"""

from typing import Final, Protocol

from mainstay.http.limits import HttpLimits

FRESH_MIN: Final = 64
"""Connections that have asked nothing yet, of one address or in all, that are not closed for new ones. Also how many
there are at most beyond a limit."""


class ConnectionHolder(Protocol):
    """What is behind a connection now: a handshake, or requests."""

    @property
    def is_busy(self) -> bool:
        """Whether something is being done for the client."""

    def drop(self) -> None:
        """Close it at once."""


class ConnectionEntry:
    """One connection in the table."""

    __slots__ = ("address", "holder", "is_counted", "is_ordinary", "is_surplus")

    def __init__(self, address: str, holder: ConnectionHolder) -> None:
        self.address = address
        self.holder = holder
        self.is_counted = True
        self.is_ordinary = True
        """Whether its client has shown no certificate."""
        self.is_surplus = False
        """Whether it has to be told that there are too many."""


class _Group:
    """Connections without a certificate, oldest first: those that have asked nothing yet, and the others."""

    __slots__ = ("fresh", "used")

    def __init__(self) -> None:
        self.fresh: dict[ConnectionEntry, None] = {}
        self.used: dict[ConnectionEntry, None] = {}

    def __len__(self) -> int:
        return len(self.fresh) + len(self.used)

    def discard(self, entry: ConnectionEntry) -> None:
        self.fresh.pop(entry, None)
        self.used.pop(entry, None)

    def find_dispensable(self) -> ConnectionEntry | None:
        if len(self.fresh) > FRESH_MIN:
            return next(iter(self.fresh))
        return next((entry for entry in self.used if not entry.holder.is_busy), None)


class ConnectionTable:
    """The connections of one server."""

    def __init__(self, limits: HttpLimits) -> None:
        self._connections_max = limits.connections
        self._ordinary_max = limits.connections - limits.connections // 10
        self._per_address_max = limits.connections_per_address
        self._all = _Group()
        self._by_address: dict[str, _Group] = {}
        self._count = 0
        self._surplus = 0  # Without a certificate, and to be told that there are too many.
        self.dropped = 0
        """How many were closed for others, or not let in."""

    def enter(self, address: str, holder: ConnectionHolder) -> ConnectionEntry | None:
        """Count a connection. None if it has to be closed at once."""
        ours = self._by_address.get(address)
        is_surplus = ours is not None and self._is_too_many(ours, len(ours) >= self._per_address_max)
        is_full = self._count >= self._connections_max or len(self._all) >= self._ordinary_max
        is_surplus = self._is_too_many(self._all, is_full) or is_surplus
        if self._count >= self._connections_max + FRESH_MIN:
            self.dropped += 1
            return None
        entry = ConnectionEntry(address, holder)
        entry.is_surplus = is_surplus
        self._surplus += is_surplus
        self._count += 1
        self._all.fresh[entry] = None
        self._by_address.setdefault(address, _Group()).fresh[entry] = None
        return entry

    def open(
        self, entry: ConnectionEntry | None, address: str, holder: ConnectionHolder, *, is_certified: bool
    ) -> ConnectionEntry:
        """The connection can be used: `entry` is that of its handshake, if there was one."""
        entry = entry or self.enter(address, holder)
        if entry is None:
            entry = ConnectionEntry(address, holder)
            entry.is_counted, entry.is_surplus = False, True
        entry.holder = holder
        if is_certified:
            self.certify(entry)
        return entry

    def certify(self, entry: ConnectionEntry) -> None:
        """Its client has shown a certificate."""
        if entry.is_counted and entry.is_ordinary:
            self._forget_ordinary(entry)
            entry.is_surplus = self._count - self._surplus > self._connections_max

    def use(self, entry: ConnectionEntry) -> None:
        """Its client has asked something."""
        if entry.is_counted and entry.is_ordinary:
            for group in (self._all, self._by_address[entry.address]):
                group.fresh.pop(entry, None)
                group.used[entry] = None

    def leave(self, entry: ConnectionEntry) -> None:
        """It is over. May be called again."""
        if entry.is_counted:
            entry.is_counted = False
            self._count -= 1
            if entry.is_ordinary:
                self._forget_ordinary(entry)

    def _is_too_many(self, group: _Group, is_full: bool) -> bool:
        """Whether one more would be, after making room."""
        if not is_full:
            return False
        found = group.find_dispensable()
        if found is None:
            return True
        self.dropped += 1
        self.leave(found)
        found.holder.drop()
        return False

    def _forget_ordinary(self, entry: ConnectionEntry) -> None:
        entry.is_ordinary = False
        self._surplus -= entry.is_surplus
        self._all.discard(entry)
        ours = self._by_address[entry.address]
        ours.discard(entry)
        if not ours:
            del self._by_address[entry.address]

"""Seats: how many requests of each priority level may be under way, and which levels lend some to others.

A server has a number of seats. Each level has its share of these (its nominal seats), of which it lends a part while it
does not need them, and may borrow what others lend. A level gets its nominal seats at any time, also while some are
lent out: then more than all seats are taken until the borrowed ones come back. What Kubernetes adjusts every 10 s by
past demand is decided here for each request by what is free at that moment.

Pure: no clock, no waiting.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LevelSettings:
    """A PriorityLevelConfiguration."""

    name: str
    uid: str = ""
    is_exempt: bool = False
    shares: int = 0
    lendable_percent: int = 0
    borrowing_percent: int | None = None
    """Of the nominal seats. None: whatever others lend."""
    queues: int = 0
    """0: no request waits; what has no seat is rejected."""
    hand_size: int = 0
    length_max: int = 0

    @property
    def queuing(self) -> tuple[int, int, int]:
        return self.queues, self.hand_size, self.length_max


class LevelSeats:
    """The seats of one level."""

    __slots__ = ("borrowing_max", "in_use", "lendable", "nominal", "settings")

    def __init__(self, settings: LevelSettings) -> None:
        self.settings = settings
        self.nominal = 0
        self.lendable = 0
        self.borrowing_max = 0
        self.in_use = 0


class SeatPool:
    """All seats of a server, which the levels share."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._levels: list[LevelSeats] = []

    def share(self, levels: Iterable[LevelSeats]) -> None:
        """These are the levels from now on."""
        self._levels = list(levels)
        shares = sum(level.settings.shares for level in self._levels)
        for level in self._levels:
            settings = level.settings
            level.nominal = -(-self._total * settings.shares // shares) if shares else 0
            level.lendable = round(level.nominal * settings.lendable_percent / 100)
            percent = settings.borrowing_percent
            level.borrowing_max = self._total if percent is None else round(level.nominal * percent / 100)

    def has_room(self, level: LevelSeats, width: int) -> bool:
        """Whether a level may take so many seats more."""
        wanted = level.in_use + width
        if wanted <= level.nominal or (level.in_use == 0 and level.nominal > 0):
            return True
        if wanted - level.nominal > level.borrowing_max:
            return False
        lent = wanted - max(level.nominal, level.in_use)
        free = 0
        for other in self._levels:
            unused = other.nominal - other.in_use
            if unused < 0:
                lent -= unused
            elif other is not level:
                free += min(unused, other.lendable)
        return lent <= free

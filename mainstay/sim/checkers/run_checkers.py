"""All checkers of one run: told of everything while it happens, and asked in the end.

When the store is put back to a backup, what was committed after it was never committed. A checker that goes by commits
need not know of backups: another one takes its place that has been told all that is left. One that promises something
across a backup has an attribute `hears_restores` which is true, and stays. All are told of it.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from mainstay.sim.checkers import Checker
from mainstay.sim.cluster.history import Event, History, RevisionCommitted, StoreRestored, WatchDelivered

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class RunCheckers:
    def __init__(
        self, checkers: Sequence[Checker], history: History, failed: Callable[[Checker, Exception], None]
    ) -> None:
        """`failed` is told who has raised what: it must not be raised into whatever is being done, which might handle
        it."""
        self._history = history
        self._failed = failed
        self._fresh = copy.deepcopy(list(checkers))
        """As they were before they were told anything."""
        self._all = list(checkers)
        self._hearing = [each for each in self._all if _hears_deliveries(each)]
        history.subscribe(self._saw)

    async def at_end(self, world: "World") -> None:
        for checker in self._all:
            await checker.at_end(world)

    def _saw(self, event: Event) -> None:
        if type(event) is StoreRestored:
            self._go_back()
        for checker in self._hearing if type(event) is WatchDelivered else self._all:
            try:
                checker.saw(event)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the verdict
                self._failed(checker, error)

    def _go_back(self) -> None:
        left = subtract(self._history.events)[:-1]  # The last is the one that is going to be told.
        self._all = [
            each if getattr(each, "hears_restores", False) else _told(copy.deepcopy(fresh), left)
            for each, fresh in zip(self._all, self._fresh, strict=True)
        ]
        self._hearing = [each for each in self._all if _hears_deliveries(each)]


def subtract(events: Iterable[Event]) -> list[Event]:
    """All of them but the commits that a backup has undone."""
    left: list[Event] = []
    for event in events:
        if isinstance(event, StoreRestored):
            back = event.revision
            left = [each for each in left if not isinstance(each, RevisionCommitted) or each.revision <= back]
        left.append(event)
    return left


def _told(checker: Checker, events: Iterable[Event]) -> Checker:
    for event in events:
        if type(event) is not WatchDelivered or _hears_deliveries(checker):
            checker.saw(event)
    return checker


def _hears_deliveries(checker: Checker) -> bool:
    return bool(getattr(checker, "hears_deliveries", False))

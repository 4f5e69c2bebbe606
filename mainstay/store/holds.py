"""Holds: who still needs which history. A store asks here before it compacts."""

from mainstay.env.invariants import broken
from mainstay.store.limits import require_revision


class RevisionHold:
    """Keeps the history after its revision until released."""

    def __init__(self, holds: "RevisionHolds", revision: int) -> None:
        self._holds = holds
        self.revision = revision

    def advance(self, revision: int) -> None:
        require_revision(revision, least=0)
        # Going back could promise history that is gone by now.
        self.revision = max(self.revision, revision)

    def release(self) -> None:
        self._holds.forget(self)


class RevisionHolds:
    """The holds of one process on one store."""

    def __init__(self) -> None:
        self._holds: list[RevisionHold] = []

    def take(self, revision: int) -> RevisionHold:
        hold = RevisionHold(self, revision)
        self._holds.append(hold)
        return hold

    def forget(self, hold: RevisionHold) -> None:
        """Safe to repeat."""
        self._holds = [other for other in self._holds if other is not hold]

    def limit(self, revision: int) -> int:
        """The latest revision up to this one that may be compacted to."""
        return min([revision, *(hold.revision for hold in self._holds)])

    def give_up(self, revision: int) -> None:
        """History up to this revision is compacted although it is held. Those who read it later get `Compacted`."""
        for hold in self._holds:
            hold.advance(revision)

    def check_kept(self, compacted: int) -> None:
        """What is held has not been compacted."""
        if self.limit(compacted) < compacted:
            held = sorted(hold.revision for hold in self._holds)
            raise broken("history that is held is not compacted", f"revision {held[0]}", compacted=compacted, held=held)

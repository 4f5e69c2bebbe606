"""What was answered with success has happened and stays; what was refused has not; and nothing happens twice.

Every answer that a server gives is looked at, also one that never arrives: the server has said it. A success names a
revision, and at that revision the object must have been committed. A deletion is acknowledged only if the object was
gone, or marked to go, at some moment since it was asked for. A refusal (any 4xx) has left no commit behind, and never
does later. The writes of one operation id make one commit, however often they are sent, and by which program: two
programs of one user that want the same make the same id of it (client/intent.py); ids of different users are different
operations, as they are for a server. Revisions only grow, over restarts of the store too, and in the end the store
holds exactly what its commits say.

When the store is put back to a backup (`StoreRestored`), all promises about what came after it end there, and the rest
begins again from what the backup has.

A 5xx says nothing, by its meaning, and nothing is concluded from it. A collection that is deleted is removed piece by
piece, so a refusal halfway is no violation.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.addresses import StoreAddress, parse_address
from mainstay.sim.cluster.history import (
    Event,
    RequestReceived,
    ResponseSent,
    RevisionCommitted,
    StoreReopened,
    StoreRestored,
)

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class _Write:
    asked: RequestReceived
    address: StoreAddress
    since: int
    """The latest revision when it was asked for, or when its operation was for the first time."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a server has said, and no commit up to now shows."""

    write: _Write
    answered: ResponseSent


class AcknowledgedWrites:
    name = "acknowledged writes"
    hears_restores = True

    def __init__(self) -> None:
        self._latest = 0
        self._current: dict[str, RevisionCommitted] = {}
        self._history: dict[str, list[RevisionCommitted]] = {}
        self._keys_at: dict[int, list[str]] = {}
        self._writes: dict[int, _Write] = {}
        self._refused: dict[int, ResponseSent] = {}
        self._claims: dict[int, _Claim] = {}
        self._begun: dict[tuple[str, str], int] = {}  # By operation: the revision when it was first asked for.
        self._done: dict[tuple[str, str], RevisionCommitted] = {}

    def saw(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._asked(event)
            case ResponseSent():
                write = self._writes.get(event.request)
                if write is not None:
                    self._answered(write, event)
            case RevisionCommitted():
                self._committed(event)
            case StoreReopened():
                if event.revision < self._latest:
                    text = f"the store reopened at revision {event.revision}, but had already reported {self._latest}"
                    lost = [commit for commit in self._current.values() if commit.revision > event.revision]
                    raise Violated(self.name, text, [*lost, event])
            case StoreRestored():
                self._go_back(event.revision)
            case _:
                pass

    async def at_end(self, world: "World") -> None:
        for claim in self._claims.values():
            self._fail_claim(claim)
        held = {entry.key: entry for entry in (await world.store.range("")).entries}
        for key, commit in self._current.items():
            entry = held.pop(key, None)
            if commit.value is not None and (entry is None or entry.revision != commit.revision):
                raise Violated(
                    self.name, f"the store has lost the write of {key} at revision {commit.revision}", [commit]
                )
            if commit.value is None and entry is not None:
                raise Violated(self.name, f"the store has {key} again, although it was deleted", [commit])
        if held:
            raise Violated(self.name, f"the store has keys that were never committed: {', '.join(sorted(held))}")

    def _go_back(self, revision: int) -> None:
        """Forget all that was committed, answered or asked for after a revision."""
        self._latest = revision
        self._claims.clear()
        self._writes.clear()
        self._refused.clear()
        self._keys_at = {at: keys for at, keys in self._keys_at.items() if at <= revision}
        self._done = {operation: commit for operation, commit in self._done.items() if commit.revision <= revision}
        self._begun = {operation: min(since, revision) for operation, since in self._begun.items()}
        self._current = {}
        for key, commits in list(self._history.items()):
            kept = self._history[key] = [commit for commit in commits if commit.revision <= revision]
            if kept:
                self._current[key] = kept[-1]

    def _asked(self, asked: RequestReceived) -> None:
        address = parse_address(asked.path)
        if asked.method not in WRITES or address is None or "dryRun=" in asked.path:
            return
        since = self._latest
        if asked.operation:
            since = self._begun.setdefault((asked.user, asked.operation), since)
        self._writes[asked.request] = _Write(asked, address, since)

    def _answered(self, write: _Write, answered: ResponseSent) -> None:
        if 400 <= answered.status < 500:
            if _is_collection_delete(write):
                return
            self._refused[answered.request] = answered
        elif answered.status < 300:
            self._settle(_Claim(write, answered))

    def _committed(self, commit: RevisionCommitted) -> None:
        if commit.revision < self._latest:
            raise Violated(
                self.name, f"the store went back from revision {self._latest} to {commit.revision}", [commit]
            )
        self._latest = commit.revision
        self._current[commit.key] = commit
        self._history.setdefault(commit.key, []).append(commit)
        self._keys_at.setdefault(commit.revision, []).append(commit.key)
        write = None if commit.request is None else self._writes.get(commit.request)
        if write is not None:
            self._check_refused(write, commit)
            self._check_operation(write, commit)
        for claim in list(self._claims.values()):
            self._settle(claim)

    def _check_refused(self, write: _Write, commit: RevisionCommitted) -> None:
        refused = self._refused.get(write.asked.request)
        if refused is not None:
            raise Violated(self.name, "a rejected write was committed", [write.asked, refused, commit])

    def _check_operation(self, write: _Write, commit: RevisionCommitted) -> None:
        operation = (write.asked.user, write.asked.operation)
        if not write.asked.operation:
            return
        first = self._done.setdefault(operation, commit)
        if first.revision != commit.revision:
            text = f"operation {write.asked.operation} of {write.asked.who} was committed twice"
            raise Violated(self.name, text, [first, write.asked, commit])

    def _settle(self, claim: _Claim) -> None:
        """See whether what was said is true by now. If it cannot become true any more, it was a lie."""
        if self._is_true(claim):
            self._claims.pop(claim.answered.request, None)
        elif self._latest > claim.answered.revision and not _is_deletion(claim):
            self._fail_claim(claim)
        else:
            self._claims[claim.answered.request] = claim

    def _is_true(self, claim: _Claim) -> bool:
        write, revision = claim.write, claim.answered.revision
        if write.address.subresource not in ("", "status", "scale"):
            return True  # What is answered is not the object: a binding, an eviction, a token.
        if _is_deletion(claim):
            return _is_collection_delete(write) or self._was_gone(write.address.key, write.since)
        if not revision:
            return True  # Nothing is claimed: reviews and the like are answered, and not stored.
        if write.address.name:
            return write.address.key in self._keys_at.get(revision, ())
        # The name of a new object may have been made by the server, so any of its kind and namespace will do; but not
        # one that was there before, unless this is the same operation again.
        is_under = [key.startswith(write.address.prefix) for key in self._keys_at.get(revision, ())]
        return revision > write.since and any(is_under)

    def _was_gone(self, key: str, since: int) -> bool:
        """Whether the key was absent, or marked to go, at the revision `since` or at any later one."""
        state: RevisionCommitted | None = None
        for commit in self._history.get(key, ()):
            if commit.revision > since and _is_going(state):
                return True
            state = commit
        return _is_going(state)

    def _fail_claim(self, claim: _Claim) -> None:
        write, answered = claim.write, claim.answered
        what = "a deletion" if _is_deletion(claim) else f"a write at revision {answered.revision}"
        text = f"{what} was acknowledged but not committed"
        raise Violated(self.name, text, [write.asked, answered])


def _is_deletion(claim: _Claim) -> bool:
    return claim.write.asked.method == "DELETE"


def _is_collection_delete(write: _Write) -> bool:
    return write.asked.method == "DELETE" and not write.address.name


def _is_going(commit: RevisionCommitted | None) -> bool:
    return commit is None or commit.value is None or b'"deletionTimestamp"' in commit.value

"""Bugs that a transaction of a server could have: it leaves out a condition, or does not know its own repetition.

None of them shows while no time passes between what a server reads and what it commits."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from msgspec.structs import replace

from mainstay.api.errors import StatusError
from mainstay.api.kind import Object
from mainstay.server.placement import reservations
from mainstay.server.placement.charges import NO_ROOM_HELD, HeldRoom
from mainstay.server.placement.ledger import recount
from mainstay.server.placement.pod_commit import PodPoint
from mainstay.server.storage.commit_points import NOTHING, Intended, TransactionParts
from mainstay.server.storage.committer import Committer, Decide, WriteDecision
from mainstay.server.storage.stored import StoredWrite
from mainstay.server.storage.write_context import WriteContext
from mainstay.store.interface import Check, Entry, Write

Twin = Callable[[pytest.MonkeyPatch], None]


def creates_whatever_has_become_of_the_namespace(patch: pytest.MonkeyPatch) -> None:
    """Looks at the namespace of a new object, and does not make it a condition of the commit."""
    honest = Committer.write

    async def write(self: Committer, what: str, decide: Decide, context: WriteContext, *, dry_run: bool) -> StoredWrite:
        async def careless() -> WriteDecision | None:
            decision = await decide()
            if decision is None:
                return None
            others = [
                check
                for check in decision.checks
                if check.key == decision.key or not check.key.startswith("core/namespaces/")
            ]
            return replace(decision, checks=others)

        return await honest(self, what, careless, context, dry_run=dry_run)

    patch.setattr(Committer, "write", write)


def uses_a_reservation_whatever_has_become_of_it(patch: pytest.MonkeyPatch) -> None:
    """A binding takes over the room of a reservation that may have expired, or been used, since it was read."""
    honest = reservations.held_room

    def held_room(entry: Entry, name: str, pod: Object, node: str) -> HeldRoom:
        room = honest(entry, name, pod, node)
        return room if room is NO_ROOM_HELD else replace(room, parts=TransactionParts(writes=room.parts.writes))

    patch.setattr(reservations, "held_room", held_room)


def tries_again_after_its_own_repetition(patch: pytest.MonkeyPatch) -> None:
    """A commit that is refused because the same operation was just committed is decided again, and again."""
    honest = Committer._commit

    async def commit(self: Committer, decision: WriteDecision, context: WriteContext) -> StoredWrite | None:
        written = await honest(self, decision, context)
        return None if written is not None and written.is_repeated else written

    patch.setattr(Committer, "_commit", commit)


def refuses_a_write_for_what_it_has_done_itself(patch: pytest.MonkeyPatch) -> None:
    """Looks once, before all else, whether an operation is done already: a binding that was delivered twice finds its
    pod bound."""
    tries_again_after_its_own_repetition(patch)
    honest = Committer.write

    async def write(self: Committer, what: str, decide: Decide, context: WriteContext, *, dry_run: bool) -> StoredWrite:
        refusals: list[StatusError] = []

        async def remembered() -> WriteDecision | None:
            try:
                return await decide()
            except StatusError as error:
                refusals.append(error)
                raise

        written = await honest(self, what, remembered, context, dry_run=dry_run)
        if refusals:
            raise refusals[0]
        return written

    patch.setattr(Committer, "write", write)


def remembers_only_deletions_that_are_over(patch: pytest.MonkeyPatch) -> None:
    """A deletion that gives a pod time to end leaves no record of its operation."""
    honest = WriteContext.writes

    def writes(self: WriteContext, key: str, outcome: StoredWrite) -> list[Write]:
        found = honest(self, key, outcome)
        is_begun = b'"deletionTimestamp"' in outcome.value and not outcome.was_removed
        remembered = self.operation.key if is_begun and self.operation is not None else ""
        return [write for write in found if write.key != remembered]

    patch.setattr(WriteContext, "writes", writes)


def charges_a_pod_that_may_have_ended(patch: pytest.MonkeyPatch) -> None:
    """A recount writes down what a pod takes, whatever has become of the pod since it was counted."""
    honest = recount._parts

    def parts(
        drift: recount.LedgerDrift, ledger: Entry | None, entries: Mapping[str, Entry]
    ) -> tuple[Sequence[Check], Sequence[Write]]:
        checks, writes = honest(drift, ledger, entries)
        return [check for check in checks if not check.key.startswith("core/pods/")], writes

    patch.setattr(recount, "_parts", parts)


def ends_a_pod_that_may_be_charged_by_now(patch: pytest.MonkeyPatch) -> None:
    """The end of a pod that is not charged has no condition: a recount may have charged it since."""
    honest = PodPoint.parts_for

    async def parts_for(self: PodPoint, intended: Intended) -> TransactionParts:
        parts = await honest(self, intended)
        return parts if parts.writes else NOTHING

    patch.setattr(PodPoint, "parts_for", parts_for)

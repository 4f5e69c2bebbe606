"""Commits writes of objects with all that goes with them: shared keys, lineage, the writer's term, its operation id.

Every write of an object ends here, whether it creates, updates, deletes, evicts or binds. The caller gives a function
that reads and decides; it is called again when another writer was faster (transact.py).
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from mainstay.api.errors import StatusError
from mainstay.env.invariants import broken
from mainstay.server.storage.shared_writes import SharedWrite, SharedWrites
from mainstay.server.storage.stored import StoredWrite
from mainstay.server.storage.transact import too_many_conflicts, transact
from mainstay.server.storage.write_context import NO_CONTEXT, WriteContext
from mainstay.store.interface import Check, Committed, Store, Write


class WriteDecision(Struct, frozen=True):
    """What is to be committed for one object, and what that will have led to. Without writes nothing is to change."""

    key: str
    """That of the object."""
    checks: list[Check]
    writes: list[Write]
    shared: Sequence[SharedWrite]
    outcome: StoredWrite
    """At revision 0: that of the commit."""


Decide = Callable[[], Awaitable[WriteDecision | None]]
"""Reads and decides. None: something had to be put right first, read again. Raises `StatusError` to refuse the write.
"""


class Committer:
    def __init__(self, store: Store, shared: SharedWrites) -> None:
        self._store = store
        self._shared = shared

    async def write_once(self, what: str, decide: Decide, context: WriteContext, *, dry_run: bool) -> StoredWrite:
        """As `write`; but an operation that was carried out before is answered with what it led to then."""
        if context.operation is not None and (before := await self.find_outcome(context)) is not None:
            return before
        return await self.write(what, decide, context, dry_run=dry_run)

    async def write(self, what: str, decide: Decide, context: WriteContext, *, dry_run: bool) -> StoredWrite:
        """Commit what is decided, or work out what that would lead to. `what` is written, for the error message.

        Raises `StatusError`: what `decide` raises, 409 if the writer's term is over, 503 for too many conflicts.
        """

        async def attempt() -> StoredWrite | None:
            # Only the decision is kept while the commit is waited for: what it was made from is many small objects.
            decision = await decide()
            if decision is None:
                return None
            if dry_run:
                await self._shared.rehearse(decision.shared)
                return decision.outcome
            # To do nothing is an outcome too: an operation that was one does nothing later either.
            if not decision.writes and context.operation is None:
                return decision.outcome
            return await self._commit(decision, context)

        try:
            written = await transact(attempt)
        except StatusError:
            # The same operation may have been delivered twice. Then what this one was refused for is what the other has
            # done since this one looked whether it was done: the pod is bound, the object is gone, the quota is used.
            if (before := await self.find_outcome(context)) is None:
                raise
            return before
        if written is None:
            raise too_many_conflicts(what)
        return written

    async def find_outcome(self, context: WriteContext) -> StoredWrite | None:
        """What an operation has led to already. Raises `StatusError` if its id was used for something else."""
        if context.operation is None:
            return None
        entry = await self._store.get(context.operation.key)
        return None if entry is None else context.operation.outcome_in(entry)

    async def _commit(self, decision: WriteDecision, context: WriteContext) -> StoredWrite | None:
        key, outcome = decision.key, decision.outcome
        checks, writes = decision.checks, decision.writes
        if context is not NO_CONTEXT:
            writes += context.writes(key, outcome)
            checks += context.checks
        answer = await self._shared.commit(checks, writes, decision.shared)
        if isinstance(answer, Committed):
            if checks and checks[0].revision >= answer.revision:
                story = {"revision": answer.revision, "checked": checks[0]}
                raise broken("a write is later than what it was decided from", f"key {key}", **story)
            context.committed(key, answer.revision, outcome.value)
            return outcome if outcome.revision else StoredWrite(outcome.value, answer.revision)
        context.require_term(answer.found)
        return await self.find_outcome(context)

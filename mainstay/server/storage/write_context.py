"""What goes with a write into its transaction: where it comes from, under which term, and as which operation."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from mainstay.api.headers import CAUSE, DECISION, TERM
from mainstay.env import Clock
from mainstay.http.messages import Request
from mainstay.server.auth.authorization import User, agent_in
from mainstay.server.decisions.write_notes import WriteRequest
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.storage.operations import Operation, read_operation
from mainstay.server.storage.stored import StoredWrite
from mainstay.server.storage.terms import fenced, parse_term
from mainstay.store.interface import Check, Entry, Put, Write

# A lineage is about its revision, not about a key: a reader of the history finds the two side by side. So its own
# key says nothing, and a few are enough.
LINEAGE_KEYS: Final = 256
LINEAGE: Final = f"{INTERNAL_PREFIX}lineage/"


@dataclass(frozen=True, slots=True)
class WriteContext:
    decision: str = ""
    """The decision that made the write (`Mainstay-Decision`), and why (`Mainstay-Cause`): its lineage."""
    cause: str = ""
    term: Check | None = None
    operation: Operation | None = None
    agent_of: str = ""
    """The node whose own agent writes this, if it is one: only that knows what has ended there."""
    asked: WriteRequest | None = None
    """Who asks for it, to be noted with the revision. None: the server itself."""

    @property
    def checks(self) -> list[Check]:
        checks = [] if self.term is None else [self.term]
        if self.operation is not None:
            checks.append(self.operation.check)
        return checks

    def writes(self, key: str, outcome: StoredWrite) -> list[Write]:
        """What is written besides the object at this key."""
        writes: list[Write] = []
        if self.decision or self.cause:
            lineage = msgspec.json.encode({"key": key, "decision": self.decision, "cause": self.cause})
            writes.append(Put(f"{LINEAGE}{zlib.crc32(key.encode()) % LINEAGE_KEYS:02x}", lineage))
        if self.operation is not None:
            writes.append(self.operation.put(outcome))
        return writes

    def committed(self, key: str, revision: int, value: bytes) -> None:
        """What this goes with was committed: the object at this key, as it is stored, or was."""
        if self.asked is not None:
            self.asked.committed(key, revision, value, self.decision)

    def require_term(self, found: Mapping[str, Entry | None]) -> None:
        """Raise `StatusError` (409) if it is the term that a commit was refused for."""
        if self.term is not None and self.term.key in found:
            raise fenced(self.term)


NO_CONTEXT: Final = WriteContext()


def read_write_context(request: Request, user: User, clock: Clock, asked: WriteRequest | None = None) -> WriteContext:
    """Raises `StatusError` (400) for headers that make no sense."""
    headers = request.headers
    decision, cause = headers.get(DECISION), headers.get(CAUSE)
    term, operation = parse_term(headers.get(TERM)), read_operation(request, user, clock)
    agent_of = agent_in(user)
    if decision or cause or term or operation or agent_of or asked is not None:
        return WriteContext(decision or "", cause or "", term, operation, agent_of, asked)
    return NO_CONTEXT

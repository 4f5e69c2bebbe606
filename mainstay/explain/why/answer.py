"""The answer to "why?", as a value: what `-o json` prints, and what the text is made from.

Made only from records and objects, so that the same question about the same moment gets the same answer, wherever it
is asked. Fields are only ever added.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from mainstay.explain.answer_part import AnswerPart
from mainstay.explain.why.causes import Cause, Tier

__all__ = ["AnswerObject", "AnswerSource", "Cause", "ChainLink", "LinkState", "Tier", "Verdict", "WhyAnswer"]

API_VERSION: Final = "mainstay.dev/v1"


class Verdict(StrEnum):
    """What to make of it; it decides the exit code. Shown to users: only add."""

    SATISFIED = "satisfied"
    """Nothing is wrong, or it was deleted or completed as intended."""
    WAITING = "waiting"
    """It waits for something that may resolve by itself."""
    BLOCKED = "blocked"
    """A user has to change something."""
    INCOMPLETE = "incomplete"
    """The records that would explain it are missing."""


class LinkState(StrEnum):
    """How a link of the chain is. Shown to users: only add."""

    DONE = "done"
    BROKEN = "broken"
    """Here it stops."""
    WAITING = "waiting"
    """Here it is under way."""
    UNKNOWN = "unknown"
    """There is no record of it."""
    NOT_REACHED = "not reached"


class AnswerObject(AnswerPart, frozen=True):
    """An object that an answer speaks of."""

    kind: str
    """As people say it: `Pod`, `ReplicaSet`."""
    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    revision: int = 0
    type: str = ""
    """The kind's text, as in the journal: `replicasets.apps`."""

    @property
    def words(self) -> str:
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"

    @property
    def path(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


class AnswerSource(AnswerPart, frozen=True):
    """Where something is known from. At least one of the first three is there."""

    decision: str = ""
    revision: int = 0
    source: str = ""
    """Neither a decision nor a write: `condition`, `ComponentState`, `lease` …"""
    at: datetime | None = None
    component: str = ""
    who: str = ""
    """Who asked for a write."""


class ChainLink(AnswerPart, frozen=True, kw_only=True):
    """One step on the way from what is wanted to what is there."""

    step: str
    """`desired`, `controller`, `replicaset`, `pods`, `admission`, `queue`, `view`, `filters`, `bind`, `agent`, `ready`,
    `serving`, `condition` …"""
    state: LinkState
    text: str
    object: AnswerObject | None = None
    evidence: tuple[AnswerSource, ...] = ()


class Verdicts(AnswerPart, frozen=True):
    """Nodes that one reason holds for."""

    reason: str
    """A `scheduler.reasons.RefusalReason`."""
    text: str
    nodes: tuple[str, ...] = ()
    count: int = 0
    filter: str = ""


class NodeVerdict(AnswerPart, frozen=True):
    """One node, and all that speaks against it."""

    node: str
    zone: str = ""
    reasons: tuple[str, ...] = ()
    """Empty: nothing does."""


class CureFound(AnswerPart, frozen=True):
    """A change after which it would be otherwise."""

    text: str
    verified: bool = False
    """By deciding again with that change."""
    node: str = ""
    """Where it would then run."""
    command: str = ""


class Involved(AnswerPart, frozen=True):
    """Another object or component that has a part in it."""

    who: str
    """A component, a user, or an object."""
    text: str
    evidence: tuple[AnswerSource, ...] = ()


class Staleness(AnswerPart, frozen=True):
    """How far the view of a decision was behind, for one kind."""

    kind: str
    seen: int
    """The revision that the decision had completely applied."""
    latest: int
    """That of the kind's last change before the decision was made."""
    behind_ms: int = 0
    """How long the oldest change that it had not seen had been there."""
    is_decisive: bool = False
    """With what was missing, the decision would have been another one."""


class Also(AnswerPart, frozen=True):
    """Another cause that was found beside the dominant one."""

    cause: Cause
    text: str
    count: int = 1


class WhyAnswer(AnswerPart, frozen=True, kw_only=True):
    """Why an object is as it is."""

    subject: AnswerObject
    revision: int
    """Of the moment that was asked about."""
    at: datetime
    verdict: Verdict
    cause: Cause
    tier: Tier
    sentence: str
    """The cause in one sentence, with names and numbers."""
    about: AnswerObject | None = None
    """Where the chain is broken, if that is another object."""
    since: datetime | None = None
    chain: tuple[ChainLink, ...] = ()
    nodes: tuple[Verdicts, ...] = ()
    each_node: tuple[NodeVerdict, ...] = ()
    cures: tuple[CureFound, ...] = ()
    involved: tuple[Involved, ...] = ()
    staleness: tuple[Staleness, ...] = ()
    also: tuple[Also, ...] = ()
    gaps: tuple[str, ...] = ()
    """What is not known, and why not."""
    notes: tuple[str, ...] = ()
    advice: str = ""

    def as_object(self) -> dict[str, Any]:
        """As JSON and YAML have it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Why", **found}

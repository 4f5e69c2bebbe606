"""What an analyser has found out about one object: the answer, without what is the same for all of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.pod_state import parse_time_or_none
from mainstay.explain.why.answer import (
    Also,
    AnswerObject,
    AnswerSource,
    ChainLink,
    CureFound,
    Involved,
    LinkState,
    NodeVerdict,
    Staleness,
    Verdict,
    Verdicts,
)
from mainstay.explain.why.causes import Cause
from mainstay.explain.writers import Version
from mainstay.journal.record import DecisionRecord, moment

NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Why one object is as it is."""

    cause: Cause
    sentence: str
    verdict: Verdict
    about: AnswerObject | None = None
    since: datetime | None = None
    chain: tuple[ChainLink, ...] = ()
    nodes: tuple[Verdicts, ...] = ()
    each_node: tuple[NodeVerdict, ...] = ()
    cures: tuple[CureFound, ...] = ()
    involved: tuple[Involved, ...] = ()
    staleness: tuple[Staleness, ...] = ()
    also: tuple[Also, ...] = ()
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    advice: str = ""
    """What to do, if that is known better than from the cause alone."""

    def with_notes(self, notes: Iterable[str]) -> "Finding":
        return replace(self, notes=(*self.notes, *notes))

    def after(self, links: Iterable[ChainLink]) -> "Finding":
        """The same, with the links before its own."""
        return replace(self, chain=(*links, *self.chain))


def build_subject(kind: KindName, obj: Object) -> AnswerObject:
    metadata = obj.get("metadata") or NOTHING
    return AnswerObject(
        kind=kind.kind,
        name=metadata.get("name", ""),
        namespace=metadata.get("namespace") or "",
        uid=metadata.get("uid") or "",
        generation=int(metadata.get("generation") or 0),
        revision=int(metadata.get("resourceVersion") or 0),
        type=kind.text,
    )


def build_source(record: DecisionRecord) -> AnswerSource:
    return AnswerSource(
        decision=record.id,
        at=moment(record.at),
        component=record.component,
        revision=max((each.revision for each in record.writes), default=0),
    )


def written(version: Version) -> AnswerSource:
    who = version.who
    return AnswerSource(
        decision=who.decision, revision=version.revision, at=version.at, component=who.component, who=who.name
    )


def said_by(obj: Object, condition: Mapping[str, Any] | None = None) -> AnswerSource:
    """That an object says so itself: in a condition, or somewhere else in it."""
    revision = int((obj.get("metadata") or NOTHING).get("resourceVersion") or 0)
    at = parse_time_or_none((condition or NOTHING).get("lastTransitionTime"))
    return AnswerSource(
        source=f"condition {condition.get('type')}" if condition else "status", revision=revision, at=at
    )


def done(step: str, text: str, *evidence: AnswerSource, of: AnswerObject | None = None) -> ChainLink:
    return ChainLink(step=step, state=LinkState.DONE, text=text, evidence=evidence, object=of)


def broken(step: str, text: str, *evidence: AnswerSource, of: AnswerObject | None = None) -> ChainLink:
    return ChainLink(step=step, state=LinkState.BROKEN, text=text, evidence=evidence, object=of)


def waiting(step: str, text: str, *evidence: AnswerSource, of: AnswerObject | None = None) -> ChainLink:
    return ChainLink(step=step, state=LinkState.WAITING, text=text, evidence=evidence, object=of)


def unknown(step: str, text: str, *evidence: AnswerSource, of: AnswerObject | None = None) -> ChainLink:
    return ChainLink(step=step, state=LinkState.UNKNOWN, text=text, evidence=evidence, object=of)


# Words.


def clock(at: datetime | None) -> str:
    """A time of day. The day is in the answer."""
    return "" if at is None else f"{at:%H:%M:%S}"


def ago(since: datetime | None, now: datetime) -> str:
    """How long something has been so: `8 s`, `4 min`, `3 h`."""
    if since is None:
        return ""
    seconds = max((now - since).total_seconds(), 0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"


def listed(names: Iterable[str], most: int = 3) -> str:
    """`a, b and c`; of many the first, and how many more."""
    found = list(names)
    if len(found) > most + 1:
        return f"{', '.join(found[:most])} and {len(found) - most} more"
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}" if found else ""


def count(number: int, what: str, many: str = "") -> str:
    return f"{number} {what if number == 1 else many or what + 's'}"


def sentence(text: str) -> str:
    """One line that ends as a sentence does."""
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?", "…")) else f"{line}."


def shortened(text: str, length: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"

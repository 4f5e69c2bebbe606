"""What differs between two moments: which objects came, went and changed, field by field, and who did it.

    found = await diff(before, after)                             all that was written in between
    found = await diff(before, after, kind=PODS, namespace="shop")

Only what was written between the two can differ, so that is what is looked at; a field that was changed and changed
back is no difference. Left out, unless they are asked for: what is written all the time and means nothing by itself
(leases, Events, how far components have come).
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.explain.answer_part import AnswerPart
from mainstay.explain.fields import differences, is_below, path_text, plain
from mainstay.explain.moment import Moment
from mainstay.explain.story.lines import StoryObject
from mainstay.explain.why.answer import API_VERSION
from mainstay.explain.writers import UNKNOWN_WHO, JournalLookup, Version, Who
from mainstay.journal.keys import parse_kind, parse_object_key

OBJECTS_MAX: Final = 2_000
LEFT_OUT: Final = frozenset(
    {"leases.coordination.k8s.io", "events", "events.events.k8s.io", "componentstates.mainstay.dev"}
)


class How(StrEnum):
    """Shown to users: only add."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    REPLACED = "replaced"
    """Another object of the same name."""


class FieldDiff(AnswerPart, frozen=True, kw_only=True):
    field: str
    before: Any = None
    after: Any = None
    who: Who = UNKNOWN_WHO
    at: datetime | None = None
    revision: int = 0


class ObjectDiff(AnswerPart, frozen=True, kw_only=True):
    about: StoryObject
    how: How
    who: Who = UNKNOWN_WHO
    """Who added or removed it; of changes, each field says who."""
    at: datetime | None = None
    revision: int = 0
    fields: tuple[FieldDiff, ...] = ()
    writes: int = 0
    """How many there were in between."""


class Diff(AnswerPart, frozen=True, kw_only=True):
    from_revision: int
    to_revision: int
    from_at: datetime
    to_at: datetime
    objects: tuple[ObjectDiff, ...] = ()
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_object(self) -> dict[str, Any]:
        """As JSON and YAML have it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Diff", **found}


async def diff(
    before: Moment, after: Moment, *, kind: KindName | None = None, namespace: str | None = None, name: str = ""
) -> Diff:
    """What is otherwise at the second moment. `namespace`: only there; None: everywhere."""
    journal = after.journal
    known = JournalLookup(journal, after.revision)
    text = kind.text if kind is not None else ""
    written = await journal.changes(
        kind=text, namespace=namespace, name=name, after=before.revision, until=after.revision
    )
    known.gaps |= dict.fromkeys(written.gaps)
    touched = dict.fromkeys(
        (parse_kind(change.key), parse_object_key(change.key))
        for change in written.records
        if kind is not None or parse_kind(change.key) not in LEFT_OUT
    )
    if len(touched) > OBJECTS_MAX:
        known.notes[f"{len(touched)} objects changed, only the first {OBJECTS_MAX} are compared: name a type"] = None
    found = []
    for each_kind, key in sorted(touched)[:OBJECTS_MAX]:
        versions = await known.versions(each_kind, key.namespace, key.name, after=before.revision)
        made = compared(each_kind, key, versions)
        if made is not None:
            found.append(made)
    return Diff(
        from_revision=before.revision,
        to_revision=after.revision,
        from_at=before.at,
        to_at=after.at,
        objects=tuple(found),
        gaps=tuple(str(gap) for gap in known.gaps),
        notes=tuple(known.notes),
    )


def compared(kind: str, key: ObjectKey, versions: Sequence[Version]) -> ObjectDiff | None:
    """What the versions between two moments come to; None if all is as it was."""
    if not versions:
        return None
    about = StoryObject(kind, key.name, key.namespace)
    was, now = versions[0].before, versions[-1].after
    if was is None and now is None:
        return None  # It came and went.
    if was is None or now is None or _uid(was) != _uid(now):
        decisive = next((each for each in reversed(versions) if (each.after is None) == (now is None)), versions[-1])
        if now is not None:
            decisive = next(
                (each for each in versions if each.before is None and _uid(each.after) == _uid(now)), decisive
            )
        how = How.ADDED if was is None else How.REMOVED if now is None else How.REPLACED
        return ObjectDiff(
            about=about,
            how=how,
            who=decisive.who,
            at=decisive.at,
            revision=decisive.revision,
            writes=len(versions),
        )
    fields = []
    for change in differences(was, now):
        last = _last_writer(versions, change.path)
        fields.append(
            FieldDiff(
                field=path_text(change.path),
                before=plain(change.before),
                after=plain(change.after),
                who=last.who,
                at=last.at,
                revision=last.revision,
            )
        )
    if not fields:
        return None
    return ObjectDiff(about=about, how=How.CHANGED, fields=tuple(fields), writes=len(versions))


def _last_writer(versions: Sequence[Version], path: tuple[str, ...]) -> Version:
    """Who touched a field last: it, something in it, or all that it is in."""
    for version in reversed(versions):
        for change in version.changes:
            if is_below(change.path, path) or is_below(path, change.path):
                return version
    return versions[-1]


def _uid(obj: Any) -> str:
    return str((obj or {}).get("metadata", {}).get("uid", ""))

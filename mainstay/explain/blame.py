"""Who set each field of an object last: when, through which decision, request or manager, and what it was before.

    found = await blame(moment, DEPLOYMENTS, "web", "shop")                       each field once
    found = await blame(moment, DEPLOYMENTS, "web", "shop", field="spec.replicas")   one field, all it has ever been

The journal's history of the object says it; what is older than that, the object's own `managedFields` do, without the
value before and without the request. An object that is gone can be asked about as well.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.explain.answer_part import AnswerPart
from mainstay.explain.fields import NOTHING, Path, is_below, leaves, parse_path, path_text, plain
from mainstay.explain.moment import Moment
from mainstay.explain.story.lines import StoryObject
from mainstay.explain.story.timeline import NothingKnown
from mainstay.explain.why.answer import API_VERSION
from mainstay.explain.writers import UNKNOWN_WHO, JournalLookup, Version, Who


class Blamed(AnswerPart, frozen=True, kw_only=True):
    """One value of one field, and who set it."""

    field: str
    value: Any = None
    """None if it was removed."""
    before: Any = None
    """None if there was nothing, or it is not known: see `is_older`."""
    who: Who = UNKNOWN_WHO
    at: datetime | None = None
    revision: int = 0
    cause: str = ""
    is_removed: bool = False
    is_older: bool = False
    """It was set before the journal begins: only the manager is known."""


class Blame(AnswerPart, frozen=True, kw_only=True):
    about: StoryObject
    uid: str = ""
    revision: int = 0
    field: str = ""
    """If one was asked for: then `fields` is its history, the latest last."""
    fields: tuple[Blamed, ...] = ()
    is_gone: bool = False
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_object(self) -> dict[str, Any]:
        """As JSON and YAML have it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Blame", **found}


async def blame(moment: Moment, kind: KindName, name: str, namespace: str = "", *, field: str = "") -> Blame:
    """Raises `NothingKnown`, `BadPath`."""
    wanted = parse_path(field) if field else ()
    about = StoryObject(kind.text, name, namespace)
    known = JournalLookup(moment.journal, moment.revision)
    versions = await known.versions(kind.text, namespace, name)
    there = await moment.get(kind, name, namespace)
    if not versions and there is None:
        raise NothingKnown(
            f"{about.words} not found in the journal: see `mainstay get {about.kind}`, or use -n and --at"
        )
    last = versions[-1].object if versions else there
    assert last is not None
    uid = last["metadata"].get("uid", "")
    # Another object of that name was another one.
    versions = [each for each in versions if each.object["metadata"].get("uid") == uid]
    first = _first(versions, there)
    found = build_history(first, versions, wanted) if wanted else present(first, versions)
    gaps = dict.fromkeys([*known.gaps, *moment.gaps])
    return Blame(
        about=about,
        uid=uid,
        revision=moment.revision,
        field=field,
        fields=tuple(found),
        is_gone=there is None,
        gaps=tuple(str(gap) for gap in gaps),
        notes=tuple(known.notes),
    )


def _first(versions: Sequence[Version], there: Object | None) -> Object | None:
    """What there was before all that the journal tells; None if it tells of the making."""
    if not versions:
        return there
    if versions[0].is_first_known:
        return versions[0].after
    return versions[0].before


def present(first: Object | None, versions: Iterable[Version]) -> list[Blamed]:
    """Each field that there is, by path."""
    found: dict[Path, Blamed] = {}
    for path, value in leaves((), first or {}):
        found[path] = _older(first or {}, path, value)
    for version in versions:
        for path, each in _set_by(version):
            if each.is_removed:
                found.pop(path, None)
            else:
                found[path] = each
    return [found[path] for path in sorted(found)]


def build_history(first: Object | None, versions: Iterable[Version], wanted: Path) -> list[Blamed]:
    """All that a field, or what is below it, has ever been, the oldest first."""
    found = [_older(first or {}, path, value) for path, value in leaves((), first or {}) if is_below(path, wanted)]
    for version in versions:
        found += [each for path, each in _set_by(version) if is_below(path, wanted)]
    return found


def _set_by(version: Version) -> list[tuple[Path, Blamed]]:
    """The single fields that a write has set or removed."""
    if version.after is None or version.is_first_known:
        return []
    made: list[tuple[Path, Blamed]] = []
    for change in version.changes:
        before = dict(leaves(change.path, change.before)) if change.before is not NOTHING else {}
        after = dict(leaves(change.path, change.after)) if change.after is not NOTHING else {}
        for path in sorted({**before, **after}):
            was, now = before.get(path, NOTHING), after.get(path, NOTHING)
            if was == now:
                continue
            blamed = Blamed(
                field=path_text(path),
                value=plain(now),
                before=plain(was),
                who=_name_mutations(version, path),
                at=version.at,
                revision=version.revision,
                cause=version.cause,
                is_removed=now is NOTHING,
            )
            made.append((path, blamed))
    return made


def _name_mutations(version: Version, path: Path) -> Who:
    """Who set a field, with the admission policies that have changed this one. Where it is not recorded which fields
    they have changed, all of them."""
    who = version.who
    if len(version.mutated) != len(who.mutations):
        return who
    kept = [
        name
        for name, fields in zip(who.mutations, version.mutated, strict=True)
        if not fields or _covers(msgspec.json.decode(fields), path)
    ]
    return msgspec.structs.replace(who, mutations=tuple(kept))


def _older(obj: Object, path: Path, value: Any) -> Blamed:
    manager, time = managed_by(obj, path)
    who = Who(manager, manager=manager) if manager else UNKNOWN_WHO
    return Blamed(field=path_text(path), value=value, who=who, at=time, is_older=True)


def managed_by(obj: Object, path: Path) -> tuple[str, datetime | None]:
    """Who manages a field, by what the object says itself, and since when at the latest. Empty: it does not say."""
    best: tuple[str, str] = ("", "")
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        if _covers(entry.get("fieldsV1") or {}, path):
            best = max(best, (entry.get("time", ""), entry.get("manager", "")))
    try:
        return best[1], times.parse_time(best[0]) if best[0] else None
    except ValueError:
        return best[1], None


def _covers(fields: Any, path: Path) -> bool:
    for step in path:
        if not isinstance(fields, dict):
            return False
        below = [name for name in fields if name != "."]
        if not below and step != path[0]:
            return True  # All of it is one value to its manager.
        found = next((name for name in below if _is_called(name, step.strip("[]"))), None)
        if found is None:
            return False
        fields = fields[found]
    return True


def _is_called(name: str, step: str) -> bool:
    sort, _, rest = name.partition(":")
    if sort == "f":
        return rest == step
    if sort == "k":
        try:
            return step in [str(value) for value in json.loads(rest).values()]
        except (ValueError, AttributeError):
            return False
    return False

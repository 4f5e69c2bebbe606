"""Would the server take this object, and what would it make of it? Asked of the server itself, without doing it.

A *proposal* is an object that a user wants to apply, as it would be stored: with defaults, merged with what is
there. A living server says so in a dry run of the same server-side apply that `mainstay apply` sends. Where there is
none, in a bundle or at an earlier time, the same merging, defaults and validation are done here; then quotas are
counted on (quotas.py), without the server's admission.

Whether fields that others own are in the way depends on how it is applied: `mainstay apply` is refused, and
`kubectl apply` takes them over. So nothing is planned as refused for that alone: it is planned as taken over, and a
note says from whom, and what who applies it has to know. Not modelled, and said: `kubectl apply` also removes what its
last application had (it keeps that in an annotation) and the file has no more.

Quotas are never sent, not even for a dry run: a server that is asked about one begins to count what it limits, and
notes that in its store.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from mainstay.api import times
from mainstay.api.annotations import LAST_APPLIED
from mainstay.api.apply import Application
from mainstay.api.causes import FIELD_MANAGER_CONFLICT
from mainstay.api.errors import StatusError, invalid
from mainstay.api.json_values import UNREADABLE
from mainstay.api.kind import Kind, Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NAMESPACES, RESOURCE_QUOTAS, SECRETS, ZONE_QUOTAS
from mainstay.api.kinds import BUILTIN
from mainstay.api.unenforced_search import find_refused
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Conflict, NotFound, Unavailable
from mainstay.explain.moment import Moment

_POD_SECURITY: Final = "would violate PodSecurity"
_NEVER_SENT: Final = (RESOURCE_QUOTAS, ZONE_QUOTAS)
_KINDS: Final[dict[KindName, Kind]] = {kind.reference: kind for kind in BUILTIN}
_NOT_WANTED: Final = ("metadata", "status", "kind", "apiVersion")
_FIELDS_NAMED_MAX: Final = 5
_VALUES_LENGTH_MAX: Final = 80
_OF_SERVER: Final = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An object that a user wants to apply."""

    where: str
    """For people: which file."""
    kind: KindName
    object: Object
    """As it would be stored; as it was given if it is refused."""
    before: Object | None = None
    """What is there now."""
    refusal: str = ""
    """Why it is not taken, in the server's words."""
    note: str = ""

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"].get("namespace") or "") if self.kind.namespaced else ""

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def is_change(self) -> bool:
        """Whether something of what is wanted would be another. State may change at any moment, by others."""
        return self.before is None or _wanted(self.before) != _wanted(self.object)


async def admitted_by_server(
    client: Client,
    moment: Moment,
    kind: KindName,
    obj: Object,
    where: str,
    *,
    manager: str,
    force: bool = False,
    planned: Iterable[Proposal] = (),
) -> Proposal:
    """Ask the server what it would make of an object. Raises `Unavailable` if there is no answer.

    `planned` comes before it: what is in a namespace that is only just planned cannot be asked about.
    """
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    if kind in _NEVER_SENT:
        return await admitted_here(moment, kind, obj, where, manager=manager, force=force)
    new = [each for each in planned if each.kind == NAMESPACES and each.name == namespace and not each.refusal]
    if kind.namespaced and any(each.before is None for each in new):
        proposal = await admitted_here(moment, kind, obj, where, manager=manager, force=force)
        note = f"{kind} {namespace}/{name}: its namespace does not exist yet, so the server did not validate it"
        return _with_note(proposal, note)
    try:
        before: Object | None = await client.get(kind, name, namespace)
    except NotFound:
        before = None
    write = WriteOptions(dry_run=True, field_validation="Strict")
    taken: list[_Taken] = []
    warnings: list[str] = []
    others, client.on_warning = client.on_warning, warnings.append
    try:
        try:
            after = await client.apply(kind, obj, manager=manager, force=force, write=write)
        except Conflict as error:
            taken = _taken(error.details)
            if force or not taken:
                raise
            after = await client.apply(kind, obj, manager=manager, force=True, write=write)
    except Unavailable:
        raise
    except ApiError as error:
        return Proposal(where=where, kind=kind, object=obj, before=before, refusal=str(error))
    finally:
        client.on_warning = others
    # What nothing enforces the planner says itself, also where there is no server to ask.
    said = [f"{kind.kind.lower()}/{name}: {text}" for text in dict.fromkeys(warnings) if _POD_SECURITY in text]
    note = "\n".join(filter(None, (*said, _notes(kind, obj, before, after, taken))))
    return Proposal(where=where, kind=kind, object=after, before=before, note=note)


async def admitted_here(
    moment: Moment, kind: KindName, obj: Object, where: str, *, manager: str, force: bool = False
) -> Proposal:
    """What a server would make of an object, as far as that can be told without one."""
    metadata = obj["metadata"]
    before = await moment.get(kind, metadata["name"], metadata.get("namespace", ""))
    known = _KINDS.get(kind)
    if known is None:
        note = f"{kind}: its CustomResourceDefinition was not read, so it was neither defaulted nor validated"
        return Proposal(where=where, kind=kind, object=obj, before=before, note=note)
    taken: list[_Taken] = []
    try:
        try:
            after = applied(known, obj, before, manager=manager, force=force, now=moment.at)
        except StatusError as error:
            taken = _taken(error.details or {})
            if force or not taken:
                raise
            after = applied(known, obj, before, manager=manager, force=True, now=moment.at)
    except StatusError as error:
        return Proposal(where=where, kind=kind, object=obj, before=before, refusal=str(error))
    return Proposal(where=where, kind=kind, object=after, before=before, note=_notes(kind, obj, before, after, taken))


def applied(kind: Kind, obj: Object, before: Object | None, *, manager: str, force: bool, now: datetime) -> Object:
    """The object that would be stored. Raises `api.errors.StatusError`."""
    metadata = obj["metadata"]
    application = Application(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        patch={"apiVersion": kind.group_version, "kind": kind.kind, **obj},
        manager=manager,
        now=times.format_time(now),
        force=force,
    )
    new = copy.deepcopy(application.applied(before))
    kind.defaults(new)
    if before is not None:
        kept = ("uid", "creationTimestamp", "generation")
        new["metadata"] |= {name: before["metadata"][name] for name in kept if name in before["metadata"]}
        if "status" in before:
            new["status"] = before["status"]
        if kind.has_generation and _spec(before) != _spec(new):
            new["metadata"]["generation"] = int(before["metadata"].get("generation") or 0) + 1
    kind.prepare(new, before)
    causes = [*kind.validate(new, before), *find_refused(kind.group, kind.plural, new, before)]
    if causes:
        raise invalid(kind.kind, kind.group, metadata["name"], causes)
    return new


@dataclass(frozen=True, slots=True)
class _Taken:
    """A field that another manager owns, and that would change."""

    field: str
    """As the server names it: `.spec.replicas`."""
    owner: str


def _taken(details: Mapping[str, Any]) -> list[_Taken]:
    """What is in the way if that is all that is: fields that others own. Else nothing."""
    causes = details.get("causes") or ()
    if any(each.get("reason") != FIELD_MANAGER_CONFLICT for each in causes):
        return []
    return [_Taken(str(each["field"]), str(each["message"]).removeprefix("conflict with ")) for each in causes]


def _notes(kind: KindName, obj: Object, before: Object | None, after: Object, taken: Sequence[_Taken]) -> str:
    """A line for each."""
    found = [_take_over(kind, before, after, taken)]
    if gone := _gone(obj, after):
        found.append(
            f"{kind.kind.lower()}/{after['metadata']['name']}: no longer in the file, but kept in this plan: "
            f"{', '.join(_shortened(gone))}. `kubectl apply` would remove them; "
            "`mainstay apply` leaves what it did not set."
        )
    return "\n".join(note for note in found if note)


def _gone(obj: Object, after: Object) -> list[str]:
    """Fields that `kubectl apply` set the last time, that the file does not have, and that are there. Not in lists."""
    text = (after["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = msgspec.json.decode(text) if text else None
    except UNREADABLE:
        return []
    return _missing(last, obj, after, "") if isinstance(last, dict) else []


def _missing(last: Mapping[str, Any], new: Mapping[str, Any], there: Mapping[str, Any], path: str) -> list[str]:
    found = []
    for name in sorted(last.keys() & there.keys()):
        if name not in new:
            # An empty mapping is how kubectl writes down that there was nothing.
            found += [f"{path}.{name}"] if last[name] not in ({}, None) else []
        elif all(isinstance(each[name], dict) for each in (last, new, there)):
            found += _missing(last[name], new[name], there[name], f"{path}.{name}")
    return found


def _take_over(kind: KindName, before: Object | None, after: Object, taken: Sequence[_Taken]) -> str:
    if not taken:
        return ""
    by_owner: dict[str, list[str]] = {}
    for each in taken:
        change = "" if kind == SECRETS else _change(each.field, before or {}, after)
        by_owner.setdefault(each.owner, []).append(f"{each.field}{change}")
    listed = "; ".join(f"{', '.join(_shortened(fields))} of {owner}" for owner, fields in by_owner.items())
    return (
        f"{kind.kind.lower()}/{after['metadata']['name']} would take over fields of other managers: {listed}. "
        "`kubectl apply` does so without asking; `mainstay apply`, and any server-side apply by a new manager, would "
        "be rejected without --force-conflicts."
    )


def _shortened(fields: Sequence[str]) -> list[str]:
    more = len(fields) - _FIELDS_NAMED_MAX
    return list(fields) if more <= 0 else [*fields[:_FIELDS_NAMED_MAX], f"{more} more"]


def _change(field: str, before: Object, after: Object) -> str:
    """From what to what, where a few words say it. Fields in lists are only named."""
    values = []
    for obj in (before, after):
        value: Any = obj
        for name in field.removeprefix(".").split("."):
            value = value.get(name) if isinstance(value, dict) else None
        values.append(value)
    old, new = values
    if not isinstance(old, int | str) or not isinstance(new, int | str) or len(f"{old}{new}") > _VALUES_LENGTH_MAX:
        return ""
    return f" ({old} → {new})"


def _with_note(proposal: Proposal, note: str) -> Proposal:
    return Proposal(
        where=proposal.where,
        kind=proposal.kind,
        object=proposal.object,
        before=proposal.before,
        refusal=proposal.refusal,
        note="\n".join(each for each in (note, proposal.note) if each),
    )


def _spec(obj: Object) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in _NOT_WANTED}


def _wanted(obj: Object) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _OF_SERVER}
    return {**_spec(obj), "metadata": metadata}

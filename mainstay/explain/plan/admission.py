"""Would the server take this object, and what would it make of it? Asked of the server itself, without doing it.

A *proposal* is an object that somebody wants to apply, as it would be stored: with defaults, merged with what is
there. A
living server says so in a dry run of the same server-side apply that `mainstay apply` sends. Where there is none, in a
bundle or at an earlier time, the same merging, defaults and validation are done here; then quotas are counted on
(quotas.py), but nobody has asked the server's admission.

Quotas are never sent, not even for a dry run: a server that is asked about one begins to count what it limits, and
notes that in its store.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mainstay.api import times
from mainstay.api.apply import Application
from mainstay.api.errors import ApiError as Refusal
from mainstay.api.errors import invalid
from mainstay.api.kind import Kind, Object
from mainstay.api.kind_name import KindName
from mainstay.api.kinds import BUILTIN
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound, Unavailable
from mainstay.controllers.kinds import NAMESPACES, RESOURCE_QUOTAS, ZONE_QUOTAS
from mainstay.explain.moment import Moment

_NEVER_SENT: Final = (RESOURCE_QUOTAS, ZONE_QUOTAS)
_KINDS: Final[dict[KindName, Kind]] = {kind.reference: kind for kind in BUILTIN}
_NOT_WANTED: Final = ("metadata", "status", "kind", "apiVersion")
_OF_SERVER: Final = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An object that somebody wants to apply."""

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
        note = f"{kind} {namespace}/{name}: its namespace is not there yet, so the server was not asked about it"
        return _with_note(proposal, note)
    try:
        before: Object | None = await client.get(kind, name, namespace)
    except NotFound:
        before = None
    write = WriteOptions(dry_run=True, field_validation="Strict")
    try:
        after = await client.apply(kind, obj, manager=manager, force=force, write=write)
    except Unavailable:
        raise
    except ApiError as error:
        return Proposal(where=where, kind=kind, object=obj, before=before, refusal=str(error))
    return Proposal(where=where, kind=kind, object=after, before=before)


async def admitted_here(
    moment: Moment, kind: KindName, obj: Object, where: str, *, manager: str, force: bool = False
) -> Proposal:
    """What a server would make of an object, as far as that can be told without one."""
    metadata = obj["metadata"]
    before = await moment.get(kind, metadata["name"], metadata.get("namespace", ""))
    known = _KINDS.get(kind)
    if known is None:
        note = f"{kind}: its definition was not looked at, so nothing was filled in or checked"
        return Proposal(where=where, kind=kind, object=obj, before=before, note=note)
    try:
        after = applied(known, obj, before, manager=manager, force=force, now=moment.at)
    except Refusal as error:
        return Proposal(where=where, kind=kind, object=obj, before=before, refusal=str(error))
    return Proposal(where=where, kind=kind, object=after, before=before)


def applied(kind: Kind, obj: Object, before: Object | None, *, manager: str, force: bool, now: datetime) -> Object:
    """The object that would be stored. Raises `api.errors.ApiError`."""
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
    causes = kind.validate(new, before)
    if causes:
        raise invalid(kind.kind, kind.group, metadata["name"], causes)
    return new


def _with_note(proposal: Proposal, note: str) -> Proposal:
    return Proposal(
        where=proposal.where,
        kind=proposal.kind,
        object=proposal.object,
        before=proposal.before,
        refusal=proposal.refusal,
        note=note,
    )


def _spec(obj: Object) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in _NOT_WANTED}


def _wanted(obj: Object) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _OF_SERVER}
    return {**_spec(obj), "metadata": metadata}

"""What should become of an object that has owners: a plain function of what was just read of it and of them.

    an owner holds it                       it stays; references to owners that do not hold it any more go
    of an owner nothing is known            it stays, and is looked at again
    no owner holds it                       it goes. If one of them waits for that, it takes its own dependents first

What is deleted is what was read: its uid, and the version in which it named those owners and no others. So one that is
given another owner at the last moment stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mainstay.api.kind import Object, Propagation
from mainstay.controllers.garbage.vertices import FOREGROUND, ORPHAN, Reference, parse_references


class Standing(StrEnum):
    """How an owner stands to what names it. On disk: only add."""

    HOLDS = "Holds"
    """It is there."""
    WAITS = "Waits"
    """It is there, and waits for its dependents to go."""
    ABSENT = "Absent"
    """The server says that there is no such object, or another one with this name."""
    UNKNOWN = "Unknown"
    """Unknown for now: its kind is not served, or the server does not answer."""
    IMPOSSIBLE = "Impossible"
    """Impossible to tell: something without a namespace names an owner that is in one."""


@dataclass(frozen=True, slots=True)
class KeepObject:
    """Leave it as it is."""

    why: str = ""
    is_unsure: bool = False
    """Look again later, also if nothing changes."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """These owners are none any more; it keeps the others."""

    owners: frozenset[str]
    """Their uids."""


@dataclass(frozen=True, slots=True)
class RemoveObject:
    propagation: Propagation


Plan = KeepObject | LetGo | RemoveObject


def decide(obj: Object, standings: Sequence[Standing], *, has_dependents: bool) -> Plan:
    """`standings` are those of its owners, in the order in which it names them.

    `has_dependents` counts only if an owner waits: then the caller must know of all of them.
    """
    metadata = obj["metadata"]
    references = parse_references(obj)
    assert len(references) == len(standings)
    if "deletionTimestamp" in metadata:
        return KeepObject("it is being deleted")
    if not references:
        return KeepObject("it has no owners")
    over = frozenset(_uids(references, standings, Standing.ABSENT) + _uids(references, standings, Standing.WAITS))
    if Standing.HOLDS in standings:
        # A uid may be named twice, rightly and wrongly. What is right counts.
        over -= frozenset(_uids(references, standings, Standing.HOLDS))
        return LetGo(over) if over else KeepObject("an owner exists")
    if Standing.UNKNOWN in standings:
        return KeepObject("whether its owners exist is unknown", is_unsure=True)
    if Standing.IMPOSSIBLE in standings:
        return KeepObject("it is cluster-scoped, but names a namespaced owner")
    finalizers: list[str] = metadata.get("finalizers") or []
    if Standing.WAITS in standings and has_dependents:
        return RemoveObject(Propagation.FOREGROUND)
    if ORPHAN in finalizers:
        return RemoveObject(Propagation.ORPHAN)
    return RemoveObject(Propagation.FOREGROUND if FOREGROUND in finalizers else Propagation.BACKGROUND)


class GarbageReason(StrEnum):
    """Why an object is written. On disk: only add."""

    OWNERS = "Owners"
    """Of how its owners stand."""
    ENDS = "Ends"
    """It is on its way out, and nothing is left that it waits for."""
    LET_GO = "LetGo"
    """An owner of it lets it go."""


@dataclass(frozen=True, slots=True)
class GarbageInput:
    """What was found out, besides the object itself."""

    because: GarbageReason
    standings: tuple[Standing, ...] = ()
    has_dependents: bool = False
    owner: str = ""
    """The uid of the owner that lets it go."""


def written(obj: Object, known: GarbageInput) -> tuple[str, Any] | None:
    """What is written about an object: the verb, and the fields of its metadata or how it is deleted. None: nothing."""
    match known.because:
        case GarbageReason.ENDS:
            return "patch", {"finalizers": finalizers_but(obj, find_finalizer(obj))}
        case GarbageReason.LET_GO:
            return "patch", {"ownerReferences": owners_but(obj, frozenset({known.owner}))}
        case GarbageReason.OWNERS:
            match decide(obj, known.standings, has_dependents=known.has_dependents):
                case LetGo(owners=owners):
                    return "patch", {"ownerReferences": owners_but(obj, owners)}
                case RemoveObject(propagation=propagation):
                    return "delete", str(propagation)
    return None


def owners_but(obj: Object, uids: frozenset[str]) -> list[Any] | None:
    """The owner references of an object without those; None if none are left."""
    return [each for each in obj["metadata"].get("ownerReferences") or () if each.get("uid") not in uids] or None


def finalizers_but(obj: Object, finalizer: str) -> list[Any] | None:
    return [each for each in obj["metadata"].get("finalizers") or () if each != finalizer] or None


def find_finalizer(obj: Object) -> str:
    """Which of our finalizers an object that is leaving waits for; empty if none. Letting go comes first."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or ()
    if "deletionTimestamp" not in metadata:
        return ""
    return next((each for each in (ORPHAN, FOREGROUND) if each in finalizers), "")


def _uids(references: Sequence[Reference], standings: Sequence[Standing], wanted: Standing) -> list[str]:
    return [each.uid for each, standing in zip(references, standings, strict=True) if standing is wanted]

"""Whether an action may be carried out on a view that is old: each declares it, and the runtime enforces it (SPEC W3).

    MayBeStale    the action does no harm however old the view is: it says what should be, of one object by its uid, and
                  is decided on again when the view is newer
    SeenVersion   only on the object as the decision has seen it: each request carries its version, and the server
                  refuses it if the object has changed
    FreshRead     what the action follows from is read from the server first: a controller's own object, by its uid and
                  generation. If that is not as the decision has seen it, nothing of the decision is carried out. Nor is
                  it while a watch that the view comes from is broken, because then the rest of the view is old, too

There is no default for what changes or removes an object: the author of the decision must say it. Only a create has
one: its name keeps it from being done twice.

`controller_loop.py` enforces it for controllers, `periodic.py` for loops that look at everything; loops of
`fresh_read.py` decide on nothing else than what they have just read. docs/freshness.md lists all actions.
"""

from collections.abc import Iterable
from enum import StrEnum

from mainstay.client.informer import Informer


class Freshness(StrEnum):
    MAY_BE_STALE = "MayBeStale"
    SEEN_VERSION = "SeenVersion"
    FRESH_READ = "FreshRead"


def require_version(freshness: Freshness, resource_version: str) -> None:
    """Raise `ValueError` for an action that does not say what it declares, or says more."""
    if freshness is Freshness.SEEN_VERSION and not resource_version:
        raise ValueError("an action on the seen version must have a resource_version")
    if freshness is Freshness.MAY_BE_STALE and resource_version:
        raise ValueError("an action that may be stale has no resource_version; declare SeenVersion")


def find_behind(informers: Iterable[Informer]) -> str:
    """Why a view is known to be old: the first watch that is broken. Empty: none is."""
    for informer in informers:
        if informer.last_error:
            return f"the watch of {informer.collection.kind} is broken: {informer.last_error}"
    return ""

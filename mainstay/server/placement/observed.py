"""What a scheduler had seen when it chose a node, as its binding says: `Mainstay-Observed`.

    Mainstay-Observed: pods=918812;nodes=918790;reservations=918001;by=scheduler-1a2b;strict
    Mainstay-Observed: 918812;strict                      the same revision of all of them

`strict` asks for a refusal (`Stale`) if the node's ledger has changed since by a Node, a pod or a reservation that was
not seen, whatever room there is. `by` names the scheduler: pods that it has bound itself are no news to it.
"""

import re
from typing import Final

from msgspec import Struct

from mainstay.api.errors import bad_request
from mainstay.api.headers import OBSERVED

_PLAIN: Final = re.compile(r"[0-9]{1,18}")
_NAMED: Final = re.compile(r"(?P<kind>pods|nodes|reservations)=(?P<revision>[0-9]{1,18})")
_BY: Final = re.compile(r"by=(?P<name>[A-Za-z0-9._-]{1,128})")


class Observed(Struct, frozen=True):
    pods: int | None = None
    nodes: int | None = None
    reservations: int | None = None
    """None: not said, and not looked at."""
    by: str = ""
    is_strict: bool = False


def parse_observed(header: str | None) -> Observed | None:
    """Raises `StatusError` (400) for one that cannot be read, or is strict about half of what a node is."""
    if not header:
        return None
    revisions: dict[str, int] = {}
    by, is_strict = "", False
    for part in header.split(";"):
        text = part.strip()
        if found := _NAMED.fullmatch(text):
            revisions[found["kind"]] = int(found["revision"])
        elif _PLAIN.fullmatch(text):
            revisions |= dict.fromkeys(("pods", "nodes", "reservations"), int(text))
        elif found := _BY.fullmatch(text):
            by = found["name"]
        elif text == "strict":
            is_strict = True
        else:
            raise bad_request(f"{OBSERVED} must be pods=REVISION;nodes=REVISION[;strict], and is {header!r}")
    if not revisions or (is_strict and not {"pods", "nodes"} <= revisions.keys()):
        raise bad_request(f"{OBSERVED} must name the observed revisions of pods and of nodes, and is {header!r}")
    return Observed(revisions.get("pods"), revisions.get("nodes"), revisions.get("reservations"), by, is_strict)

"""What a reservation is called, and what it holds: for the server that commits it and the scheduler that asks for it.

A reservation is named after what it is for: the workload (its uid), the generation of it, and the intent, such as
`replica-042`. So a retry, after a timeout, a restart or with a cache that lags, asks for the same name, and
the name is the key on which both attempts meet: of one intent there is never a second reservation beside the first.

    reservation_name({"kind": "Deployment", "name": "risk-api", "uid": "…"}, 42, "replica-042")  # risk-api-5f0c…
"""

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.pod_resources import HostPort, parse_amounts, parse_host_port

_HASH_DIGITS: Final = 20  # 80 bits: two intents of one name would take a trillion of them.
_READABLE_MAX: Final = 40
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


class ReservationPhase(StrEnum):
    """What has become of a reservation. Shown to users: only add."""

    ACTIVE = "Active"
    """It holds resources on its node."""
    CONFIRMED = "Confirmed"
    """Its pod was bound and took over the resources."""
    RELEASED = "Released"
    """Its creator released it."""
    EXPIRED = "Expired"
    """It expired before it was used."""


def reservation_name(workload: Mapping[str, Any], generation: int, intent: str) -> str:
    """The one name that a reservation for this may have. `workload` needs its uid; its name is only to be read."""
    said = "\0".join((str(workload.get("uid") or ""), str(generation), intent))
    digits = hashlib.sha256(said.encode()).hexdigest()[:_HASH_DIGITS]
    readable = _NOT_IN_NAMES.sub("-", str(workload.get("name") or "").lower())[:_READABLE_MAX].strip("-")
    return f"{readable or 'reservation'}-{digits}"


def read_phase(reservation: Object) -> ReservationPhase:
    """One that says nothing was just made: it is active."""
    return ReservationPhase((reservation.get("status") or {}).get("phase") or ReservationPhase.ACTIVE)


def is_active(reservation: Object | None) -> bool:
    """Whether it is there and holds room."""
    return reservation is not None and read_phase(reservation) is ReservationPhase.ACTIVE


def count_resources(reservation: Object) -> dict[str, int]:
    """What it holds, in base units."""
    return parse_amounts(reservation["spec"].get("resources"))


def list_ports(reservation: Object) -> tuple[HostPort, ...]:
    """The ports that it holds on its node, each once."""
    return tuple(dict.fromkeys(parse_host_port(port) for port in reservation["spec"].get("ports") or ()))

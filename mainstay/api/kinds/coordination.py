"""Lease: who holds something, and since when."""

from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, invalid_value
from mainstay.api.kind import Object
from mainstay.api.kinds.declare import builtin, child


def _default_lease(new: Object) -> None:
    child(new, "spec")


def _validate_lease(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        causes.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes


LEASE = builtin(
    kind_names.LEASES,
    defaults=_default_lease,
    validate=_validate_lease,
    has_generation=False,
    put_creates=True,
    put_needs_version=True,
)

KINDS = (LEASE,)

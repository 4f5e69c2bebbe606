"""What a write may ask for besides the object: dry run, validation of fields, how to delete. Checked, and as values."""

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from mainstay.api.errors import CauseType, StatusCause, invalid, invalid_value, not_supported
from mainstay.api.kind import Propagation
from mainstay.server.request.target import Options


class WriteParameters(Struct, frozen=True):
    dry_run: bool
    validation: str
    """Strict, Warn or Ignore."""
    field_manager: str

    @classmethod
    def of(cls, options: Options, kind: str, user_agent: str) -> "WriteParameters":
        """`kind` is CreateOptions, UpdateOptions or PatchOptions: what a refusal is about."""
        causes = _dry_run_causes(options.all("dryRun"))
        validation = options.get("fieldValidation")
        if validation not in ("", "Ignore", "Strict", "Warn"):
            causes.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
        manager = options.get("fieldManager") or user_agent.partition("/")[0]
        if len(manager) > 128:
            causes.append(invalid_value("fieldManager", manager, "may not be longer than 128 bytes"))
        if causes:
            raise invalid(kind, "meta.k8s.io", "", causes)
        return cls(bool(options.all("dryRun")), validation or "Warn", manager or "unknown")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    dry_run: bool
    grace_period_s: int | None
    propagation: Propagation | None
    """None: nothing is said. Then what an earlier deletion said holds, or what is usual for the kind."""
    uid: str
    """Only if it has this uid; empty for any."""
    resource_version: str

    @classmethod
    def of(cls, options: Options, body: dict[str, Any]) -> "DeleteOptions":
        """From the body, and from the query where the body says nothing."""
        dry_run = options.all("dryRun") or body.get("dryRun") or []
        causes = _dry_run_causes(dry_run)
        policy = options.get("propagationPolicy") or body.get("propagationPolicy") or ""
        orphan = body.get(
            "orphanDependents", options.flag("orphanDependents") if "orphanDependents" in options else None
        )
        if policy and policy not in list(Propagation):
            causes.append(not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")))
        elif policy and orphan is not None:
            text = "orphanDependents and deletionPropagation cannot be both set"
            causes.append(invalid_value("propagationPolicy", policy, text))
        grace = body.get("gracePeriodSeconds")
        if grace is None:
            grace = options.number("gracePeriodSeconds")
        if type(grace) not in (int, type(None)) or (grace is not None and grace < 0):
            causes.append(invalid_value("gracePeriodSeconds", grace, "must be a whole number from 0 up"))
        if causes:
            raise invalid("DeleteOptions", "meta.k8s.io", "", causes)
        if not policy:
            policy = Propagation.ORPHAN if orphan else Propagation.BACKGROUND if orphan is False else ""
        preconditions = body.get("preconditions") or {}
        return cls(
            bool(dry_run),
            grace,
            Propagation(policy) if policy else None,
            preconditions.get("uid") or "",
            preconditions.get("resourceVersion") or "",
        )


def _dry_run_causes(values: list[str]) -> list[StatusCause]:
    if not values or values == ["All"]:
        return []
    shown = ",".join(f'"{value}"' for value in values)
    return [StatusCause(CauseType.NOT_SUPPORTED, "dryRun", f'Unsupported value: [{shown}]: supported values: "All"')]

"""What a write may ask for besides the object: dry run, validation of fields, how to delete. Checked, and as values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

from msgspec import Struct, field

from mainstay.api.errors import CauseType, StatusCause, invalid, invalid_value, not_supported, too_long
from mainstay.api.kind import Propagation
from mainstay.api.remember import remember_short
from mainstay.journal.record import AppliedPolicy
from mainstay.server.request.large_work import LARGE_BYTES, LargeWorkShare
from mainstay.server.request.target import Options

P = ParamSpec("P")
T = TypeVar("T")

_MANAGER_BYTES_MAX: Final = 128


class AdmissionNotes(Struct):
    """What admission says about a write besides yes or no: filled in while it is decided, then read for the answer and
    for the audit log."""

    warnings: list[str] = field(default_factory=list)
    audit: dict[str, str] = field(default_factory=dict)
    """Annotations of the request in the audit log."""
    policies: tuple[AppliedPolicy, ...] = ()
    """The admission policies that have refused it, and the expression that was not met."""
    expression: str = ""
    mutations: tuple[AppliedPolicy, ...] = ()
    """The admission policies that have changed what is written."""
    mutated: tuple[bytes, ...] = ()
    """What each of them has changed, as in `WriteRecord`."""

    def warn(self, text: str) -> None:
        """Say something in a `Warning` header of the answer. A write that is decided again says it once."""
        if text not in self.warnings:
            self.warnings.append(text)


class WriteParameters(Struct):
    dry_run: bool
    validation: str
    """Strict, Warn or Ignore."""
    field_manager: str
    notes: AdmissionNotes = field(default_factory=AdmissionNotes)
    """What admission has to say about the write, once it is decided."""
    large: LargeWorkShare | None = None
    """What computes with the object, if it is large."""
    is_large: bool = False
    """Whether the body was."""

    async def compute(self, size: int, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of an object: not on the loop, if it is large. `size` is that of the object before."""
        if self.large is None or not (self.is_large or size > LARGE_BYTES):
            return call(*args, **kwargs)
        return await self.large.run(call, *args, **kwargs)

    @classmethod
    def of(cls, options: Options, kind: str, user_agent: str) -> "WriteParameters":
        """`kind` is CreateOptions, UpdateOptions or PatchOptions: what a refusal is about."""
        if not options and (manager := _find_manager(user_agent)):
            return cls(False, "Warn", manager)
        causes = _dry_run_causes(options.all("dryRun"))
        validation = options.get("fieldValidation")
        if validation not in ("", "Ignore", "Strict", "Warn"):
            causes.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
        manager = options.get("fieldManager") or user_agent.partition("/")[0]
        causes += _manager_causes(manager)
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


@remember_short(1024)
def _find_manager(user_agent: str) -> str:
    """The manager of fields that a client is by its User-Agent; empty if that makes none."""
    manager = user_agent.partition("/")[0]
    return "" if _manager_causes(manager) else manager or "unknown"


def _manager_causes(manager: str) -> list[StatusCause]:
    causes = []
    if len(manager.encode(errors="replace")) > _MANAGER_BYTES_MAX:
        causes.append(too_long("fieldManager", f"may not be more than {_MANAGER_BYTES_MAX} bytes"))
    if not manager.isprintable():
        causes.append(invalid_value("fieldManager", manager, "should only contain printable characters"))
    return causes


def _dry_run_causes(values: list[str]) -> list[StatusCause]:
    if not values or values == ["All"]:
        return []
    shown = ",".join(f'"{value}"' for value in values)
    return [StatusCause(CauseType.NOT_SUPPORTED, "dryRun", f'Unsupported value: [{shown}]: supported values: "All"')]

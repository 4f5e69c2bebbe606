"""What a write that the server refused comes to."""

from collections.abc import Mapping, Sequence
from typing import Final

from mainstay.api.causes import ADMISSION_POLICY_VIOLATED, NAMESPACE_NOT_FOUND, NAMESPACE_TERMINATING, QUOTA_EXCEEDED
from mainstay.api.errors import StatusReason
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.journal.record import DecisionRecord, WriteResult

_CAUSES: Final[Mapping[str, tuple[Cause, Verdict]]] = {
    QUOTA_EXCEEDED: (Cause.QUOTA_EXCEEDED, Verdict.WAITING),
    NAMESPACE_TERMINATING: (Cause.NAMESPACE_TERMINATING, Verdict.BLOCKED),
    NAMESPACE_NOT_FOUND: (Cause.NAMESPACE_MISSING, Verdict.BLOCKED),
    StatusReason.INVALID: (Cause.INVALID, Verdict.BLOCKED),
    # What admission forbids has a cause of its own: this is authorization.
    StatusReason.FORBIDDEN: (Cause.FORBIDDEN, Verdict.BLOCKED),
}


def refusal_cause(code: str) -> tuple[Cause, Verdict]:
    """What the code of a refused write (api/causes.py) comes to. Version 0.1 recorded none for what controllers wrote:
    then all that is known is that the server did not take it."""
    return _CAUSES.get(code, (Cause.ADMISSION_REFUSED, Verdict.BLOCKED))


def last_refused(records: Sequence[DecisionRecord]) -> WriteResult | None:
    """The write at which the last of a component's decisions failed, if it did."""
    failed = [each for each in records[-1].writes if each.error] if records else []
    return failed[0] if failed else None


async def describe_policy(case: Case, refused: WriteResult | None) -> str:
    """What of an admission policy a refused write does not meet, in which version of it: the server's record knows.
    Empty if no policy refused it, or the record is gone."""
    if refused is None or refused.cause != ADMISSION_POLICY_VIOLATED:
        return ""
    for record in reversed(await case.records(refused.kind, refused.namespace, refused.name)):
        if record.policies:
            policies = ", ".join(f"{each.name} at revision {each.revision}" for each in record.policies)
            return f" ({policies}; {'; '.join(each for each in record.reasons if each.startswith('expression: '))})"
    return ""

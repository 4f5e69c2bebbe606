"""What a write that the server refused comes to."""

from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.causes import Cause


def refusal_cause(message: str) -> tuple[Cause, Verdict]:
    """What the words of a refused write come to."""
    low = message.lower()
    if "exceeded quota" in low:
        return Cause.QUOTA_EXCEEDED, Verdict.WAITING
    if "being terminated" in low or "is terminating" in low:
        return Cause.NAMESPACE_TERMINATING, Verdict.BLOCKED
    if "serviceaccount" in low and "not found" in low:
        return Cause.SERVICE_ACCOUNT_MISSING, Verdict.BLOCKED
    if "namespaces" in low and "not found" in low:
        return Cause.NAMESPACE_MISSING, Verdict.BLOCKED
    if "is invalid" in low or "unprocessable" in low:
        return Cause.INVALID, Verdict.BLOCKED
    if "cannot create resource" in low or "cannot patch resource" in low:
        return Cause.FORBIDDEN, Verdict.BLOCKED
    return Cause.ADMISSION_REFUSED, Verdict.BLOCKED

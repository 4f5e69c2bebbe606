"""Answers 5xx that are right: each with what it says, so that another cause with the same status is found.

Those of kube-apiserver have its words; clients know them. The others are ours and are documented
(docs/compatibility.md).
"""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class DeliberateFailure:
    status: int
    reason: str
    message: str
    """A regular expression for all of the message."""
    target: str = ""
    """The same for a part of the request's target."""

    def explains(self, status: int, reason: str, message: str, target: str) -> bool:
        return (
            (status, reason) == (self.status, self.reason)
            and re.fullmatch(self.message, message, re.DOTALL) is not None
            and re.search(self.target, target) is not None
        )


_AGENTS: Final = r"/(log|exec|attach|portforward|proxy)(\?|$)"

DELIBERATE: Final = (
    # As kube-apiserver. Errors of these places have no status there, and become 500 without a reason.
    DeliberateFailure(500, "", r"resourceVersion should not be set on objects to be created"),
    DeliberateFailure(500, "", r"resourceVersion: Invalid value: .*: invalid syntax", r"[?&]watch="),
    DeliberateFailure(500, "", r"failed to create typed patch object \(.*\): .*(field not declared in schema|key).*"),
    DeliberateFailure(
        500,
        "InternalError",
        r"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support\.",
        r"/eviction(\?|$)",
    ),
    DeliberateFailure(504, "Timeout", r"Timeout: Too large resource version: \d+, current: \d+"),
    # Ours: there are no agents here, and a proxy to pods is not served.
    DeliberateFailure(501, "MethodNotAllowed", r"pods/proxy is not served here", r"/proxy(\?|$)"),
    DeliberateFailure(
        503,
        "ServiceUnavailable",
        r"node \"[^\"]*\" has no agent address: its agent has never run, or only pretends",
        _AGENTS,
    ),
    # Of HTTP itself (RFC 9110 and 9112).
    DeliberateFailure(501, "NotImplemented", r"only Transfer-Encoding: chunked is supported"),
    DeliberateFailure(505, "HTTPVersionNotSupported", r"only HTTP/1\.0 and HTTP/1\.1 are supported"),
)


_OF_HTTP: Final = (501, 505)


def is_deliberate(method: str, status: int, reason: str, message: str, target: str) -> bool:
    if method == "HEAD" and not reason:  # The answer has no body that could say more.
        return status in _OF_HTTP
    return any(each.explains(status, reason, message, target) for each in DELIBERATE)

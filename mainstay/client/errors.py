"""What a request can end in, named for what to do next.

    Conflict        another write was first: read again, decide again
    AlreadyExists   the name is taken: read it, it may be your own earlier work
    NotFound        usually done, or not there yet
    Expired         the version or page asked for is gone: list again
    Invalid         the object cannot be: do not repeat it
    BadRequest      the request makes no sense: do not repeat it, it is a bug here
    Forbidden       ask for the rights, then again
    Unauthorized    unknown user: the credentials are wrong or expired
    Throttled       come back after `retry_after`
    Fenced          this leader was deposed: stop at once
    Unavailable     no answer, or the server could not: try again later

`may_have_happened` says whether what was asked for may have been done all the same. It is false for an answer that
refuses. It is true where no answer came after the request had been sent, and also for a refusal of a repeat whose first
attempt got no answer: a `Conflict` may then be with this request's own first attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.causes import FENCED, STORE_RESTORED, find_cause

# How long to stay away from a server that asks for it and does not say how long.
RETRY_AFTER_UNSAID: Final = timedelta(seconds=1)

_MESSAGE_LENGTH_MAX: Final = 1000  # Of an answer that is no Status, of which the beginning is shown.


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """One thing that was wrong. Reasons are the server's words, such as `FieldValueRequired`."""

    reason: str
    field: str
    message: str


class ApiError(Exception):
    """The base of all of them. Raised itself only for an answer that nothing below is about."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        may_have_happened: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        """The HTTP status. 0: no answer came."""
        self.reason = reason
        self.details: Mapping[str, Any] = details or {}
        self.may_have_happened = may_have_happened

    @property
    def cause(self) -> str:
        """The one code for it, which records and conditions repeat: see `api.causes.find_cause`. Empty: no answer
        came."""
        return find_cause(self.status, self.reason, self.details) if self.status else ""

    @property
    def causes(self) -> tuple[ErrorCause, ...]:
        found = self.details.get("causes")
        if not isinstance(found, list):
            return ()
        return tuple(
            ErrorCause(str(each.get("reason", "")), str(each.get("field", "")), str(each.get("message", "")))
            for each in found
            if isinstance(each, dict)
        )


class Conflict(ApiError):
    """The object is not what this write was based on, or another manager owns a field. Read again."""


class Fenced(Conflict):
    """The term that this write carried is over: another leader is in office. Stop acting as leader."""


class AlreadyExists(ApiError):
    """There is an object of this name."""


class NotFound(ApiError):
    """There is no such object, or no such kind."""


class Expired(ApiError):
    """The history that was asked for is gone. List again, and watch from there."""


class PutBack(Expired):
    """The store was put back to a backup since then. What is known of it may never have been, also where the versions
    are the same."""


class Invalid(ApiError):
    """The object cannot be. `causes` says why, field by field."""


class BadRequest(ApiError):
    """The request makes no sense to the server, whatever its state."""


class Unauthorized(ApiError):
    """The server does not know who is asking."""


class Forbidden(ApiError):
    """The server knows who is asking, and they may not."""


class Throttled(ApiError):
    """The server has too much to do, or a budget does not allow it now. Nothing was done."""

    def __init__(self, message: str, *, retry_after: timedelta = RETRY_AFTER_UNSAID, **more: Any) -> None:
        super().__init__(message, **more)
        self.retry_after = retry_after


class Unavailable(ApiError):
    """No answer came, or the server could not do it. See `may_have_happened` before doing it another way."""


class _Status(msgspec.Struct):
    """What is read of a Kubernetes `Status`."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    details: dict[str, Any] | None = None
    code: int = 0


_status_decoder = msgspec.json.Decoder(_Status)

_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
}
# Wrong for every caller at any time: a method, a format, a size that the server does not accept.
_BAD_REQUESTS: Final = frozenset({400, 405, 406, 411, 413, 414, 415, 417, 431})


def build_error(status: int, body: bytes, *, retry_after: timedelta | None, is_read: bool) -> ApiError:
    """The exception for an answer that is no success. `is_read`: what was asked for changes nothing."""
    try:
        said = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _Status()
    status = status or said.code
    message = said.message
    if not message:
        shown = body[:_MESSAGE_LENGTH_MAX].decode(errors="replace").strip()
        message = f"the server answered {status}: {shown}" if shown else f"the server answered {status}"
    more: dict[str, Any] = {"status": status, "reason": said.reason, "details": said.details}
    if status == 429:
        return Throttled(message, retry_after=retry_after or _read_retry_after(said) or RETRY_AFTER_UNSAID, **more)
    if status >= 500:
        # A server that says when to come back has not begun; one without room has not written. Anything else may come
        # from whatever stands between, or from a server that does not know itself.
        is_refusal = status == 507 or (
            status == 503 and said.reason == "ServiceUnavailable" and retry_after is not None
        )
        return Unavailable(message, may_have_happened=not is_read and not is_refusal, **more)
    if status == 408:
        return Unavailable(message, **more)  # The request did not arrive whole, so nothing was done with it.
    return _find_class(status, said)(message, **more)


def error_of_event(body: bytes) -> ApiError:
    """The exception for a Status that a watch has delivered instead of an object."""
    return build_error(0, body, retry_after=None, is_read=True)


def _find_class(status: int, said: _Status) -> type[ApiError]:
    if status == 409 and said.reason == "AlreadyExists":
        return AlreadyExists
    if status == 409 and _is_caused_by(FENCED, said):
        return Fenced
    if status == 410 and _is_caused_by(STORE_RESTORED, said):
        return PutBack
    if status in _BAD_REQUESTS:
        return BadRequest
    return _BY_STATUS.get(status, ApiError)


def _is_caused_by(reason: str, said: _Status) -> bool:
    causes = (said.details or {}).get("causes")
    return isinstance(causes, list) and any(isinstance(each, dict) and each.get("reason") == reason for each in causes)


def _read_retry_after(said: _Status) -> timedelta | None:
    seconds = (said.details or {}).get("retryAfterSeconds")
    return timedelta(seconds=seconds) if isinstance(seconds, int) and seconds > 0 else None

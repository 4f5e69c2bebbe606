"""What the API says when it will not do something: one shape, the Kubernetes `Status`.

A `StatusError` is raised anywhere on the way of a request and becomes the response. Its reason is what clients look at;
the message is for people, in the words that clients of Kubernetes already know.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class StatusReason(StrEnum):
    """Why. Clients decide by these: only add."""

    BAD_REQUEST = "BadRequest"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    NOT_ACCEPTABLE = "NotAcceptable"
    ALREADY_EXISTS = "AlreadyExists"
    CONFLICT = "Conflict"
    EXPIRED = "Expired"
    REQUEST_ENTITY_TOO_LARGE = "RequestEntityTooLarge"
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"
    INVALID = "Invalid"
    TOO_MANY_REQUESTS = "TooManyRequests"
    INTERNAL_ERROR = "InternalError"
    SERVICE_UNAVAILABLE = "ServiceUnavailable"
    TIMEOUT = "Timeout"


class CauseType(StrEnum):
    """What is wrong with one field. Sent to clients: only add."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One thing that is wrong with an object. The message begins with the words for its type: see below."""

    type: CauseType
    field: str
    message: str


def required(path: str, detail: str = "") -> StatusCause:
    return StatusCause(CauseType.REQUIRED, path, _words("Required value", detail))


def invalid_value(path: str, value: object, detail: str) -> StatusCause:
    return StatusCause(CauseType.INVALID, path, _words(f"Invalid value: {_shown(value)}", detail))


def not_supported(path: str, value: object, supported: Sequence[str]) -> StatusCause:
    listed = ", ".join(quoted(each) for each in supported)
    return StatusCause(CauseType.NOT_SUPPORTED, path, f"Unsupported value: {_shown(value)}: supported values: {listed}")


def forbidden_value(path: str, detail: str) -> StatusCause:
    return StatusCause(CauseType.FORBIDDEN, path, _words("Forbidden", detail))


def duplicate(path: str, value: object) -> StatusCause:
    return StatusCause(CauseType.DUPLICATE, path, f"Duplicate value: {_shown(value)}")


def too_long(path: str, detail: str) -> StatusCause:
    return StatusCause(CauseType.TOO_LONG, path, _words("Too long", detail))


def _words(words: str, detail: str) -> str:
    return f"{words}: {detail}" if detail else words


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    """In quotation marks, on one line, with escapes for what cannot be printed: as Go's `%q` writes it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(each) or (each if each.isprintable() else _escaped(each)) for each in text) + '"'


_ESCAPES: Final = {'"': '\\"', "\\": "\\\\"} | dict(
    zip("\a\b\f\n\r\t\v", (f"\\{each}" for each in "abfnrtv"), strict=True)
)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@dataclass(eq=False)
class StatusError(Exception):
    """A refusal, on its way to becoming a response."""

    code: int
    reason: StatusReason | str
    message: str
    details: dict[str, Any] | None = None
    retry_after_s: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def status(self) -> dict[str, Any]:
        """The body of the response."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = str(self.reason)
        details = dict(self.details or {})
        if self.retry_after_s is not None:
            details["retryAfterSeconds"] = self.retry_after_s
        if self.details is not None or details:
            body["details"] = details
        body["code"] = self.code
        return body


def bad_request(message: str) -> StatusError:
    return StatusError(400, StatusReason.BAD_REQUEST, message)


def unauthorized() -> StatusError:
    return StatusError(401, StatusReason.UNAUTHORIZED, "Unauthorized")


def not_found(resource: str, group: str, name: str) -> StatusError:
    """`resource` is the plural. The words are `deployments.apps "x" not found`."""
    return StatusError(
        404,
        StatusReason.NOT_FOUND,
        f'{qualified(resource, group)} "{name}" not found',
        object_details(resource, group, name),
    )


def already_exists(resource: str, group: str, name: str) -> StatusError:
    return StatusError(
        409,
        StatusReason.ALREADY_EXISTS,
        f'{qualified(resource, group)} "{name}" already exists',
        object_details(resource, group, name),
    )


def conflict(resource: str, group: str, name: str, why: str) -> StatusError:
    return StatusError(
        409,
        StatusReason.CONFLICT,
        f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}',
        object_details(resource, group, name),
    )


OBJECT_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(resource: str, group: str, name: str, why: str, causes: Sequence[dict[str, str]] = ()) -> StatusError:
    details = object_details(resource, group, name)
    if causes:
        details["causes"] = list(causes)
    shown = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
    return StatusError(403, StatusReason.FORBIDDEN, f"{shown} is forbidden: {why}", details)


def invalid(kind: str, group: str, name: str, causes: Sequence[StatusCause]) -> StatusError:
    """The object cannot be: `Deployment.apps "x" is invalid: spec.selector: Required value`."""
    listed = [f"{cause.field}: {cause.message}" for cause in causes]
    text = listed[0] if len(listed) == 1 else "[" + ", ".join(listed) + "]"
    details = object_details(kind, group, name)
    details["causes"] = [
        {"reason": str(cause.type), "message": cause.message, "field": cause.field} for cause in causes
    ]
    return StatusError(422, StatusReason.INVALID, f'{qualified(kind, group)} "{name}" is invalid: {text}', details)


def object_details(resource: str, group: str, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if resource:
        details["kind"] = resource
    return details


def qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource

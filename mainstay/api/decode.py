"""From the body of a request to an object of a kind, and what is to be said about it.

A body is JSON, YAML or protobuf. Whichever it was, what comes out is an object as JSON has it, with `apiVersion` and
`kind`, with only the fields of its kind, each written as the server writes it. What a client sent in vain, fields that
the kind does not have or that were there twice, is an error, a warning, or nothing, as the client wished.

The work is done by the neighbours: json_body.py, yaml_body.py and protobuf.py parse, conform.py looks at the fields.
Here is what they have in common: which one it is, whether the body is of the kind at all, and the words of the answer.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from mainstay.api import json_body, protobuf, schema
from mainstay.api.conform import UNKNOWN_MAX, conform
from mainstay.api.errors import StatusError, StatusReason, bad_request, invalid, invalid_value, quoted
from mainstay.api.kind import Kind, Object
from mainstay.api.object_meta import conform_metadata

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

STRICT: Final = "Strict"
WARN: Final = "Warn"
IGNORE: Final = "Ignore"

_SHOWN_MAX: Final = 30  # Bytes of a body that could not be understood, in the answer.
_ANY_VERSION: Final = "k8s.io.apimachinery.pkg.apis.meta.v1."  # DeleteOptions and the like belong to every version.
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


class DecodedObject(Struct, frozen=True):
    object: Object
    warnings: list[str]
    """For the client to read, in the order in which they were found."""


def decode_body(content_type: str | None, body: bytes, kind: Kind, *, validation: str) -> DecodedObject:
    """The object in a body. Raises `StatusError`: 415 for a format that is not understood, 400 for all else.

    `validation` is `STRICT`, `WARN` or `IGNORE`; that it is one of them is for the caller to check.
    """
    media_type = (content_type or JSON).partition(";")[0].strip().lower()
    if media_type == JSON:
        return _from_json(body, kind, validation)
    if media_type == YAML:
        return _from_yaml(body, kind, validation)
    if media_type == PROTOBUF and _message(kind):
        return _from_protobuf(body, kind, validation)
    raise _unsupported(kind)


def _from_json(body: bytes, kind: Kind, validation: str) -> DecodedObject:
    try:
        parsed = json_body.parse(body)
    except StatusError as error:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {error.message}", body) from None
    claimed = _claimed(parsed.value, kind, body)
    twice: list[str] = []
    if parsed.may_have_duplicates and validation != IGNORE:
        twice = json_body.duplicates(body)
    return _finished(parsed.value, kind, claimed, validation, duplicates=twice)


def _from_yaml(body: bytes, kind: Kind, validation: str) -> DecodedObject:
    # Seldom used, and what it needs takes time to import.
    from mainstay.api.yaml_body import parse_yaml

    try:
        parsed = parse_yaml(body)
    except StatusError as error:
        raise _unrecognized(kind, f"error converting YAML to JSON: {error.message}", body) from None
    claimed = _claimed(parsed.value, kind, body)
    return _finished(parsed.value, kind, claimed, validation, problems=parsed.problems)


def _from_protobuf(body: bytes, kind: Kind, validation: str) -> DecodedObject:
    try:
        api_version, kind_name, raw = protobuf.unwrap(body)
    except StatusError as error:
        raise _unrecognized(kind, error.message, body) from None
    claimed = (api_version or kind.group_version, kind_name or kind.kind)
    _check_kind(kind, *claimed)
    try:
        value = protobuf.decode(kind.message, raw)
    except StatusError as error:
        raise _unhandled(kind, claimed, error.message) from None
    return _finished(value, kind, claimed, validation)


def _claimed(value: Any, kind: Kind, body: bytes) -> tuple[str, str]:
    """The apiVersion and kind that the object says it is; what it does not say is taken from where it was sent."""
    before = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    if not isinstance(value, dict):
        raise _unrecognized(kind, f"{before} {_json_name(value)} into Go value of type {_TYPE_META}", body)
    claimed = []
    for name, otherwise in (("apiVersion", kind.group_version), ("kind", kind.kind)):
        text = value.get(name)
        if not isinstance(text, str | None):
            raise _unrecognized(kind, f"{before} {_json_name(text)} into Go struct field .{name} of type string", body)
        claimed.append(text or otherwise)
    _check_kind(kind, *claimed)
    return claimed[0], claimed[1]


def _check_kind(kind: Kind, api_version: str, kind_name: str) -> None:
    if kind_name == kind.kind:
        if api_version == kind.group_version or kind.message.startswith(_ANY_VERSION):
            return
    elif not kind.message and api_version == kind.group_version:
        raise invalid(kind.kind, kind.group, "", [invalid_value("kind", kind_name, f"must be {kind.kind}")])
    group, _, version = api_version.rpartition("/")
    if kind.message and not schema.find_message(group, version, kind_name):
        words = f'no kind "{kind_name}" is registered for version "{api_version}" in scheme "mainstay"'
        raise _unhandled(kind, (api_version, kind_name), words)
    if kind.message and kind_name != kind.kind:
        internal = kind.group.partition(".")[0] or "core"
        words = f"converting ({version}.{kind_name}) to ({internal}.{kind.kind}): unknown conversion"
        raise _unhandled(kind, (api_version, kind_name), words)
    raise bad_request(
        f"the API version in the data ({api_version}) does not match the expected API version ({kind.group_version})"
    )


def _finished(
    value: Object,
    kind: Kind,
    claimed: tuple[str, str],
    validation: str,
    duplicates: Sequence[str] = (),
    problems: Sequence[str] = (),
) -> DecodedObject:
    try:
        message = _message(kind)
        unknown = conform(value, message) if message else conform_metadata(value)
    except StatusError as error:
        raise _unhandled(kind, claimed, error.message) from None
    value["apiVersion"], value["kind"] = claimed
    if validation == IGNORE or not (unknown or duplicates or problems):
        return DecodedObject(value, [])
    found = describe_unknown(unknown)
    found += [f"duplicate field {quoted(path)}" for path in duplicates if not _is_below(path, unknown)]
    found += problems
    del found[UNKNOWN_MAX:]
    if found and validation == STRICT:
        raise _unhandled(kind, claimed, "strict decoding error: " + ", ".join(found))
    return DecodedObject(value, found)


def describe_unknown(paths: Sequence[str]) -> list[str]:
    """What is said of fields that a kind does not have: of the first of them, if there are many."""
    return [f"unknown field {quoted(path)}" for path in paths[:UNKNOWN_MAX]]


def _message(kind: Kind) -> str:
    # With a message that the tables lack, all fields would be unknown. It is better to keep them all.
    return kind.message if schema.is_message(kind.message) else ""


def _is_below(path: str, unknown: Sequence[str]) -> bool:
    """What is in a field that is not there does not matter."""
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in unknown)


def _unhandled(kind: Kind, claimed: tuple[str, str], problem: str) -> StatusError:
    api_version, kind_name = claimed
    version = api_version.rpartition("/")[2]
    return bad_request(f'{kind_name} in version "{version}" cannot be handled as a {kind.kind}: {problem}')


def _unrecognized(kind: Kind, problem: str, body: bytes) -> StatusError:
    shown = body[:_SHOWN_MAX]
    text = shown.decode(errors="replace") if shown.startswith(b"{") else shown.hex() or "<empty>"
    if len(body) > _SHOWN_MAX:
        text += " ..."
    return bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {problem} ({text})")


def _unsupported(kind: Kind) -> StatusError:
    accepted = [JSON, YAML, PROTOBUF] if _message(kind) else [JSON, YAML]
    words = "the body of the request was in an unknown format - accepted media types include: "
    return StatusError(415, StatusReason.UNSUPPORTED_MEDIA_TYPE, words + ", ".join(accepted))


def _json_name(value: Any) -> str:
    names = {str: "string", bool: "bool", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "number")

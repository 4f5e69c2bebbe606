"""The kind Credential, `mainstay.dev/v1`: the client certificates of one user, and which of them are revoked.

    metadata: {name: "system:node:worker-2"}
    spec:
      revokedBefore: 2026-01-01T12:00:00Z      every certificate that was issued until then is refused; a time in the
                                               future is stored as now
      revokedSerialNumbers: [1f20…]            and these, in hexadecimal
      reason: the machine was sold
    status:
      certificates: …                          what the server has signed for the user, until it expires

The name is that of the user (the common name of the certificates). The server writes the status of users for whom it
signs requests of nodes; for any other user the object is made to revoke something. Servers go by it at every request
(server/auth/revocation.py). Deleting it revokes nothing, and takes back what it revoked.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mainstay.api import kind_names
from mainstay.api.errors import CauseType, StatusCause, forbidden_value, invalid_value, too_long
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.declare import child, declare, set_status
from mainstay.api.times import parse_time

SERIALS_MAX: Final = 1_000
REASON_LENGTH_MAX: Final = 1_024
_SERIAL: Final = re.compile(r"[0-9a-f]{1,40}")


class CredentialSpec(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    revoked_before: str = ""
    revoked_serial_numbers: tuple[str, ...] = ()
    reason: str = ""


class IssuedCertificate(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """An item of `status.certificates` of a Credential."""

    serial_number: str
    key: str
    """The digest of its public key."""
    not_before: str
    not_after: str
    request: str = ""
    """The CertificateSigningRequest that it answers."""
    token: str = ""
    """The id of the bootstrap token that asked for it, if one did."""


class _Status(msgspec.Struct, forbid_unknown_fields=True):
    certificates: tuple[IssuedCertificate, ...] | None = None


def normalize_serial(text: str) -> str:
    """A serial number as a Credential has it: hexadecimal, in lower case, without colons and leading zeros."""
    return text.replace(":", "").lower().lstrip("0")


def _default(new: Object) -> None:
    spec: Any = child(new, "spec")
    serials = spec.get("revokedSerialNumbers") if isinstance(spec, dict) else None
    if isinstance(serials, list):
        spec["revokedSerialNumbers"] = [normalize_serial(each) if isinstance(each, str) else each for each in serials]


def _validate(new: Object, old: Object | None) -> Sequence[StatusCause]:
    try:
        status = msgspec.convert(new.get("status") or {}, _Status)
    except msgspec.ValidationError as error:
        return [_explain("status", error)]
    try:
        spec = msgspec.convert(new["spec"], CredentialSpec)
    except msgspec.ValidationError as error:
        return [_explain("spec", error)]
    causes: list[StatusCause] = []
    for number, issued in enumerate(status.certificates or ()):
        for field, text in (("notBefore", issued.not_before), ("notAfter", issued.not_after)):
            _check_time(text, f"status.certificates[{number}].{field}", causes)
    if len(spec.reason) > REASON_LENGTH_MAX:
        causes.append(too_long("spec.reason", f"may not be more than {REASON_LENGTH_MAX} characters"))
    if len(spec.revoked_serial_numbers) > SERIALS_MAX:
        text = f"must have at most {SERIALS_MAX}; set revokedBefore to revoke all certificates"
        causes.append(invalid_value("spec.revokedSerialNumbers", len(spec.revoked_serial_numbers), text))
    for number, serial in enumerate(spec.revoked_serial_numbers):
        if _SERIAL.fullmatch(serial) is None:
            text = "must be a serial number in hexadecimal, at most 40 digits"
            causes.append(invalid_value(f"spec.revokedSerialNumbers[{number}]", serial, text))
    if spec.revoked_before:
        _check_time(spec.revoked_before, "spec.revokedBefore", causes)
    if old is not None and not causes:
        causes += _find_taken_back(spec, old.get("spec") or {})
    return causes


def _check_time(text: str, path: str, causes: list[StatusCause]) -> None:
    try:
        parse_time(text)
    except ValueError as problem:
        causes.append(invalid_value(path, text, str(problem)))


def _explain(part: str, error: msgspec.ValidationError) -> StatusCause:
    what, _, place = str(error).partition(" - at `$")
    return StatusCause(CauseType.INVALID, part + place.removesuffix("`"), f"Invalid value: {what}")


def _find_taken_back(spec: CredentialSpec, before: Object) -> Sequence[StatusCause]:
    """A revocation stays: a credential that was refused for a while may be used by anyone who got hold of it."""
    causes = []
    had = before.get("revokedBefore") or ""
    if had and (not spec.revoked_before or parse_time(spec.revoked_before) < parse_time(had)):
        causes.append(forbidden_value("spec.revokedBefore", f"may only be moved forward from {had}"))
    missing = sorted(set(before.get("revokedSerialNumbers") or ()) - set(spec.revoked_serial_numbers))
    if missing:
        text = f"a revocation cannot be taken back (removed: {', '.join(missing[:5])}); issue a new certificate"
        causes.append(forbidden_value("spec.revokedSerialNumbers", text))
    return causes


def _prepare(new: Object, old: Object | None) -> None:
    set_status(new, old)


CREDENTIAL: Final = declare(
    kind_names.CREDENTIALS,
    categories=("mainstay",),
    subresources=(STATUS,),
    defaults=_default,
    prepare=_prepare,
    validate=_validate,
    name_rule="path",
)

KINDS: Final = (CREDENTIAL,)

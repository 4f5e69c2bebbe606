"""CertificateSigningRequest, `certificates.k8s.io/v1`: a client asks for a certificate, others approve and sign it.

The spec is as the client sent it and never changes; who asks is filled in by the server (server/auth/signing_point.py).
Decisions are conditions of the status: `Approved` and `Denied` exclude each other and stay, `Failed` says that a signer
could not sign. They are written through `approval`, the certificate through `status`.

Here is what can be said of the fields. What is inside a request is looked at where it is signed (server/auth/).
"""

import binascii
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mainstay.api import kind_names, names
from mainstay.api.errors import (
    StatusCause,
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
)
from mainstay.api.kind import STATUS, Object, Subresource
from mainstay.api.kinds.declare import at, builtin, child

APPROVED: Final = "Approved"
DENIED: Final = "Denied"
FAILED: Final = "Failed"
DECISIONS: Final = (APPROVED, DENIED)
"""Conditions that say what an approver has decided."""

EXPIRATION_S_MIN: Final = 600
_SIGNER_LENGTH_MAX: Final = 571
_CONDITIONS_MAX: Final = 64
_USAGES: Final = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_ASKER: Final = ("username", "uid", "groups", "extra")
"""Fields of the spec that the server fills in."""


def find_condition(request: Mapping[str, Any], type_: str) -> Object | None:
    conditions = (request.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == type_), None)


def _default(new: Object) -> None:
    child(new, "spec")
    for condition in (new.get("status") or {}).get("conditions") or ():
        if not condition.get("status"):
            condition["status"] = "True"


def _prepare(new: Object, old: Object | None) -> None:
    if old is not None:
        new["spec"] = old["spec"]
        return
    new["status"] = {}
    for field in _ASKER:
        new["spec"].pop(field, None)


def _validate(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    if old is None:
        _check_spec(new["spec"], causes)
    _check_conditions((new.get("status") or {}).get("conditions") or (), causes)
    before = ((old or {}).get("status") or {}).get("certificate")
    if before and (new.get("status") or {}).get("certificate") != before:
        causes.append(forbidden_value("status.certificate", "updates may not change an issued certificate"))
    for type_ in (APPROVED, DENIED, FAILED):
        if old is not None and find_condition(old, type_) is not None and find_condition(new, type_) is None:
            causes.append(forbidden_value("status.conditions", f"updates may not remove a condition of type {type_}"))
    return causes


def _check_spec(spec: Object, causes: list[StatusCause]) -> None:
    if not spec.get("request"):
        causes.append(required("spec.request", "must be a PEM block of type CERTIFICATE REQUEST"))
    elif (why := _find_request_problem(spec["request"])) != "":
        causes.append(invalid_value("spec.request", spec["request"][:64], why))
    usages = spec.get("usages") or []
    if not usages:
        causes.append(required("spec.usages", "usages must be set"))
    for number, usage in enumerate(usages):
        if usage not in _USAGES:
            causes.append(not_supported(f"spec.usages[{number}]", usage, _USAGES))
        if usage in usages[:number]:
            causes.append(duplicate(f"spec.usages[{number}]", usage))
    _check_signer(spec.get("signerName") or "", causes)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < EXPIRATION_S_MIN:
        text = f"may not specify a duration less than {EXPIRATION_S_MIN} seconds (10 minutes)"
        causes.append(invalid_value("spec.expirationSeconds", seconds, text))


def _find_request_problem(text: str) -> str:
    try:
        decoded = b64decode(text, validate=True).strip()
    except (binascii.Error, ValueError):
        return "must be base64"
    if not decoded.startswith(b"-----BEGIN CERTIFICATE REQUEST-----"):
        return "PEM block type must be CERTIFICATE REQUEST"
    return ""


def _check_signer(name: str, causes: list[StatusCause]) -> None:
    path = "spec.signerName"
    if not name:
        causes.append(required(path))
        return
    domain, slash, rest = name.partition("/")
    if not slash or not rest or len(name) > _SIGNER_LENGTH_MAX:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        causes.append(invalid_value(path, name, text))
        return
    problems = [*names.subdomain(domain), *names.subdomain(rest)]
    if "." not in domain:
        problems.append("should be a domain with at least two segments separated by dots")
    causes += [invalid_value(path, name, problem) for problem in problems]


def _check_conditions(conditions: Sequence[Object], causes: list[StatusCause]) -> None:
    if len(conditions) > _CONDITIONS_MAX:
        causes.append(invalid_value("status.conditions", len(conditions), f"must have at most {_CONDITIONS_MAX}"))
    seen: list[str] = []
    for number, condition in enumerate(conditions):
        path, type_ = f"status.conditions[{number}]", condition.get("type") or ""
        if not type_:
            causes.append(required(f"{path}.type"))
        if type_ in (APPROVED, DENIED, FAILED) and condition.get("status") != "True":
            causes.append(not_supported(f"{path}.status", condition.get("status") or "", ["True"]))
        if type_ in seen:
            causes.append(duplicate(f"{path}.type", type_))
        other = {APPROVED: DENIED, DENIED: APPROVED}.get(type_)
        if other in seen:
            text = "Approved and Denied conditions are mutually exclusive"
            causes.append(invalid_value(f"{path}.type", type_, text))
        seen.append(type_)


SIGNING_REQUEST = builtin(
    kind_names.SIGNING_REQUESTS,
    short_names=("csr",),
    subresources=(Subresource("approval", ("get", "patch", "update")), STATUS),
    defaults=_default,
    prepare=_prepare,
    validate=_validate,
    selectable={"spec.signerName": at("spec", "signerName")},
    has_generation=False,
)

KINDS = (SIGNING_REQUEST,)

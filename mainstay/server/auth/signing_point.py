"""Signing requests, when they are written: who asks, whether that is granted at once, and the certificate.

A CommitPoint: everything is decided and signed in the transaction that makes or approves the request. So a certificate
of a node is issued together with the record of it in the node's Credential, on condition that neither has changed, nor
the Node, nor the bootstrap token: whatever else happens at the same time, at this server or another one, node_claims.py
has decided on what is true at the commit.

    made by a bootstrap token or the node itself     approved and signed at once, or refused (403), with the reason
    made by anyone else                              waits for `kubectl certificate approve`; then it is signed
    for a signer that is not one of ours             is stored; others approve and sign

Approving takes the right to `approve` the `signers` of that name, signing from outside the right to `sign`, as in
Kubernetes.
"""

from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from mainstay.api import names, times
from mainstay.api.errors import StatusError, forbidden, invalid, invalid_value
from mainstay.api.kind import Object
from mainstay.api.kinds.certificates import APPROVED, DECISIONS, FAILED, find_condition
from mainstay.api.kinds.credentials import CREDENTIAL, IssuedCertificate
from mainstay.api.signer_names import CLIENT_SIGNER, NODE_CLIENT_SIGNER
from mainstay.env import Env
from mainstay.server.auth.authorization import AccessAttributes, Authorizers, User, agent_in
from mainstay.server.auth.bootstrap_tokens import build_token_key, find_token_id, parse_token
from mainstay.server.auth.node_claims import (
    NO_CREDENTIAL,
    AdministratorClaim,
    Claimant,
    ClaimRefused,
    KnownCredential,
    NodeClaim,
    TokenClaim,
    decide_claim,
    parse_credential,
)
from mainstay.server.auth.request_signer import (
    SERIAL_BITS,
    SIGNERS,
    BadSigningRequest,
    ParsedRequest,
    RequestSigner,
    SignedCertificate,
    find_problem,
    find_validity,
    parse_request,
)
from mainstay.server.storage.commit_points import NOTHING, Intended, TransactionParts
from mainstay.server.storage.keyspace import CORE, build_key
from mainstay.server.storage.stored import stored
from mainstay.store.interface import ABSENT, Check, Entry, Put, Store

_GROUP: Final = "certificates.k8s.io"
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class _Record:
    """The Credential of a user."""

    key: str
    entry: Entry | None
    known: KnownCredential

    @property
    def check(self) -> Check:
        return Check(self.key, ABSENT if self.entry is None else self.entry.revision)


class SigningPoint:
    """Implements `CommitPoint`, of CertificateSigningRequests. Without a signer nothing is signed."""

    def __init__(self, store: Store, env: Env, signer: RequestSigner | None, authorizers: Authorizers) -> None:
        self._store = store
        self._clock = env.clock
        self._chance = env.chance
        self._signer = signer
        self._authorizers = authorizers

    def applies_to(self, intended: Intended) -> bool:
        return intended.new is not None

    async def parts_for(self, intended: Intended) -> TransactionParts:
        new, old = intended.new, intended.old
        if new is None:
            raise AssertionError("this point is for what is stored")
        asked = intended.context.asked
        user = None if asked is None else asked.call.user
        if old is None:
            return await self._begin(new, user)
        if intended.subresource == "status":
            return self._keep_decisions(new, old, user)
        if intended.subresource == "approval":
            return await self._approve(new, old, user)
        return NOTHING

    # Made.

    async def _begin(self, new: Object, user: User | None) -> TransactionParts:
        spec = {**new["spec"], **({} if user is None else _describe_asker(user))}
        made = {**new, "spec": spec}
        name, signer = new["metadata"]["name"], spec["signerName"]
        request = _parse(name, spec)
        if signer not in SIGNERS:
            return TransactionParts(object=made)
        if problem := find_problem(signer, request, spec["usages"]):
            raise _invalid(name, problem)
        claimant = None if user is None or signer != NODE_CLIENT_SIGNER else _find_claimant(user, request)
        if claimant is None or self._signer is None:
            return TransactionParts(object=made)
        checks = []
        if isinstance(claimant, TokenClaim):
            entry = await self._store.get(build_token_key(claimant.id))
            token = None if entry is None else parse_token(entry)
            if entry is None or token is None or token.is_expired(self._clock.wall()):
                raise forbidden(_PLURAL, _GROUP, name, f"the bootstrap token {claimant.id} has expired or was revoked")
            claimant = replace(claimant, node=token.node)
            checks.append(Check(entry.key, entry.revision))
        text = "AutoApproved", f"approved by the server: requested by {claimant_text(claimant)}"
        issued = await self._issue(made, request, claimant, self._signer)
        approved = self._decide_condition(issued.object or made, APPROVED, *text)
        return TransactionParts((*checks, *issued.checks), issued.writes, object=approved)

    # Approved, or signed by others.

    async def _approve(self, new: Object, old: Object, user: User | None) -> TransactionParts:
        name, spec = new["metadata"]["name"], new["spec"]
        if user is not None:
            self._require(user, "approve", name, spec["signerName"])
        now = times.format_time(self._clock.wall())
        decided = _with_times(new, old, now)
        is_approved = find_condition(new, APPROVED) is not None and find_condition(old, APPROVED) is None
        if not is_approved or spec["signerName"] not in SIGNERS or self._signer is None:
            return TransactionParts(object=decided)
        if (new.get("status") or {}).get("certificate"):
            return TransactionParts(object=decided)
        try:
            request = _parse(name, spec)
        except StatusError as error:
            return TransactionParts(object=self._decide_condition(decided, FAILED, "InvalidRequest", error.message))
        if problem := find_problem(spec["signerName"], request, spec["usages"]):
            return TransactionParts(object=self._decide_condition(decided, FAILED, "SignerValidationFailure", problem))
        return await self._issue(decided, request, AdministratorClaim(), self._signer)

    def _keep_decisions(self, new: Object, old: Object, user: User | None) -> TransactionParts:
        """Through the status, a signer writes the certificate: what approvers have decided stays."""
        name, signer = new["metadata"]["name"], new["spec"]["signerName"]
        if user is not None:
            self._require(user, "sign", name, signer)
        status = new.get("status") or {}
        own = [each for each in status.get("conditions") or () if each.get("type") not in DECISIONS]
        kept = [found for each in DECISIONS if (found := find_condition(old, each)) is not None]
        kept_status = {**status, "conditions": [*kept, *own]}
        if not kept_status["conditions"]:
            del kept_status["conditions"]
        return TransactionParts(object={**new, "status": kept_status})

    def _require(self, user: User, verb: str, name: str, signer: str) -> None:
        domain = signer.partition("/")[0]
        asked = [AccessAttributes(verb, _GROUP, "signers", name=each) for each in (signer, f"{domain}/*")]
        if not any(self._authorizers.decide(user, each).allowed for each in asked):
            text = f'user "{user.name}" is not permitted to {verb} requests with signerName "{signer}"'
            raise forbidden(_PLURAL, _GROUP, name, text)

    # Issued.

    async def _issue(
        self, obj: Object, request: ParsedRequest, claimant: Claimant, signer: RequestSigner
    ) -> TransactionParts:
        """The request with its certificate, and the record of it."""
        name, signer_name = obj["metadata"]["name"], obj["spec"]["signerName"]
        now = self._clock.wall()
        checks: list[Check] = []
        revokes: tuple[str, ...] = ()
        record = await self._read_record(request.user) if signer_name in (NODE_CLIENT_SIGNER, CLIENT_SIGNER) else None
        known = NO_CREDENTIAL if record is None else record.known
        if signer_name == NODE_CLIENT_SIGNER:
            node = await self._store.get(f"{CORE}/nodes/{request.node}")
            verdict = decide_claim(request.node, request.key_digest, claimant, known, node is not None, now)
            if isinstance(verdict, ClaimRefused):
                cause = {"reason": verdict.reason.value, "message": verdict.message, "field": "spec.request"}
                raise forbidden(_PLURAL, _GROUP, name, verdict.message, [cause])
            revokes = verdict.revokes
            if node is None:
                checks.append(Check(f"{CORE}/nodes/{request.node}", ABSENT))
        asked_s = obj["spec"].get("expirationSeconds")
        validity = find_validity(now, signer.lifetime, asked_s, known.revoked_before)
        serial = self._chance.stream("certificate", obj["metadata"]["uid"]).getrandbits(SERIAL_BITS) | 1
        signed = signer.sign(request, signer_name, validity, serial)
        certificate = b64encode(signed.pem.encode("ascii")).decode("ascii")
        made = {**obj, "status": {**(obj.get("status") or {}), "certificate": certificate}}
        if record is None:
            return TransactionParts(tuple(checks), object=made)
        token = claimant.id if isinstance(claimant, TokenClaim) else ""
        issued = _describe(signed, request, name, token)
        value = self._build_record(record, request.user, issued, revokes, now)
        return TransactionParts((*checks, record.check), (Put(record.key, value),), object=made)

    async def _read_record(self, user: str) -> _Record | None:
        if names.path_segment(user):  # It cannot be the name of an object.
            return None
        key = build_key(CREDENTIAL, "", user)
        entry = await self._store.get(key)
        return _Record(key, entry, NO_CREDENTIAL if entry is None else parse_credential(_decode(entry.value)))

    def _build_record(
        self, record: _Record, user: str, issued: IssuedCertificate, revokes: tuple[str, ...], now: datetime
    ) -> bytes:
        if record.entry is None:
            uid = self._chance.uid(f"credential of {issued.serial_number}", 0)
            created = times.format_time(now)
            metadata = {"name": user, "uid": uid, "creationTimestamp": created, "generation": 1}
            found: Object = {"metadata": metadata, "spec": {}}
        else:
            found = _decode(record.entry.value)
        spec: dict[str, Any] = dict(found.get("spec") or {})
        if revokes:
            spec["revokedSerialNumbers"] = sorted({*(spec.get("revokedSerialNumbers") or ()), *revokes})
            generation = found["metadata"].get("generation", 1) + (record.entry is not None)
            found = {**found, "metadata": {**found["metadata"], "generation": generation}}
        certificates = [msgspec.to_builtins(each) for each in (*record.known.list_unexpired(now), issued)]
        return stored({**found, "spec": spec, "status": {"certificates": certificates}})

    def _decide_condition(self, obj: Object, type_: str, reason: str, message: str) -> Object:
        now = times.format_time(self._clock.wall())
        condition = {"type": type_, "status": "True", "reason": reason, "message": message}
        condition |= {"lastUpdateTime": now, "lastTransitionTime": now}
        status = obj.get("status") or {}
        return {**obj, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}


class CredentialPoint:
    """Implements `CommitPoint`, of Credentials: a revocation counts from now on, by the clock of the server."""

    def __init__(self, env: Env) -> None:
        self._clock = env.clock

    def applies_to(self, intended: Intended) -> bool:
        return intended.new is not None and bool(intended.new["spec"].get("revokedBefore"))

    async def parts_for(self, intended: Intended) -> TransactionParts:
        new = intended.new
        if new is None:
            raise AssertionError("this point is for what is stored")
        now = self._clock.wall()
        if times.parse_time(new["spec"]["revokedBefore"]) <= now:
            return NOTHING
        return TransactionParts(object={**new, "spec": {**new["spec"], "revokedBefore": times.format_time(now)}})


_PLURAL: Final = "certificatesigningrequests"


def claimant_text(claimant: Claimant) -> str:
    match claimant:
        case TokenClaim(id=token):
            return f"bootstrap token {token}"
        case NodeClaim():
            return "the node itself"
        case AdministratorClaim():
            return "an administrator"


def _find_claimant(user: User, request: ParsedRequest) -> Claimant | None:
    if token := find_token_id(user):
        return TokenClaim(token)
    node = agent_in(user)
    return NodeClaim() if node and node == request.node else None


def _parse(name: str, spec: Object) -> ParsedRequest:
    try:
        return parse_request(b64decode(spec["request"]))
    except BadSigningRequest as error:
        raise _invalid(name, str(error)) from None


def _invalid(name: str, problem: str) -> StatusError:
    cause = invalid_value("spec.request", "<certificate request>", problem)
    return invalid("CertificateSigningRequest", _GROUP, name, [cause])


def _describe_asker(user: User) -> Object:
    asker: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        asker["uid"] = user.uid
    if user.extra:
        asker["extra"] = {name: list(values) for name, values in user.extra}
    return asker


def _describe(signed: SignedCertificate, request: ParsedRequest, name: str, token: str) -> IssuedCertificate:
    begin, end = times.format_time(signed.not_before), times.format_time(signed.not_after)
    return IssuedCertificate(signed.serial, request.key_digest, begin, end, name, token)


def _with_times(new: Object, old: Object, now: str) -> Object:
    """The conditions with the times at which they were written."""
    status = new.get("status") or {}
    conditions = []
    for each in status.get("conditions") or ():
        before = find_condition(old, each["type"])
        is_new = before is None or before.get("status") != each.get("status")
        since = now if is_new else (before or {}).get("lastTransitionTime")
        conditions.append({**each, "lastUpdateTime": each.get("lastUpdateTime") or now, "lastTransitionTime": since})
    return {**new, "status": {**status, "conditions": conditions}} if conditions else new

"""Which machine may be a node: whether a request for the certificate of a node is granted. Pure.

The promise: no two machines have a valid certificate of one node. A machine is known by its key, which it makes itself
and keeps; so what was issued for a node is on record with the digest of its key (the status of its Credential), and
that record is written in the transaction that issues.

    who asks                      for                                    granted
    a bootstrap token             a node that does not exist, and has    yes
                                  no valid certificate
                                  the same key as before                 yes: an answer was lost, and it asks again
                                  any other node                         no
    a token for this node         whatever there is                      yes, once: what others have of it is revoked
    the agent of this node        a new key                              yes, unless its credential was revoked
    an administrator (approval)   any node                               yes: what others have of it is revoked
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, assert_never

import msgspec

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kinds.credentials import IssuedCertificate


@dataclass(frozen=True, slots=True)
class KnownCredential:
    """What a Credential says."""

    revoked_before: datetime | None = None
    revoked_serials: frozenset[str] = frozenset()
    certificates: tuple[IssuedCertificate, ...] = ()

    def list_unexpired(self, now: datetime) -> tuple[IssuedCertificate, ...]:
        return tuple(each for each in self.certificates if times.parse_time(each.not_after) > now)

    def list_valid(self, now: datetime) -> tuple[IssuedCertificate, ...]:
        return tuple(each for each in self.list_unexpired(now) if not self._is_revoked(each))

    def _is_revoked(self, issued: IssuedCertificate) -> bool:
        is_old = self.revoked_before is not None and times.parse_time(issued.not_before) <= self.revoked_before
        return is_old or issued.serial_number in self.revoked_serials


NO_CREDENTIAL = KnownCredential()


def parse_credential(found: Object) -> KnownCredential:
    spec: dict[str, Any] = found.get("spec") or {}
    before = spec.get("revokedBefore")
    issued = msgspec.convert((found.get("status") or {}).get("certificates") or (), tuple[IssuedCertificate, ...])
    serials = frozenset(spec.get("revokedSerialNumbers") or ())
    return KnownCredential(times.parse_time(before) if before else None, serials, issued)


@dataclass(frozen=True, slots=True)
class TokenClaim:
    id: str
    node: str = ""
    """The only node that the token is for."""


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """Its own agent, by a certificate of the node."""


@dataclass(frozen=True, slots=True)
class AdministratorClaim:
    """A user who may approve requests for this signer."""


Claimant = TokenClaim | NodeClaim | AdministratorClaim


@dataclass(frozen=True, slots=True)
class ClaimGranted:
    revokes: tuple[str, ...] = ()
    """Serial numbers of certificates that other machines have."""


class ClaimRefusal(StrEnum):
    """Why not. Shown to users: only add."""

    OTHER_NODE = "TokenForOtherNode"
    """The bootstrap token is for another node."""
    TOKEN_USED = "TokenUsed"
    """Another machine has joined as this node with the token, which replaces a machine once."""
    NODE_EXISTS = "NodeExists"
    """There is a Node of this name, and the token is for new nodes."""
    NAME_TAKEN = "NameTaken"
    """Another machine has a valid certificate of this node."""
    REVOKED = "CredentialRevoked"
    """The node asks for a new certificate, and its credential was revoked."""


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    reason: ClaimRefusal
    message: str


def decide_claim(
    node: str, key: str, claimant: Claimant, known: KnownCredential, node_exists: bool, now: datetime
) -> ClaimGranted | ClaimRefused:
    """Whether a machine with this key gets a certificate of this node."""
    valid = known.list_valid(now)
    others = tuple(each for each in valid if each.key != key)
    match claimant:
        case AdministratorClaim():
            return ClaimGranted(_list_serials(others))
        case NodeClaim():
            return _decide_rotation(node, known, valid)
        case TokenClaim() as token if token.node:
            return _decide_for_node(node, token, others)
        case TokenClaim():
            return _decide_new(node, key, valid, others, node_exists)
        case _:
            assert_never(claimant)


def _decide_rotation(
    node: str, known: KnownCredential, valid: Sequence[IssuedCertificate]
) -> ClaimGranted | ClaimRefused:
    # One that was issued with the key of the authority itself, as `mainstay up` does, is not on record.
    was_revoked = known.revoked_before is not None or bool(known.revoked_serials)
    if not valid and was_revoked:
        text = f'the credential of node "{node}" was revoked: join again with a new token'
        return ClaimRefused(ClaimRefusal.REVOKED, text)
    return ClaimGranted()


def _decide_for_node(node: str, token: TokenClaim, others: Sequence[IssuedCertificate]) -> ClaimGranted | ClaimRefused:
    if token.node != node:
        text = f'the bootstrap token {token.id} is for node "{token.node}": join with --name {token.node}'
        return ClaimRefused(ClaimRefusal.OTHER_NODE, text)
    if any(each.token == token.id for each in others):
        text = f'another machine has joined as node "{node}" with the bootstrap token {token.id}'
        return ClaimRefused(ClaimRefusal.TOKEN_USED, f"{text}: create another token if this machine is to replace it")
    return ClaimGranted(_list_serials(others))


def _decide_new(
    node: str,
    key: str,
    valid: Sequence[IssuedCertificate],
    others: Sequence[IssuedCertificate],
    node_exists: bool,
) -> ClaimGranted | ClaimRefused:
    if not others and any(each.key == key for each in valid):
        return ClaimGranted()
    advice = f"choose another --name, remove it (mainstay node remove {node}), or join with a token for it"
    advice = f"{advice} (mainstay token create --node {node})"
    if node_exists:
        return ClaimRefused(ClaimRefusal.NODE_EXISTS, f'node "{node}" exists already: {advice}')
    if others:
        until = max(each.not_after for each in others)
        text = f'another machine has a certificate of node "{node}" until {until}: {advice}'
        return ClaimRefused(ClaimRefusal.NAME_TAKEN, text)
    return ClaimGranted()


def _list_serials(issued: Iterable[IssuedCertificate]) -> tuple[str, ...]:
    return tuple(each.serial_number for each in issued)

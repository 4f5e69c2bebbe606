"""Which machine may be a node, on the bare function."""

from datetime import UTC, datetime

import pytest

from mainstay.api.kinds.credentials import IssuedCertificate
from mainstay.server.auth.node_claims import (
    NO_CREDENTIAL,
    AdministratorClaim,
    Claimant,
    ClaimGranted,
    ClaimRefusal,
    ClaimRefused,
    KnownCredential,
    NodeClaim,
    TokenClaim,
    decide_claim,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TOKEN = TokenClaim("abcdef")
FOR_NODE = TokenClaim("fedcba", "w")


def issued(key: str, serial: str = "1", token: str = "abcdef", year: int = 2027) -> IssuedCertificate:
    return IssuedCertificate(serial, key, "2026-05-01T00:00:00Z", f"{year}-01-01T00:00:00Z", token=token)


KNOWN = KnownCredential(certificates=(issued("mine"),))
EXPIRED = KnownCredential(certificates=(issued("mine", year=2026),))
REVOKED = KnownCredential(revoked_before=NOW, certificates=(issued("mine"),))
BY_SERIAL = KnownCredential(revoked_serials=frozenset({"1"}), certificates=(issued("mine"),))
REPLACED = KnownCredential(certificates=(issued("mine"), issued("other", "2", "fedcba")))


@pytest.mark.parametrize(
    ("claimant", "key", "known", "node_exists", "verdict"),
    [
        (TOKEN, "mine", NO_CREDENTIAL, False, ClaimGranted()),
        (TOKEN, "mine", NO_CREDENTIAL, True, ClaimRefusal.NODE_EXISTS),
        (TOKEN, "mine", KNOWN, False, ClaimGranted()),
        (TOKEN, "mine", KNOWN, True, ClaimGranted()),  # The answer was lost, and the agent has registered meanwhile.
        (TOKEN, "other", KNOWN, False, ClaimRefusal.NAME_TAKEN),
        (TOKEN, "other", EXPIRED, False, ClaimGranted()),
        (TOKEN, "other", REVOKED, False, ClaimGranted()),
        (TOKEN, "other", BY_SERIAL, False, ClaimGranted()),
        (TOKEN, "mine", REPLACED, True, ClaimRefusal.NODE_EXISTS),
        (FOR_NODE, "mine", NO_CREDENTIAL, True, ClaimGranted()),
        (FOR_NODE, "other", KNOWN, True, ClaimGranted(("1",))),
        (FOR_NODE, "third", REPLACED, True, ClaimRefusal.TOKEN_USED),
        (TokenClaim("fedcba", "v"), "mine", NO_CREDENTIAL, False, ClaimRefusal.OTHER_NODE),
        (NodeClaim(), "new", KNOWN, True, ClaimGranted()),
        (NodeClaim(), "new", NO_CREDENTIAL, True, ClaimGranted()),  # Its certificate came from `mainstay up`.
        (NodeClaim(), "new", REVOKED, True, ClaimRefusal.REVOKED),
        (NodeClaim(), "new", BY_SERIAL, True, ClaimRefusal.REVOKED),
        (AdministratorClaim(), "other", KNOWN, True, ClaimGranted(("1",))),
        (AdministratorClaim(), "mine", KNOWN, True, ClaimGranted()),
    ],
)
def test_who_gets_a_certificate_of_a_node(
    claimant: Claimant, key: str, known: KnownCredential, node_exists: bool, verdict: ClaimGranted | ClaimRefusal
):
    found = decide_claim("w", key, claimant, known, node_exists, NOW)
    assert (found.reason if isinstance(found, ClaimRefused) else found) == verdict

"""Bugs by which two machines would be one node, a revoked credential would go on, or a token outlive its time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from mainstay.server.auth import node_claims, request_signer, signing_point
from mainstay.server.auth.bootstrap_tokens import BootstrapToken
from mainstay.server.auth.node_claims import ClaimGranted
from mainstay.server.auth.request_signer import Validity
from mainstay.server.auth.revocation import RevocationFollower
from mainstay.server.auth.signing_point import SigningPoint
from mainstay.server.storage.commit_points import Intended, TransactionParts
from mainstay.store.interface import Entry

Twin = Callable[[pytest.MonkeyPatch], None]
_RECORDS = "mainstay.dev/credentials/"


def issues_whatever_became_of_the_record(patch: pytest.MonkeyPatch) -> None:
    """The commit is not conditional on what was read: two machines ask at two servers at the same moment."""

    async def parts_for(self: SigningPoint, intended: Intended) -> TransactionParts:
        parts = await honest(self, intended)
        checks = [each for each in parts.checks if not each.key.startswith(_RECORDS)]
        return TransactionParts(checks, parts.writes, parts.shared, parts.object)

    honest = SigningPoint.parts_for
    patch.setattr(SigningPoint, "parts_for", parts_for)


def looks_only_whether_the_node_is_there(patch: pytest.MonkeyPatch) -> None:
    """As Kubernetes would if it looked at all: what was issued before the node registers is forgotten."""

    def decide(node: str, key: str, valid: Any, others: Any, node_exists: bool) -> Any:
        return honest(node, key, [each for each in valid if each.key == key], (), node_exists)

    honest = node_claims._decide_new
    patch.setattr(node_claims, "_decide_new", decide)


def replaces_a_machine_without_revoking_it(patch: pytest.MonkeyPatch) -> None:
    def decide(*given: Any) -> Any:
        verdict = honest(*given)
        return replace(verdict, revokes=()) if isinstance(verdict, ClaimGranted) else verdict

    honest = node_claims.decide_claim
    patch.setattr(signing_point, "decide_claim", decide)


def hears_of_no_revocation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RevocationFollower, "_take", lambda self, change: None)


def forgets_revocations_when_it_restarts(patch: pytest.MonkeyPatch) -> None:
    def reset(self: RevocationFollower, entries: Sequence[Entry]) -> None:
        return None

    patch.setattr(RevocationFollower, "_reset", reset)


def revokes_what_is_issued_later(patch: pytest.MonkeyPatch) -> None:
    def find(now: datetime, lifetime: Any, asked_s: int | None, revoked_before: datetime | None) -> Validity:
        return honest(now, lifetime, asked_s, None)

    honest = request_signer.find_validity
    patch.setattr(signing_point, "find_validity", find)


def accepts_tokens_that_have_expired(patch: pytest.MonkeyPatch) -> None:
    def is_expired(self: BootstrapToken, now: datetime) -> bool:
        return False

    patch.setattr(BootstrapToken, "is_expired", is_expired)


def signs_for_tokens_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    """The token is looked at when the request comes, and not when it is committed."""

    async def parts_for(self: SigningPoint, intended: Intended) -> TransactionParts:
        parts = await honest(self, intended)
        checks = [each for each in parts.checks if not each.key.startswith("core/secrets/")]
        return TransactionParts(checks, parts.writes, parts.shared, parts.object)

    honest = SigningPoint.parts_for
    patch.setattr(SigningPoint, "parts_for", parts_for)

"""Removes what is over: bootstrap tokens, signing requests, and records of certificates.

    bootstrap token              when it has expired
    CertificateSigningRequest    an hour after it was decided, a day after it was made; as in Kubernetes
    Credential                   when all its certificates have expired, unless it revokes something

Several servers may do so at a time. What changes meanwhile stays.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kinds.certificates import APPROVED, DENIED, FAILED, SIGNING_REQUEST, find_condition
from mainstay.env import Clock, tasks
from mainstay.server.auth.bootstrap_tokens import KEYS, parse_token
from mainstay.server.auth.node_claims import parse_credential
from mainstay.server.auth.revocation import PREFIX
from mainstay.server.storage.keyspace import build_prefix
from mainstay.store.errors import StoreError
from mainstay.store.interface import Check, DeleteEntry, Entry, Store

CLEANED_EVERY: Final = timedelta(minutes=1)
DECIDED_KEPT_FOR: Final = timedelta(hours=1)
PENDING_KEPT_FOR: Final = timedelta(days=1)
PAGE_ENTRIES: Final = 500

_log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder().decode


class ExpiredCredentials:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        while True:
            await tasks.sleep(CLEANED_EVERY)
            try:
                await self.clean()
            except StoreError as error:
                _log.warning("cannot remove expired credentials; retrying in %s: %s", CLEANED_EVERY, error)

    async def clean(self) -> None:
        """Raises `StoreError`."""
        for prefix, is_over in _RULES.items():
            await self._clean(prefix, is_over)

    async def _clean(self, prefix: str, is_over: "IsOver") -> None:
        after = ""
        while True:
            page = await self._store.range(prefix, limit=PAGE_ENTRIES, after=after or None)
            now = self._clock.wall()
            for entry in page.entries:
                if _judge(is_over, entry, now):
                    await self._store.commit([Check(entry.key, entry.revision)], [DeleteEntry(entry.key)])
            if not page.remaining:
                return
            after = page.entries[-1].key


def _judge(is_over: "IsOver", entry: Entry, now: datetime) -> bool:
    """What cannot be read stays: an older server, or a hand in the store, has written it."""
    try:
        return is_over(entry, now)
    except (ValueError, KeyError, msgspec.MsgspecError) as error:
        _log.warning("cannot tell whether %s has expired: %s", entry.key, error)
        return False


IsOver = Callable[[Entry, datetime], bool]


def is_token_over(entry: Entry, now: datetime) -> bool:
    token = parse_token(entry)
    return token is not None and token.is_expired(now)


def is_request_over(entry: Entry, now: datetime) -> bool:
    request: Object = _decode(entry.value)
    metadata = request["metadata"]
    if metadata.get("finalizers"):
        return False
    if now - times.parse_time(metadata["creationTimestamp"]) > PENDING_KEPT_FOR:
        return True
    decided = [found for each in (APPROVED, DENIED, FAILED) if (found := find_condition(request, each)) is not None]
    at = [each["lastUpdateTime"] for each in decided if each.get("lastUpdateTime")]
    return bool(at) and now - max(map(times.parse_time, at)) > DECIDED_KEPT_FOR


def is_credential_over(entry: Entry, now: datetime) -> bool:
    found: Object = _decode(entry.value)
    known = parse_credential(found)
    revokes = known.revoked_before is not None or bool(known.revoked_serials)
    is_used = bool(known.list_unexpired(now)) or not known.certificates
    return not revokes and not is_used and not found["metadata"].get("finalizers")


_RULES: Final[dict[str, IsOver]] = {
    KEYS: is_token_over,
    build_prefix(SIGNING_REQUEST): is_request_over,
    PREFIX: is_credential_over,
}

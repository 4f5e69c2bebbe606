"""Bootstrap tokens: with which a machine that is no node yet asks for a certificate, as in Kubernetes.

A token is `ID.SECRET`, six and sixteen characters. It is a Secret `bootstrap-token-ID` of the type
`bootstrap.kubernetes.io/token` in kube-system, and its holder is the user `system:bootstrap:ID` in the group
`system:bootstrappers`. The key `node-name`, which is ours, makes it a token for one node (signing_point.py).

A token ends when its Secret is deleted or its `expiration` has come. The Secret is read with every request, so either
counts at once, at every server. What has expired is removed by expired_credentials.py.
"""

import base64
import binascii
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from mainstay.api import times
from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import Clock
from mainstay.server.auth.authorization import BOOTSTRAPPERS, User, add_authenticated
from mainstay.server.storage.keyspace import CORE
from mainstay.store.errors import StoreError
from mainstay.store.interface import Entry, Store

NAMESPACE: Final = "kube-system"
SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"
NAME_PREFIX: Final = "bootstrap-token-"
USER_PREFIX: Final = "system:bootstrap:"
TOKENS_READ_MAX: Final = 1_000

_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP_NAME: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
KEYS: Final = f"{CORE}/secrets/{NAMESPACE}/{NAME_PREFIX}"


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """What a Secret says of a token."""

    id: str
    secret: str
    expires: datetime | None
    can_authenticate: bool
    groups: tuple[str, ...]
    node: str
    """The only node that it is for. Empty: any that does not exist yet."""

    def is_expired(self, now: datetime) -> bool:
        return self.expires is not None and self.expires <= now

    @property
    def user(self) -> User:
        return add_authenticated(User(USER_PREFIX + self.id, (BOOTSTRAPPERS, *self.groups)))


class _Metadata(msgspec.Struct):
    deletion: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _Secret(msgspec.Struct):
    metadata: _Metadata
    type: str = ""
    data: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Secret).decode


def build_token_key(token_id: str) -> str:
    """Where the Secret of a token is in the store."""
    return KEYS + token_id


def find_token_id(user: User) -> str:
    """The token that a user has shown; empty for all others."""
    return (
        user.name.removeprefix(USER_PREFIX)
        if BOOTSTRAPPERS in user.groups and user.name.startswith(USER_PREFIX)
        else ""
    )


def parse_token(entry: Entry) -> BootstrapToken | None:
    """The token of a Secret. None if it is none, or not a whole one: that is refused, as an unknown token is."""
    try:
        found = _decode(entry.value)
        data = {name: base64.b64decode(value, validate=True).decode() for name, value in (found.data or {}).items()}
        expiration = data.get("expiration", "")
        expires = times.parse_time(expiration) if expiration else None
    except (msgspec.MsgspecError, binascii.Error, ValueError, TypeError):
        return None
    token_id = entry.key.removeprefix(KEYS)
    is_whole = _TOKEN.fullmatch(f"{data.get('token-id', '')}.{data.get('token-secret', '')}") is not None
    groups = tuple(each.strip() for each in data.get("auth-extra-groups", "").split(",") if each.strip())
    if (
        not is_whole
        or found.type != SECRET_TYPE
        or data["token-id"] != token_id
        or found.metadata.deletion is not None
        or not all(_GROUP_NAME.fullmatch(group) for group in groups)
    ):
        return None
    can_authenticate = data.get("usage-bootstrap-authentication") == "true"
    return BootstrapToken(token_id, data["token-secret"], expires, can_authenticate, groups, data.get("node-name", ""))


class BootstrapTokens:
    """Knows whose token one is."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._memory = store.memory
        self.knows_at_once = self._memory is not None
        """Otherwise `learn` must be awaited before each `find_user`."""
        self._read: dict[str, Entry | None] = {}
        """What `learn` has found, by id. Each request reads again before it is answered."""

    def is_one(self, token: str) -> bool:
        """Whether it has the form of a bootstrap token."""
        return _TOKEN.fullmatch(token) is not None

    async def learn(self, token: str) -> None:
        """Read what `find_user` needs, if the store is not in memory. Raises `StatusError` (503)."""
        match = _TOKEN.fullmatch(token)
        if match is None or self._memory is not None:
            return
        if len(self._read) >= TOKENS_READ_MAX:
            self._read.clear()
        try:
            self._read[match[1]] = await self._store.get(KEYS + match[1])
        except StoreError as error:
            raise _build_unavailable(error) from error

    def find_user(self, token: str) -> User | None:
        """Whose token it is. None: it is not a good one (any more)."""
        match = _TOKEN.fullmatch(token)
        entry = None if match is None else self._find_entry(match[1])
        found = None if entry is None else parse_token(entry)
        if match is None or found is None or not found.can_authenticate or found.is_expired(self._clock.wall()):
            return None
        return found.user if hmac.compare_digest(found.secret, match[2]) else None

    def _find_entry(self, token_id: str) -> Entry | None:
        if self._memory is None:
            return self._read.get(token_id)
        try:
            return self._memory.look(KEYS + token_id)
        except StoreError as error:
            raise _build_unavailable(error) from error


def _build_unavailable(error: StoreError) -> StatusError:
    text = f"the bootstrap token cannot be checked: {error}"
    return StatusError(503, StatusReason.SERVICE_UNAVAILABLE, text, retry_after_s=1)

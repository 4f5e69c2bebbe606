"""Tokens of service accounts: `kubectl create token`, and who shows one.

A token says whose it is, for which audiences, until when, and which object it is bound to, if any. The server signs it
(jwt.py) and keeps nothing. It is good for as long as its time is not over and the service account, and what it is
bound to, are the very ones that it names: a deleted one ends it at once, one with the same name that was made later
does not revive it.

So each request with a token needs a look at one or two objects. A store that has everything in memory answers at once.
For any other, `learn` reads them first, and what it has found counts for `FOUND_COUNTS_FOR`, as in Kubernetes.

Others check a token with a TokenReview, or by themselves with the documents of issuer.py. Not here: tokens in Secrets
of the type `kubernetes.io/service-account-token`, which Kubernetes no longer makes either.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from mainstay.api import names, times
from mainstay.api.errors import StatusError, StatusReason, bad_request, conflict, invalid, invalid_value, not_found
from mainstay.api.kind import Object
from mainstay.env import Disk, Env
from mainstay.http.certificates import ensure_key
from mainstay.server.auth.authorization import AUTHENTICATED, User
from mainstay.server.auth.jwt import SigningKey
from mainstay.server.storage.keyspace import CORE
from mainstay.store.errors import StoreError
from mainstay.store.interface import Store

KEY_FILE: Final = "service-account.key"
ISSUER: Final = "https://kubernetes.default.svc"
AUDIENCE: Final = ISSUER
"""Who a token is for if it does not say otherwise: this server, and any other with the same key."""

LIFETIME_S_DEFAULT: Final = 3600
LIFETIME_S_MIN: Final = 600
LIFETIME_S_MAX: Final = 2**32
LEEWAY: Final = timedelta(minutes=1)  # Clocks differ a little.
FOUND_COUNTS_FOR: Final = timedelta(seconds=10)
TOKENS_KNOWN_MAX: Final = 1_000
FOUND_MAX: Final = 10_000

_KIND: Final = "TokenRequest"
_GROUP: Final = "authentication.k8s.io"
_EXTRA: Final = "authentication.kubernetes.io/"
_INVALIDATED: Final = "service account token has been invalidated"
_ACCOUNT: Final = "ServiceAccount"
_PLURALS: Final = {_ACCOUNT: "serviceaccounts", "Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_BINDABLE: Final = ("Pod", "Secret", "Node")


def ensure_signing_key(disk: Disk) -> SigningKey:
    """The key in the data directory, made if there is none. Blocks. Raises `BadCertificate`, `DiskFull`."""
    return SigningKey(ensure_key(disk, KEY_FILE))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The token is good, for those of the audiences asked about that it names."""

    user: User
    audiences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenRejected:
    """The token was ours, but is not good any more, or not here. `why` is for TokenReviews."""

    why: str


class _Named(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class _Thing:
    """An object that a token names."""

    kind: str
    namespace: str
    named: _Named

    @property
    def key(self) -> str:
        return _key(self.kind, self.namespace, self.named.name)


class _Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    serviceaccount: _Named
    pod: _Named | None = None
    secret: _Named | None = None
    node: _Named | None = None


class _Claims(msgspec.Struct, frozen=True):
    """What a token says. In the order in which Kubernetes writes it."""

    aud: tuple[str, ...]
    exp: int
    iat: int
    iss: str
    jti: str
    bound: _Bound = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str

    def things(self) -> Iterator[_Thing]:
        """What must still be there. The service account comes first."""
        bound = self.bound
        yield _Thing(_ACCOUNT, bound.namespace, bound.serviceaccount)
        if bound.secret is not None:
            yield _Thing("Secret", bound.namespace, bound.secret)
        if bound.pod is not None:
            yield _Thing("Pod", bound.namespace, bound.pod)
        elif bound.node is not None:  # A pod's node is only told of; the pod is what counts.
            yield _Thing("Node", "", bound.node)


class _Metadata(msgspec.Struct, frozen=True):
    uid: str
    deletion: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _Stored(msgspec.Struct, frozen=True):
    metadata: _Metadata


_decode_claims = msgspec.json.Decoder(_Claims).decode
_decode_stored = msgspec.json.Decoder(_Stored).decode


class AccountTokens:
    """Issues tokens, and knows whose they are."""

    def __init__(self, key: SigningKey, store: Store, env: Env) -> None:
        self.key = key
        self._store = store
        self._clock = env.clock
        self._chance = env.chance
        self._issued = 0
        self._memory = store.memory
        self.knows_at_once = self._memory is not None
        """Otherwise `learn` must be awaited before each `check`."""
        # By digest, so that no token can come out in a traceback. A signature is verified once, not with each request.
        self._known: dict[bytes, _Claims] = {}
        self._found: dict[str, tuple[int, _Metadata]] = {}

    async def issue(self, namespace: str, name: str, request: Object) -> Object:
        """Answer a TokenRequest. Raises `StatusError`: 404, 409 or 400 for missing objects, 422 for what is invalid."""
        given, spec = request.get("metadata") or {}, request.get("spec") or {}
        _require_same_place(given, namespace, name)
        account = await self._read(_ACCOUNT, namespace, name)
        uid = account["metadata"]["uid"]
        if given.get("uid") and given["uid"] != uid:
            text = (
                f"the UID in the token request ({given['uid']}) does not match the UID of the service account ({uid})"
            )
            raise conflict(_KIND, _GROUP, name, text)
        lifetime_s = spec.get("expirationSeconds")
        if lifetime_s is None:
            lifetime_s = LIFETIME_S_DEFAULT
        _require_lifetime(lifetime_s)
        bound = await self._bound(spec.get("boundObjectRef"), namespace, name)
        audiences = tuple(spec.get("audiences") or (AUDIENCE,))
        now = self._clock.wall()
        self._issued += 1
        at = int(now.timestamp())
        claims = _Claims(
            aud=audiences,
            exp=at + lifetime_s,
            iat=at,
            iss=ISSUER,
            jti=self._chance.uid("token", self._issued),
            bound=_Bound(namespace, _Named(name, uid), **bound),
            nbf=at,
            sub=f"system:serviceaccount:{namespace}:{name}",
        )
        moment = times.format_time(now)
        until = times.format_time(now + timedelta(seconds=lifetime_s))
        return {
            "kind": _KIND,
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": moment},
            "spec": {
                "audiences": list(audiences),
                "expirationSeconds": lifetime_s,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": self.key.sign(msgspec.to_builtins(claims)), "expirationTimestamp": until},
        }

    async def _bound(self, reference: Object | None, namespace: str, account: str) -> dict[str, _Named]:
        """What a token is to be bound to, by its name in the claims."""
        if reference is None:
            return {}
        kind, name = reference.get("kind", ""), reference.get("name", "")
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        if group or kind not in _BINDABLE:
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        found = await self._read(kind, "" if kind == "Node" else namespace, name)
        bound = {kind.lower(): _Named(name, found["metadata"]["uid"])}
        if kind == "Pod":
            if found["spec"].get("serviceAccountName") != account:
                raise bad_request(
                    f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount'
                    " name."
                )
            node = found["spec"].get("nodeName")
            if node:
                entry = await self._store.get(_key("Node", "", node))
                bound["node"] = _Named(node, "" if entry is None else _decode_stored(entry.value).metadata.uid)
        wanted = reference.get("uid")
        if wanted and wanted != found["metadata"]["uid"]:
            text = f"the UID in the bound object reference ({wanted}) does not match the UID in record."
            raise conflict(kind, "", name, f"{text} The object might have been deleted and then recreated")
        return bound

    async def _read(self, kind: str, namespace: str, name: str) -> Object:
        is_name = 0 < len(name) <= names.SUBDOMAIN_LENGTH_MAX
        entry = await self._store.get(_key(kind, namespace, name)) if is_name else None
        if entry is None:
            raise not_found(_PLURALS[kind], "", name)
        found: Object = msgspec.json.decode(entry.value)
        return found

    async def learn(self, token: str) -> None:
        """Read what has to be known to check a token. Raises `StatusError` (503) if that cannot be had."""
        claims = self._claims(token)
        if claims is None or self.knows_at_once:
            return
        now_ns = self._clock.monotonic_ns()
        oldest_ns = now_ns - FOUND_COUNTS_FOR // timedelta(microseconds=1) * 1000
        for thing in claims.things():
            key = thing.key
            found = self._found.get(key)
            # What is not as the token says may have become so: only what is, counts for a while.
            if found is not None and found[0] >= oldest_ns and found[1].uid == thing.named.uid:
                continue
            try:
                entry = await self._store.get(key)
            except StoreError as error:
                raise _unavailable(error) from error
            self._found.pop(key, None)
            if entry is not None:
                self._found[key] = now_ns, _decode_stored(entry.value).metadata
        while len(self._found) > FOUND_MAX:
            del self._found[next(iter(self._found))]  # The one that was read first.

    def check(self, token: str, audiences: Sequence[str]) -> Accepted | TokenRejected | None:
        """Whose token this is, if it is for one of these audiences. None: it is not one of ours at all."""
        claims = self._claims(token)
        if claims is None:
            return None
        shared = tuple(each for each in claims.aud if each in audiences)
        if not shared:
            named, wanted = _listed(claims.aud), _listed(audiences)
            return TokenRejected(f"token audiences {named} is invalid for the target audiences {wanted}")
        now = self._clock.wall()
        if now - LEEWAY > datetime.fromtimestamp(claims.exp, UTC):
            return TokenRejected("service account token has expired")
        if now + LEEWAY < datetime.fromtimestamp(claims.nbf, UTC):
            return TokenRejected("service account token is not valid yet")
        for thing in claims.things():
            why = _why_not(thing, self._living(thing.key), now)
            if why:
                return TokenRejected(why)
        return Accepted(_user(claims), shared)

    def _living(self, key: str) -> _Metadata | None:
        if self._memory is None:
            found = self._found.get(key)
            return None if found is None else found[1]
        try:
            entry = self._memory.look(key)
        except StoreError as error:
            raise _unavailable(error) from error
        return None if entry is None else _decode_stored(entry.value).metadata

    def _claims(self, token: str) -> _Claims | None:
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        known = self._known.get(digest)
        if known is not None:
            return known
        said = self.key.said_by(token)
        if said is None:
            return None
        try:
            claims = _decode_claims(said)
        except msgspec.ValidationError:  # Signed with our key, but not by us.
            return None
        if claims.iss != ISSUER:
            return None
        if len(self._known) >= TOKENS_KNOWN_MAX:
            self._known.clear()
        self._known[digest] = claims
        return claims


def _key(kind: str, namespace: str, name: str) -> str:
    return f"{CORE}/{_PLURALS[kind]}/{namespace}/{name}" if namespace else f"{CORE}/{_PLURALS[kind]}/{name}"


def _require_same_place(given: dict[str, Any], namespace: str, name: str) -> None:
    for field, wanted in (("name", name), ("namespace", namespace)):
        if given.get(field) and given[field] != wanted:
            text = f"must match the service account {field} if specified"
            raise invalid(_KIND, _GROUP, name, [invalid_value(f"metadata.{field}", given[field], text)])


def _require_lifetime(lifetime_s: int) -> None:
    if LIFETIME_S_MIN <= lifetime_s <= LIFETIME_S_MAX:
        return
    limit = "less than 10 minutes" if lifetime_s < LIFETIME_S_MIN else "larger than 2^32 seconds"
    text = f"may not specify a duration {limit}"
    raise invalid(_KIND, _GROUP, "", [invalid_value("spec.expirationSeconds", lifetime_s, text)])


def _why_not(thing: _Thing, found: _Metadata | None, now: datetime) -> str:
    """Why a token is not good any more on account of something that it names. Empty: that is still there."""
    is_account = thing.kind == _ACCOUNT
    place = f"{thing.namespace}/{thing.named.name}"
    if found is None:
        return f'serviceaccounts "{thing.named.name}" not found' if is_account else _INVALIDATED
    if found.deletion is not None and times.parse_time(found.deletion) < now - LEEWAY:
        return f"service account {place} has been deleted" if is_account else _INVALIDATED
    if found.uid == thing.named.uid:
        return ""
    if is_account:
        return f"service account UID ({found.uid}) does not match claim ({thing.named.uid})"
    word = thing.kind.lower()
    return f"{word} UID ({found.uid}) does not match service account {word} ref claim ({thing.named.uid})"


def _user(claims: _Claims) -> User:
    bound = claims.bound
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{bound.namespace}", AUTHENTICATED)
    extra = {f"{_EXTRA}credential-id": (f"JTI={claims.jti}",)}
    for word, named in (("node", bound.node), ("pod", bound.pod)):
        if named is not None:
            extra[f"{_EXTRA}{word}-name"] = (named.name,)
            if named.uid:
                extra[f"{_EXTRA}{word}-uid"] = (named.uid,)
    return User(claims.sub, groups, bound.serviceaccount.uid, tuple(extra.items()))


def _listed(audiences: Sequence[str]) -> str:
    return "[" + " ".join(f'"{each}"' for each in audiences) + "]"


def _unavailable(error: StoreError) -> StatusError:
    return StatusError(503, StatusReason.SERVICE_UNAVAILABLE, f"the token cannot be checked: {error}", retry_after_s=1)

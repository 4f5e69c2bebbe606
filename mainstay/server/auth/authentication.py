"""Who a request comes from: a client certificate, a bearer token, or neither.

The certificate was verified when the connection was made; its common name is the user, each organisation a group.
Tokens are those of a static file, of service accounts (tokens.py), or of machines that join (bootstrap_tokens.py). A
known user is also in `system:authenticated`. A request that brings neither comes from `system:anonymous`; one with an
unknown token, or a certificate that was revoked (revocation.py), is refused rather than taken for that.

Whom they act as, with the `Impersonate-…` headers, is in impersonation.py.

What a user may do is decided in authorization.py.
"""

import csv
import hashlib
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Any, Final

from mainstay.api.errors import StatusError, StatusReason, unauthorized
from mainstay.api.kind import Object
from mainstay.env import Env
from mainstay.http.messages import Request
from mainstay.server.auth.authorization import ANONYMOUS, Authorizer, User, add_authenticated
from mainstay.server.auth.bootstrap_tokens import BootstrapTokens
from mainstay.server.auth.impersonation import IMPERSONATE, impersonate
from mainstay.server.auth.issuer import IssuerDiscovery
from mainstay.server.auth.jwt import SigningKey
from mainstay.server.auth.revocation import Revocations
from mainstay.server.auth.tokens import AUDIENCE, Accepted, AccountTokens, TokenRejected
from mainstay.store.interface import Store

SUBJECTS_KNOWN_MAX: Final = 1_000


class BadTokenFile(Exception):
    """The file is not in the form `token,user,uid,"group1,group2"`. The message says where; it contains no token."""


class Authenticator:
    """Knows users by their certificate or token. Without `accounts` there are no tokens of service accounts, and
    without `bootstrap` no machine can join."""

    def __init__(
        self,
        tokens: Mapping[str, User],
        accounts: AccountTokens | None = None,
        bootstrap: BootstrapTokens | None = None,
    ) -> None:
        self._accounts = accounts
        self._bootstrap = bootstrap
        self._knows_at_once = (accounts is None or accounts.knows_at_once) and (
            bootstrap is None or bootstrap.knows_at_once
        )
        self.revocations = Revocations()
        """Certificates that are refused."""
        self.discovery = None if accounts is None else IssuerDiscovery(accounts.key)
        """What others check tokens of service accounts with, if there are any."""
        # By digest: how long a lookup takes then says nothing of any token, and none can come out in a traceback.
        self._users = {_digest(token): add_authenticated(user) for token, user in tokens.items()}
        # By subject, as it is in the certificate: a connection brings the same one with each request.
        self._known: dict[Any, User | None] = {}

    @classmethod
    def for_store(cls, tokens: Mapping[str, User], key: SigningKey, store: Store, env: Env) -> "Authenticator":
        """With all tokens that a store can have. `key` signs those of service accounts."""
        return cls(tokens, AccountTokens(key, store, env), BootstrapTokens(store, env.clock))

    def authenticate(self, request: Request, authorizer: Authorizer) -> User:
        """Whom to take this request for; the authorizer says whether they may act as another user. Raises
        `StatusError`: 401 for a wrong token, 403 or 400 for impersonation."""
        user = self.authenticate_sender(request)
        for name, _ in request.headers:
            if name[:12] == IMPERSONATE:  # A slice costs half of what startswith does, and this is for every header.
                return impersonate(request, user, authorizer)
        return user

    def learning(self, request: Request) -> Awaitable[None] | None:
        """What to await before the user of a request can be told. None, which is most often: nothing."""
        if self._knows_at_once:
            return None
        certificate = request.peer.certificate
        if certificate and self._find_certificate_user(certificate) is not None:
            return None
        token = _bearer_token(request)
        return None if token is None or _digest(token) in self._users else self.learn(token)

    async def learn(self, token: str) -> None:
        """The same for a token that a TokenReview asks about. Raises `StatusError`."""
        if self._bootstrap is not None and self._bootstrap.is_one(token):
            await self._bootstrap.learn(token)
        elif self._accounts is not None:
            await self._accounts.learn(token)

    def review(self, token: str, audiences: Sequence[str] = ()) -> Accepted | TokenRejected:
        """Whose token this is, for one of these audiences; if there are none, for this server."""
        wanted = audiences or (AUDIENCE,)
        user = self._users.get(_digest(token))
        if user is not None:  # A token of the file is for this server alone.
            return Accepted(user, (AUDIENCE,)) if AUDIENCE in wanted else TokenRejected("")
        if self._bootstrap is not None and self._bootstrap.is_one(token):
            user = self._bootstrap.find_user(token) if AUDIENCE in wanted else None
            return TokenRejected("") if user is None else Accepted(user, (AUDIENCE,))
        found = None if self._accounts is None else self._accounts.check(token, wanted)
        return TokenRejected("") if found is None else found

    async def issue(self, namespace: str, name: str, request: Object) -> Object:
        """Answer a TokenRequest for a service account. Raises `StatusError`."""
        if self._accounts is None:
            text = "this server has no key to sign tokens of service accounts with, so it issues none"
            raise StatusError(405, StatusReason.METHOD_NOT_ALLOWED, text, {})
        return await self._accounts.issue(namespace, name, request)

    def authenticate_sender(self, request: Request) -> User:
        """Who sends this request, whomever they act as. Raises `StatusError` 401."""
        certificate = request.peer.certificate
        if certificate and (known := self._find_certificate_user(certificate)) is not None:
            if self.revocations.is_revoked(certificate):
                raise unauthorized()
            return known
        token = _bearer_token(request)
        if token is None:
            return ANONYMOUS
        found = self.review(token)
        if isinstance(found, TokenRejected):
            raise unauthorized()
        return found.user

    def _find_certificate_user(self, certificate: Mapping[str, Any]) -> User | None:
        subject = certificate.get("subject", ())
        try:
            return self._known[subject]
        except KeyError:
            pass
        if len(self._known) >= SUBJECTS_KNOWN_MAX:
            self._known.clear()
        user = self._known[subject] = parse_certificate_user(certificate)
        return user


def parse_certificate_user(certificate: Mapping[str, Any]) -> User | None:
    """The user of a certificate, as `ssl.SSLObject.getpeercert` tells it. None if it names no user."""
    name = ""
    groups: list[str] = []
    for attributes in certificate.get("subject", ()):
        for attribute, value in attributes:
            if attribute == "commonName":
                name = value
            elif attribute == "organizationName":
                groups.append(value)
    return add_authenticated(User(name, tuple(groups))) if name else None


def read_token_file(text: str) -> dict[str, User]:
    """The users of a token file, by token. Raises `BadTokenFile`."""
    users: dict[str, User] = {}
    first_at: dict[str, int] = {}
    for line, fields in _records(text):
        if not 3 <= len(fields) <= 4:
            raise BadTokenFile(
                f"line {line}: has {len(fields)} columns, but should have three or four:"
                ' token,user,uid,"group1,group2" (several groups need the quotes)'
            )
        token, name, uid, groups = (field.strip() for field in (*fields, "")[:4])
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise BadTokenFile(
                f"line {line}: the token is empty, or has a space or another character that none may have"
            )
        if not name:
            raise BadTokenFile(f"line {line}: the user, which is the second column, is empty")
        if token in users:
            raise BadTokenFile(
                f"line {line}: the token is the same as in line {first_at[token]}: give each user their own"
            )
        users[token] = User(name, tuple(group.strip() for group in groups.split(",") if group.strip()), uid)
        first_at[token] = line
    return users


def _records(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not empty, with the number of its first line."""
    reader = csv.reader(text.removeprefix("\ufeff").splitlines(keepends=True), strict=True, skipinitialspace=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise BadTokenFile(f"line {line}: {error}") from None
        if fields is None:
            return
        if fields:
            yield line, fields


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def _bearer_token(request: Request) -> str | None:
    value = request.headers.get("authorization")
    if value is None:
        return None
    scheme, _, rest = value.strip().partition(" ")
    if scheme.lower() != "bearer":
        return None  # Another scheme is no credential here, as in Kubernetes.
    return rest.strip().partition(" ")[0] or None

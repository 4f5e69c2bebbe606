"""Who a request comes from: a client certificate, a bearer token, or neither.

The certificate was verified when the connection was made; its common name is the user, each organisation a group.
Tokens are those of a static file, or of service accounts (tokens.py). A known user is also in `system:authenticated`.
A request that brings neither comes from `system:anonymous`; one with an unknown token is refused rather than taken for
that.

A user with full access may also act as another user, with the `Impersonate-…` headers. All others are refused if they
try: to ignore the headers would give them more than they asked for.

What a user may do is decided in authorization.py.
"""

import csv
import hashlib
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from mainstay.api.errors import StatusError, StatusReason, bad_request, object_details, qualified, unauthorized
from mainstay.api.kind import Object
from mainstay.http.messages import Request
from mainstay.server.auth.authorization import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from mainstay.server.auth.tokens import AUDIENCE, Accepted, AccountTokens, TokenRejected

SUBJECTS_KNOWN_MAX: Final = 1_000

_IMPERSONATE: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION_GROUP: Final = "authentication.k8s.io"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


class BadTokenFile(Exception):
    """The file is not in the form `token,user,uid,"group1,group2"`. The message says where; it contains no token."""


class Authenticator:
    """Knows users by their certificate or token. Without `accounts` there are no tokens of service accounts."""

    def __init__(self, tokens: Mapping[str, User], accounts: AccountTokens | None = None) -> None:
        self._accounts = accounts
        # By digest: how long a lookup takes then says nothing of any token, and none can come out in a traceback.
        self._users = {_digest(token): _authenticated(user) for token, user in tokens.items()}
        # By subject, as it is in the certificate: a connection brings the same one with each request.
        self._known: dict[Any, User | None] = {}

    def authenticate(self, request: Request) -> User:
        """Whom to take this request for. Raises `StatusError`: 401 for a wrong token, 403 or 400 for impersonation."""
        user = self.authenticate_sender(request)
        for name, _ in request.headers:
            if name[:12] == _IMPERSONATE:  # A slice costs half of what startswith does, and this is for every header.
                return _impersonated(request, user)
        return user

    def learning(self, request: Request) -> Awaitable[None] | None:
        """What to await before the user of a request can be told. None, which is most often: nothing."""
        accounts = self._accounts
        if accounts is None or accounts.knows_at_once:
            return None
        certificate = request.peer.certificate
        if certificate and self._find_certificate_user(certificate) is not None:
            return None
        token = _bearer_token(request)
        return None if token is None or _digest(token) in self._users else accounts.learn(token)

    async def learn(self, token: str) -> None:
        """The same for a token that a TokenReview asks about. Raises `StatusError`."""
        if self._accounts is not None:
            await self._accounts.learn(token)

    def review(self, token: str, audiences: Sequence[str] = ()) -> Accepted | TokenRejected:
        """Whose token this is, for one of these audiences; if there are none, for this server."""
        wanted = audiences or (AUDIENCE,)
        user = self._users.get(_digest(token))
        if user is not None:  # A token of the file is for this server alone.
            return Accepted(user, (AUDIENCE,)) if AUDIENCE in wanted else TokenRejected("")
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
    return _authenticated(User(name, tuple(groups))) if name else None


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


def _authenticated(user: User) -> User:
    if user.name == ANONYMOUS.name or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _bearer_token(request: Request) -> str | None:
    value = request.headers.get("authorization")
    if value is None:
        return None
    scheme, _, rest = value.strip().partition(" ")
    if scheme.lower() != "bearer":
        return None  # Another scheme is no credential here, as in Kubernetes.
    return rest.strip().partition(" ")[0] or None


# Impersonation.


def _impersonated(request: Request, user: User) -> User:
    headers = request.headers
    name = headers.get("impersonate-user") or ""
    groups = headers.getall("impersonate-group")
    uid = headers.get("impersonate-uid") or ""
    if not user.is_master:
        raise _may_not_impersonate(user, name, groups, uid)
    if not name:
        raise bad_request("impersonation was asked for without naming a user: Impersonate-User is missing or empty")
    if name.startswith(_SERVICE_ACCOUNT) and not groups:
        namespace = name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    acted = User(name, tuple(groups), uid, _impersonated_extra(request))
    if name == ANONYMOUS.name:
        return acted if UNAUTHENTICATED in groups else replace(acted, groups=(*acted.groups, UNAUTHENTICATED))
    return _authenticated(acted)


def _impersonated_extra(request: Request) -> tuple[tuple[str, tuple[str, ...]], ...]:
    extra: dict[str, list[str]] = {}
    for name, value in request.headers:
        if name.startswith(_EXTRA) and name != _EXTRA:
            extra.setdefault(unquote(name.removeprefix(_EXTRA)), []).append(value)
    return tuple((name, tuple(values)) for name, values in sorted(extra.items()))


def _may_not_impersonate(user: User, name: str, groups: list[str], uid: str) -> StatusError:
    where = "at the cluster scope"
    if name.startswith(_SERVICE_ACCOUNT) and name.count(":") == 3:
        namespace, name = name.removeprefix(_SERVICE_ACCOUNT).split(":")
        resource, group, where = "serviceaccounts", "", f'in the namespace "{namespace}"'
    elif name:
        resource, group = "users", ""
    elif groups:
        resource, group, name = "groups", "", groups[0]
    elif uid:
        resource, group, name = "uids", _AUTHENTICATION_GROUP, uid
    else:
        resource, group = "userextras", _AUTHENTICATION_GROUP
    shown = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
    return StatusError(
        403,
        StatusReason.FORBIDDEN,
        f'{shown} is forbidden: User "{user.name}" cannot impersonate resource "{resource}"'
        f' in API group "{group}" {where}',
        object_details(resource, group, name),
    )

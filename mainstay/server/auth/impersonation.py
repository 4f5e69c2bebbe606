"""Act as another user, by the `Impersonate-…` headers: for those who may `impersonate` all that the headers name.

A user who may not is refused: to ignore the headers would give them more than they asked for.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from mainstay.api.errors import bad_request
from mainstay.http.messages import Request
from mainstay.server.auth.authorization import (
    ANONYMOUS,
    UNAUTHENTICATED,
    AccessAttributes,
    Authorizer,
    User,
    add_authenticated,
    forbidden,
)

IMPERSONATE: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"
_GROUP: Final = "authentication.k8s.io"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


def impersonate(request: Request, user: User, authorizer: Authorizer) -> User:
    """Whom a user acts as. Raises `StatusError` (403, 400)."""
    name = request.headers.get("impersonate-user") or ""
    groups = tuple(request.headers.getall("impersonate-group"))
    uid = request.headers.get("impersonate-uid") or ""
    acted = User(name, groups, uid, _find_extra(request))
    for action in _list_actions(acted):
        verdict = authorizer.decide(user, action)
        if not verdict.allowed:
            raise forbidden(user, action, verdict.reason)
    if not name:
        raise bad_request("impersonation was asked for without naming a user: Impersonate-User is missing or empty")
    account = _split_account(name)
    if account is not None and not groups:
        acted = replace(acted, groups=("system:serviceaccounts", f"system:serviceaccounts:{account[0]}"))
    if name == ANONYMOUS.name:
        return acted if UNAUTHENTICATED in groups else replace(acted, groups=(*acted.groups, UNAUTHENTICATED))
    return add_authenticated(acted)


def _list_actions(acted: User) -> Iterator[AccessAttributes]:
    """All that it takes to act as this user."""
    account = _split_account(acted.name)
    if account is not None:
        yield AccessAttributes("impersonate", "", "serviceaccounts", *account)
    elif acted.name:
        yield AccessAttributes("impersonate", "", "users", name=acted.name)
    for group in acted.groups:
        yield AccessAttributes("impersonate", "", "groups", name=group)
    for key, values in acted.extra:
        for value in values:
            yield AccessAttributes("impersonate", _GROUP, "userextras", name=value, subresource=key)
    if acted.uid:
        yield AccessAttributes("impersonate", _GROUP, "uids", name=acted.uid)


def _split_account(user: str) -> tuple[str, str] | None:
    """Namespace and name, if the user is a service account. What only begins like one has none of its groups."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, _, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return (namespace, name) if namespace and name and ":" not in name else None


def _find_extra(request: Request) -> tuple[tuple[str, tuple[str, ...]], ...]:
    extra: dict[str, list[str]] = {}
    for name, value in request.headers:
        if name.startswith(_EXTRA) and name != _EXTRA:
            extra.setdefault(unquote(name.removeprefix(_EXTRA)), []).append(value)
    return tuple((name, tuple(values)) for name, values in sorted(extra.items()))

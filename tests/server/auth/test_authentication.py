"""Who a request is taken for."""

from typing import Any

import pytest

from mainstay.api.errors import StatusError
from mainstay.http.messages import Headers, Peer, Request
from mainstay.server.auth.authentication import Authenticator, BadTokenFile, read_token_file
from mainstay.server.auth.authorization import ANONYMOUS, User
from mainstay.server.auth.tokens import AUDIENCE, Accepted, TokenRejected
from tests.server.access import some_authorizers

ROOT = User("root", ("system:masters",))
ANN = User("ann", ("devs",), "17")
TOKENS = Authenticator({"root-token": ROOT, "ann-token": ANN})

ADMIN_CERTIFICATE = {
    "subject": (
        (("organizationName", "system:masters"),),
        (("organizationName", "ops"),),
        (("commonName", "kubernetes-admin"),),
    )
}


def a_request(*headers: tuple[str, str], certificate: dict[str, Any] | None = None) -> Request:
    peer = Peer("10.0.0.1", 4711, certificate)
    return Request("GET", "/api", "/api", "", Headers(headers), b"", peer)


def authenticate(request: Request) -> User:
    return TOKENS.authenticate(request, some_authorizers())


def refusal_of(*headers: tuple[str, str]) -> tuple[int, str]:
    with pytest.raises(StatusError) as refusal:
        authenticate(a_request(*headers))
    return refusal.value.code, refusal.value.message


# Own identity.


def test_a_certificate_names_the_user_and_each_group():
    user = authenticate(a_request(certificate=ADMIN_CERTIFICATE))

    assert user == User("kubernetes-admin", ("system:masters", "ops", "system:authenticated"))


@pytest.mark.parametrize("header", ["Bearer ann-token", "bearer  ann-token ", "BEARER ann-token"])
def test_a_token_names_its_user(header):
    user = authenticate(a_request(("Authorization", header)))

    assert user == User("ann", ("devs", "system:authenticated"), "17")


def test_a_certificate_comes_before_a_token():
    user = authenticate(a_request(("Authorization", "Bearer nonsense"), certificate=ADMIN_CERTIFICATE))

    assert user.name == "kubernetes-admin"


def test_a_certificate_without_a_name_does_not_count():
    nameless = {"subject": ((("organizationName", "system:masters"),),)}

    assert authenticate(a_request(certificate=nameless)) == ANONYMOUS


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer ann-toke", "Bearer ann-token2", "Bearer \udcff"])
def test_an_unknown_token_is_refused(header):
    assert refusal_of(("Authorization", header)) == (401, "Unauthorized")


@pytest.mark.parametrize("headers", [[], [("Authorization", "Basic YTpi")], [("Authorization", "Bearer ")]])
def test_a_request_without_credentials_is_anonymous(headers):
    assert authenticate(a_request(*headers)) == ANONYMOUS


def test_no_certificate_makes_an_authenticated_anonymous():
    named = {"subject": ((("commonName", "system:anonymous"),),)}

    assert authenticate(a_request(certificate=named)).groups == ()


def test_a_token_can_be_asked_about():
    ann = User("ann", ("devs", "system:authenticated"), "17")

    assert TOKENS.review("ann-token") == Accepted(ann, (AUDIENCE,))
    assert TOKENS.review("ann-token", ["vault", AUDIENCE]) == Accepted(ann, (AUDIENCE,))
    assert TOKENS.review("ann-token", ["vault"]) == TokenRejected("")
    assert TOKENS.review("wrong") == TokenRejected("")


# Impersonation.


def as_root(*headers: tuple[str, str]) -> User:
    return authenticate(a_request(("Authorization", "Bearer root-token"), *headers))


def test_a_user_with_full_access_may_impersonate():
    user = as_root(
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Scopes", "view"),
        ("Impersonate-Extra-Example.com%2Fteam", "shop"),
        ("Impersonate-Extra-Scopes", "edit"),
    )

    extra = (("example.com/team", ("shop",)), ("scopes", ("view", "edit")))
    assert user == User("bob", ("a", "b", "system:authenticated"), "7", extra)


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("system:anonymous", ("system:unauthenticated",)),
        (
            "system:serviceaccount:shop:web",
            ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"),
        ),
        # These are authorized as users, and so must not get what only accounts have.
        ("system:serviceaccount:shop:web:more", ("system:authenticated",)),
        ("system:serviceaccount:shop", ("system:authenticated",)),
    ],
)
def test_impersonating_a_system_user_brings_their_groups(name, groups):
    assert as_root(("Impersonate-User", name)) == User(name, groups)


def test_acting_as_a_group_without_a_user_is_a_mistake():
    code, message = refusal_of(("Authorization", "Bearer root-token"), ("Impersonate-Group", "devs"))

    assert (code, "Impersonate-User" in message) == (400, True)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            ("Impersonate-User", "bob"),
            'users "bob" is forbidden: User "ann" cannot impersonate resource "users" in API group ""'
            " at the cluster scope",
        ),
        (
            ("Impersonate-Group", "ops"),
            'groups "ops" is forbidden: User "ann" cannot impersonate resource "groups" in API group ""'
            " at the cluster scope",
        ),
        (
            ("Impersonate-Uid", "7"),
            'uids.authentication.k8s.io "7" is forbidden: User "ann" cannot impersonate resource "uids"'
            ' in API group "authentication.k8s.io" at the cluster scope',
        ),
        (
            ("Impersonate-User", "system:serviceaccount:shop:web"),
            'serviceaccounts "web" is forbidden: User "ann" cannot impersonate resource "serviceaccounts"'
            ' in API group "" in the namespace "shop"',
        ),
        (
            ("Impersonate-Extra-Scopes", "view"),
            'userextras.authentication.k8s.io "view" is forbidden: User "ann" cannot impersonate resource'
            ' "userextras/scopes"'
            ' in API group "authentication.k8s.io" at the cluster scope',
        ),
    ],
)
def test_other_users_may_not_impersonate(header, message):
    assert refusal_of(("Authorization", "Bearer ann-token"), header) == (403, message)


def test_anonymous_users_may_not_impersonate():
    code, message = refusal_of(("Impersonate-User", "bob"))

    assert (code, 'User "system:anonymous" cannot impersonate' in message) == (403, True)


# Token files.


def test_a_token_file_has_a_user_a_line():
    text = 'abc,ann,1,"devs,ops"\n\ndef,bob,2\nghi,eve,,devs\r\n'

    assert read_token_file(text) == {
        "abc": User("ann", ("devs", "ops"), "1"),
        "def": User("bob", (), "2"),
        "ghi": User("eve", ("devs",), ""),
    }


def test_an_empty_token_file_has_no_users():
    assert read_token_file("") == {}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("abc,ann,1\nsecret,bob\n", 2, "2 columns"),
        ("secret,ann,1,devs,ops\n", 1, "5 columns"),
        ("abc,ann,1\n\n,bob,2\n", 3, "empty"),
        ("se cret,bob,2\n", 1, "space"),
        ("secrét,bob,2\n", 1, "character"),
        ("secret,,2\n", 1, "user"),
        ("secret,ann,1\nabc,bob,2\nsecret,eve,3\n", 3, "the same as in line 1"),
        ('abc,ann,1\nsecret,bob,2,"devs,ops\n', 2, "unexpected end of data"),
    ],
)
def test_a_wrong_token_file_is_refused_with_the_line_but_not_the_token(text, line, why):
    with pytest.raises(BadTokenFile) as refusal:
        read_token_file(text)

    message = str(refusal.value)
    assert message.startswith(f"line {line}: ")
    assert why in message
    assert "secr" not in message

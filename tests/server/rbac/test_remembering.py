"""What the authorizer remembers is bounded, whatever clients ask for."""

from typing import Any

import msgspec
import pytest

from mainstay.server.auth.authorization import ANONYMOUS, AccessAttributes, User
from mainstay.server.rbac import authorizer as under_test
from mainstay.server.rbac.authorizer import RbacAuthorizer
from mainstay.server.rbac.roles import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RoleIndex
from tests.server.rbac.served import ALICE, a_binding, a_path_rule, a_role, a_rule

USER = User("alice", ())
GET_PODS = AccessAttributes("get", "", "pods", "default", "web")


class CountingIndex(RoleIndex):
    """Counts how often an answer had to be found."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def find_granted(self, user: User, namespace: str) -> Any:
        self.asked += 1
        return super().find_granted(user, namespace)


@pytest.fixture
def index() -> CountingIndex:
    index = CountingIndex()
    role, binding = a_role("r", a_rule("get", "pods"), a_path_rule("/metrics/*")), a_binding("b", "r", ALICE)
    index.put(f"{CLUSTER_ROLES}r", msgspec.json.encode(role))
    index.put(f"{CLUSTER_ROLE_BINDINGS}b", msgspec.json.encode(binding))
    return index


@pytest.mark.parametrize(
    ("user", "action", "is_allowed", "is_remembered"),
    [
        (USER, GET_PODS, True, True),
        (USER, AccessAttributes("get", "", "secrets", "default"), False, True),
        (USER, AccessAttributes("get", path="/metrics/a"), True, True),
        (USER, AccessAttributes("get", path=f"/metrics/{'a' * 256}"), True, False),
        (USER, AccessAttributes("get", "", "pods", "n" * 256), True, False),
        (ANONYMOUS, AccessAttributes("get", "", "pods", "n" * 256), False, False),
        (ANONYMOUS, AccessAttributes("get", path="/a"), False, False),
        (User("alice", ("g" * 1_024,)), GET_PODS, True, False),
    ],
)
def test_only_short_questions_are_remembered_and_no_refused_paths(index, user, action, is_allowed, is_remembered):
    authorizer = RbacAuthorizer(index)

    assert [authorizer.decide(user, action).allowed for _ in range(3)] == [is_allowed] * 3
    assert index.asked == (1 if is_remembered else 3)


def test_refusals_are_few_and_make_nothing_else_go(index, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(under_test, "REFUSALS_MAX", 10)
    authorizer = RbacAuthorizer(index)
    authorizer.decide(USER, GET_PODS)
    for number in range(11):
        authorizer.decide(ANONYMOUS, AccessAttributes("get", "", "pods", f"n{number}"))
    before = index.asked

    authorizer.decide(USER, GET_PODS)
    assert index.asked == before
    authorizer.decide(ANONYMOUS, AccessAttributes("get", "", "pods", "n0"))
    assert index.asked == before + 1


def test_a_refusal_is_forgotten_when_a_role_changes(index):
    authorizer = RbacAuthorizer(index)
    action = AccessAttributes("list", "", "pods", "default")
    assert not authorizer.decide(USER, action).allowed

    index.put(f"{CLUSTER_ROLES}r", msgspec.json.encode(a_role("r", a_rule("list", "pods"))))

    assert authorizer.decide(USER, action).allowed

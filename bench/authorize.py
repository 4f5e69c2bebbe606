"""What does it cost to find out whether a user may do something?

Besides the roles that every cluster has there are 1,000 Roles and 1,000 RoleBindings in 100 namespaces, and each
question goes through all authorizers, as a request does: from the target of the request to the verdict. Names of
objects and namespaces differ from question to question. `first` is a question whose answer is not remembered, because a
role has changed.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from bench.measure import Figure, Stopwatch, main
from mainstay.api.kinds.pods import POD
from mainstay.server.auth.authorization import AccessAttributes, User
from mainstay.server.rbac.access_control import AccessControl
from mainstay.server.rbac.bootstrap import build_objects
from mainstay.server.request.target import RequestTarget, Verb

ROLES: Final = 1_000
NAMESPACES: Final = 100
_GROUP: Final = "rbac.authorization.k8s.io"
_KNOWN: Final = "system:authenticated"
_ACCOUNT: Final = "system:serviceaccount:space-7:robot-7"

USERS: Final = {
    "system:masters": User("kubernetes-admin", ("system:masters", _KNOWN)),
    "the scheduler": User("system:kube-scheduler", (_KNOWN,)),
    "a service account with a RoleBinding": User(
        _ACCOUNT, ("system:serviceaccounts", "system:serviceaccounts:space-7", _KNOWN)
    ),
    "a user who is refused": User("eve", ("devs", _KNOWN)),
}


def measure(quick: bool) -> Iterable[Figure]:
    access = AccessControl()
    for key, value in _build_all().items():
        access.roles.index.put(key, msgspec.json.encode(value))
    count = 20_000 if quick else 400_000
    for who, user in USERS.items():
        namespaces = ["space-7"] if user.name == _ACCOUNT else [f"space-{number}" for number in range(NAMESPACES)]
        targets = [
            RequestTarget(Verb.GET, POD, namespaces[number % len(namespaces)], f"pod-{number}", "")
            for number in range(1_000)
        ]
        expected = user.name != "eve"
        asked = _ask(access, user, targets, count, expected)
        yield Figure(f"authorize: {who}", asked, "µs CPU", goal="≤ 3")
        if user.name != "kubernetes-admin":
            first = _ask(access, user, targets, count // 100, expected, is_first=True)
            yield Figure(f"authorize: {who}, first", first, "µs CPU")


def _ask(
    access: AccessControl,
    user: User,
    targets: Sequence[RequestTarget],
    count: int,
    expected: bool,
    *,
    is_first: bool = False,
) -> float:
    """CPU time of one question, in microseconds."""
    decide, forget = access.authorizers.decide, access.roles.authorizer.forget
    with Stopwatch() as empty:
        for number in range(count):
            targets[number % len(targets)]
    with Stopwatch() as watch:
        for number in range(count):
            if is_first:
                forget()
            if decide(user, AccessAttributes.of(targets[number % len(targets)])).allowed is not expected:
                raise AssertionError(f"{user.name} is answered wrongly")
    return (watch.cpu_s - empty.cpu_s) / count * 1e6


def _build_all() -> dict[str, dict[str, Any]]:
    objects = dict(build_objects())
    for number in range(ROLES):
        namespace, name = f"space-{number % NAMESPACES}", f"robot-{number}"
        rules = [{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods", "pods/log"]}]
        objects[f"{_GROUP}/roles/{namespace}/{name}"] = {"metadata": {"name": name}, "rules": rules}
        objects[f"{_GROUP}/rolebindings/{namespace}/{name}"] = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
    return objects


if __name__ == "__main__":
    main(measure)

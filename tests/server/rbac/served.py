"""Roles and bindings as users write them, and a user who asks for something."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mainstay.store.interface import Store
from tests.server.world import Answer, Client

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER_ROLES = f"{RBAC}/clusterroles"
CLUSTER_ROLE_BINDINGS = f"{RBAC}/clusterrolebindings"
ROLES = f"{RBAC}/namespaces/default/roles"
ROLE_BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
GROUP = "rbac.authorization.k8s.io"


def a_rule(verbs: str, resources: str, groups: str = "core", **more: list[str]) -> dict[str, Any]:
    """Words; `core` is the group without a name."""
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
        **more,
    }


def a_path_rule(*paths: str) -> dict[str, Any]:
    return {"nonResourceURLs": list(paths), "verbs": ["get"]}


def a_role(name: str, *rules: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules)}


def a_binding(name: str, role: str, *subjects: dict[str, Any], kind: str = "ClusterRole") -> dict[str, Any]:
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": list(subjects)}


def a_user(name: str) -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": "User", "name": name}


def a_group(name: str) -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": "Group", "name": name}


def an_account(name: str, namespace: str = "default") -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


ALICE = a_user("alice")


async def ask_as(client: Client, user: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """As a user, in no groups but those that all users are in."""
    return await client.ask(method, path, body, Impersonate_User=user, **headers)


async def grant(client: Client, user: dict[str, str], *rules: dict[str, Any], name: str = "granted") -> None:
    """In the whole cluster."""
    await client.create(CLUSTER_ROLES, a_role(name, *rules))
    await client.create(CLUSTER_ROLE_BINDINGS, a_binding(name, name, user))


def delay_watches(store: Store, wait: Callable[[], Awaitable[Any]]) -> None:
    """Let the store tell of each change only after this."""
    honest = store.watch

    async def late(watch: Any) -> AsyncIterator[Any]:
        async for batch in watch:
            await wait()
            yield batch

    @contextmanager
    def watch(*arguments: Any, **options: Any) -> Iterator[Any]:
        with honest(*arguments, **options) as watching:
            yield late(watching)

    store.watch = watch  # type: ignore[method-assign, assignment]

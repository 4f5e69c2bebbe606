"""Policies and bindings for tests, and a client that writes them."""

from typing import Any

from tests.server.world import Answer, Client

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SMALL = "object.data.size() <= 1"


def a_rule(*resources: str, **fields: Any) -> dict[str, Any]:
    given = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}
    return {**given, "resources": list(resources or ("configmaps",)), **fields}


def a_policy(name: str = "small", *expressions: str, match: Any = None, **spec: Any) -> dict[str, Any]:
    given = {
        "matchConstraints": {"resourceRules": [a_rule()], **(match or {})},
        "validations": [{"expression": each} for each in expressions or (SMALL,)],
    }
    return {"metadata": {"name": name}, "spec": {**given, **spec}}


def a_binding(policy: str = "small", *actions: str, name: str = "", **spec: Any) -> dict[str, Any]:
    given = {"policyName": policy, "validationActions": list(actions or ("Deny",))}
    return {"metadata": {"name": name or policy}, "spec": {**given, **spec}}


def a_map(name: str = "c", entries: int = 2, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {f"k{n}": "v" for n in range(entries)}}


async def enforce(client: Client, policy: dict[str, Any] | None = None, binding: dict[str, Any] | None = None) -> None:
    """Create a policy and a binding of it."""
    policy = policy or a_policy()
    await client.create(POLICIES, policy)
    await client.create(BINDINGS, binding or a_binding(policy["metadata"]["name"]))


async def put_map(client: Client, name: str = "c", entries: int = 2, query: str = "", **metadata: Any) -> Answer:
    return await client.ask("POST", CONFIG_MAPS + query, a_map(name, entries, **metadata))


def denied(message: str, policy: str = "small", binding: str = "") -> str:
    return (
        f"configmaps \"c\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{binding or policy}' denied"
        f" request: {message}"
    )

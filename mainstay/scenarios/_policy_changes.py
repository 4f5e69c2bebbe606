"""What operators change about whole classes of pods, and how much these have to do: deeds for the worlds.

Placement policies are activated, limited to a share of the workloads and deactivated; two versions have the same scope,
so that the server refuses some of that. An admission policy denies pods of some sizes, each time of others. And the
load of all containers changes, for the autoscaler. `lift_policies` undoes what would keep pods from running.
"""

from contextlib import suppress
from typing import Any, Final

from mainstay.agent.runner import ContainerId, ContainerUsage
from mainstay.api.kind import Object
from mainstay.api.kind_names import (
    PLACEMENT_POLICIES,
    PODS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, Invalid, NotFound
from mainstay.scenarios._operators import ensure
from mainstay.scenarios._stages import NAMESPACE
from mainstay.scenarios._swarm import SwarmStage, UserAction
from mainstay.scenarios._users import CPU

BASELINE: Final = "placing-v1"
CANDIDATE: Final = "placing-v2"
_SCOPE: Final = {"namespaces": [NAMESPACE]}
PLACEMENT: Final[dict[str, dict[str, Any]]] = {
    BASELINE: {"policyVersion": "v1", "scope": _SCOPE, "maxZoneSkew": 1},
    CANDIDATE: {"policyVersion": "v2", "scope": _SCOPE, "maxZoneSkew": 2, "scores": {"MostAllocated": 5}},
}
SHARES: Final = (10, 50, 100)
SIZES: Final = "sizes"
"""An admission policy, and its binding."""
LOADS: Final = tuple(cores * 10**6 for cores in (50, 5, 150, 400))
"""What a container uses, in billionths of a core. The first is what it uses in the end."""
_MEMORY: Final = 1024**2


async def change_placement(stage: SwarmStage, client: Client) -> None:
    """The candidate for a share, beside the baseline; or one of them for all, which is refused while the other is
    active; or one of them no more."""
    name = (BASELINE, CANDIDATE)[stage.choose("which version", 2)]
    for each, spec in PLACEMENT.items():
        with suppress(AlreadyExists):
            await client.create(PLACEMENT_POLICIES, {"metadata": {"name": each}, "spec": spec})
    changes: tuple[Object, ...] = (
        {"active": False},
        {"active": True, "limit": None},
        {"active": True, "limit": {"percent": SHARES[stage.choose("share", len(SHARES))]}},
    )
    with suppress(Invalid):
        change = changes[stage.choose("placement", len(changes))]
        await client.patch(PLACEMENT_POLICIES, name, "", {"spec": change})


async def change_admission(stage: SwarmStage, client: Client) -> None:
    """Deny pods of one size, or of none."""
    denied = (*CPU, "")[stage.choose("denied", len(CPU) + 1)]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [PODS.plural]}
    expression = f"object.spec.containers.all(each, each.?resources.?requests.?cpu.orValue('') != '{denied or 'none'}')"
    validation = {"expression": expression, "message": f"no pod may request {denied}"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    await ensure(client, VALIDATING_ADMISSION_POLICIES, SIZES, {"spec": spec})
    binding = {"spec": {"policyName": SIZES, "validationActions": ["Deny"]}}
    await ensure(client, VALIDATING_ADMISSION_POLICY_BINDINGS, SIZES, binding)


async def change_load(stage: SwarmStage, client: Client) -> None:
    stage.load = LOADS[stage.choose("load", len(LOADS))]


def use_load(stage: SwarmStage, container: ContainerId) -> ContainerUsage:
    """What a container uses just now."""
    return ContainerUsage(stage.load, _MEMORY)


async def lift_policies(stage: SwarmStage, client: Client) -> None:
    """Let no policy stand in the way of pods any more, and the load be as in the beginning."""
    stage.load = LOADS[0]
    for found in (await client.list(PLACEMENT_POLICIES)).items:
        if found["spec"]["active"]:
            await client.patch(PLACEMENT_POLICIES, found["metadata"]["name"], "", {"spec": {"active": False}})
    with suppress(NotFound):
        await client.delete(VALIDATING_ADMISSION_POLICY_BINDINGS, SIZES)


CHANGES: Final = (
    UserAction("placement", 2, change_placement),
    UserAction("admission", 1, change_admission),
)
"""In every world."""

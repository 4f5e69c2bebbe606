"""What must be there in the end, whatever went wrong and whichever programs are gone for good: as users see it, and as
it is.

Each workload has exactly what it wants, and says so about its latest generation; every pod runs where the server says,
and nothing else runs; nodes that are alive are well; ledgers and quotas are the sums of what there is. What was on a
node that is lost has been moved. All this from the store and the machines, and not from a cache.

A namespace that is being deleted goes after its pods. While one of these is on a machine that is lost for good, and no
operator has said so, it is unknown whether it has ended: the namespace stays, with all that is in it, and no workload
in it can have what it wants.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mainstay.agent.runner import Exited
from mainstay.api import pod_state
from mainstay.api.annotations import is_at_most_one
from mainstay.api.kind import Object
from mainstay.api.node_health import HEALTH
from mainstay.scenarios._swarm import SwarmStage
from mainstay.server.placement.ledger.ledger import ledger_in, ledger_key
from mainstay.server.placement.ledger.recount import find_drift
from mainstay.sim.checkers import namespaces, observed_generations, orphans, quotas
from mainstay.sim.checkers.decoded import decode_commit

_SETS: Final = "apps/replicasets/"
_APPS: Final = "apps/deployments/"
_JOBS: Final = "batch/jobs/"


WORLD: Final = "world"

Missing = tuple[str, str]
"""Whose promise it is, and what is not as promised."""


async def find_deviations(stage: SwarmStage) -> Missing | None:
    """The first thing that is not as it should be; None if all is."""
    world = stage.world
    nodes = {_name(node): node for node in await _all(stage, "core/nodes/")}
    live = [name for name in world.machines if name not in world.lost]
    blocked = await namespaces.find_blocked(world)
    pods, sets = await _all(stage, "core/pods/"), _outside(blocked, await _all(stage, _SETS))
    apps, jobs = _outside(blocked, await _all(stage, _APPS)), _outside(blocked, await _all(stage, _JOBS))
    problems = (
        _about_nodes(nodes, live),
        _about_pods(pods, nodes, live),
        _about_singles(pods, stage.singles),
        _about_machines(stage, pods, live),
        _about_sets(sets, pods),
        _about_apps(apps, sets, runs_here="deployment" in [each.name for each in stage.controllers]),
        _about_jobs(jobs, pods),
        _about_namespaces(await _all(stage, "core/namespaces/"), blocked),
    )
    found = next((problem for problem in problems if problem), "") or await _about_books(stage, live)
    if found:
        return WORLD, found
    for name, problem in (
        (orphans.NAME, await orphans.find_orphans(world)),
        (quotas.NAME, await quotas.find_miscounts(world)),
        (observed_generations.NAME, await observed_generations.find_unobserved(world, stage.observed)),
    ):
        if problem:
            return name, problem
    return None


async def _all(stage: SwarmStage, prefix: str) -> list[Object]:
    return [decode_commit(entry.value) for entry in (await stage.world.store.range(prefix)).entries]


def _outside(blocked: Mapping[str, object], objects: Sequence[Object]) -> list[Object]:
    """Those in other namespaces than these."""
    return [each for each in objects if each["metadata"]["namespace"] not in blocked]


def _about_nodes(nodes: dict[str, Object], live: Iterable[str]) -> str:
    for name in live:
        node = nodes.get(name)
        if node is None:
            return f"{name} is alive, but has no Node object"
        ready: Any = pod_state.find_condition(node, "Ready") or {}
        if ready.get("status") != "True" or (node.get("spec") or {}).get("taints"):
            return f"{name} is alive, but its Node is not healthy: {ready.get('reason')}, {node.get('spec')}"
        if HEALTH in (node["metadata"].get("annotations") or {}):
            return f"{name} is healthy, but still has a node health record"
    return ""


def _about_pods(pods: Sequence[Object], nodes: dict[str, Object], live: Sequence[str]) -> str:
    for pod in pods:
        name, node = _name(pod), pod_state.get_node_name(pod)
        if pod_state.is_over(pod) and not pod_state.is_leaving(pod):
            continue
        if node and node not in nodes:
            continue  # That is a promise of its own.
        if pod_state.is_leaving(pod):
            if node in live or is_at_most_one(pod):
                return f"{name} on {node} was deleted, but still exists"
        elif not node:
            return f"{name} has no node"
        elif node not in live:
            return f"{name} is still on {node}, which is lost"
        elif not pod_state.is_ready(pod):
            return f"{name} on {node} is not ready"
    return ""


def _about_singles(pods: Sequence[Object], wanted: Iterable[str]) -> str:
    there = {_name(pod) for pod in pods}
    return next((f"{name} does not exist" for name in wanted if name not in there), "")


def _about_machines(stage: SwarmStage, pods: Sequence[Object], live: Sequence[str]) -> str:
    running = sorted(
        (name, uid)
        for name in live
        for uid in stage.world.machines[name].containers.pods()
        for state in stage.world.machines[name].containers.instances(uid).values()
        if not isinstance(state, Exited)
    )
    wanted = sorted(
        (pod_state.get_node_name(pod), pod["metadata"]["uid"])
        for pod in pods
        if not pod_state.is_over(pod) and pod_state.get_node_name(pod) in live
    )
    return "" if running == wanted else f"there are pods {wanted}, but {running} run"


def _waiting(objects: Sequence[Object]) -> dict[str, None]:
    """Uids of the owners of what is to go. Of pods that leave a lost machine it is unknown whether they have ended, and
    owners that are to go after them stay as long."""
    return {each["uid"]: None for obj in objects if pod_state.is_leaving(obj) for each in _list_references(obj)}


def _about_sets(sets: Sequence[Object], pods: Sequence[Object]) -> str:
    owned: dict[str, list[Object]] = {}
    waiting = _waiting(pods)
    for pod in pods:
        if pod_state.is_active(pod):
            for reference in _list_references(pod):
                owned.setdefault(reference["uid"], []).append(pod)
    for each in sets:
        if pod_state.is_leaving(each) and each["metadata"]["uid"] in waiting:
            continue
        status, wanted = each.get("status") or {}, each["spec"].get("replicas", 1)
        there = owned.get(each["metadata"]["uid"], [])
        if len(there) != wanted:
            return f"{_name(each)} wants {wanted} pods, but has {sorted(_name(pod) for pod in there)}"
        said = [status.get(name) or 0 for name in ("replicas", "readyReplicas", "availableReplicas")]
        if said != [wanted] * 3:
            return f"{_name(each)} has the {wanted} pods it wants, but reports {status}"
        if pod_state.is_leaving(each):
            return f"{_name(each)} was deleted, but still exists"
    return ""


def _about_apps(apps: Sequence[Object], sets: Sequence[Object], *, runs_here: bool) -> str:
    waiting = _waiting(sets)
    for each in apps:
        if pod_state.is_leaving(each) and each["metadata"]["uid"] in waiting:
            continue
        status, wanted = each.get("status") or {}, each["spec"].get("replicas", 1)
        said = [status.get(name) or 0 for name in ("replicas", "updatedReplicas", "availableReplicas")]
        if runs_here and (said != [wanted] * 3 or pod_state.is_leaving(each)):
            return f"{_name(each)} wants {wanted} replicas of its template, but reports {status}"
    return ""


def _about_jobs(jobs: Sequence[Object], pods: Sequence[Object]) -> str:
    """One is over when all its pods are gone; those that leave a lost machine are unknown."""
    held = _waiting(pods)
    for each in jobs:
        conditions = (each.get("status") or {}).get("conditions") or ()
        ends = [one for one in conditions if one["type"] in ("Complete", "Failed") and one["status"] == "True"]
        if (not ends or pod_state.is_leaving(each)) and each["metadata"]["uid"] not in held:
            return f"{_name(each)} does not finish: {each.get('status')}"
    return ""


def _about_namespaces(there: Sequence[Object], blocked: Mapping[str, object]) -> str:
    going = [_name(each) for each in there if pod_state.is_leaving(each)]
    return next((f"namespace {name} is still terminating" for name in going if name not in blocked), "")


async def _about_books(stage: SwarmStage, live: Sequence[str]) -> str:
    store = stage.world.store
    for name in stage.world.machines:
        drift, _, _ = await find_drift(store, name)
        if not drift.is_none:
            return f"the ledger of {name} is wrong: {drift}"
        if name in live and (ghosts := ledger_in(await store.get(ledger_key(name))).ghosts):
            return f"{name} is charged for {sorted(ghosts)}, which no longer exist"
    return ""


def _list_references(obj: Object) -> Sequence[Mapping[str, Any]]:
    return obj["metadata"].get("ownerReferences") or ()


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])

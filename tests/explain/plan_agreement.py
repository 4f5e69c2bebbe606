"""Does it come true? Plans for simulated clusters, compared with what then happens when they are applied.

    python -m tests.explain.plan_agreement --runs 200

Each seed is a small cluster of its own: nodes of different sizes, labels and taints in two or three zones, workloads
that are there already, sometimes quotas. Then something is planned, and done: new workloads, new templates, other
numbers of replicas, jobs, single pods, quotas, taints. Compared is, for each workload of the plan, how many pods have a
node, how many wait, how many were not made, and how many are in each zone; the last also without the zones' names,
because equally good nodes are told apart by a pod's uid, which is not known before.
"""

import argparse
import random
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from mainstay.agent.settings import TaintSetting
from mainstay.api import pod_state
from mainstay.api.kind import Kind
from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS, REPLICASETS
from mainstay.api.kinds import BUILTIN
from mainstay.api.owners import find_controller
from mainstay.cli.journal_access import OpenJournal, list_kinds
from mainstay.cli.kinds import Kinds, KnownKind
from mainstay.cli.manifests import Manifest
from mainstay.cli.plan import PlanOptions, build_plan
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.controllers.deployment import revisions
from mainstay.env import tasks
from mainstay.explain.moment import Moment
from mainstay.explain.plan.values import PlanAnswer, WorkloadPlan
from mainstay.sim.cluster.cluster import Cluster, NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation

Object = dict[str, Any]
SETTLES: Final = timedelta(seconds=60)
COMES_TRUE_WITHIN: Final = timedelta(seconds=240)
ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a workload, or would."""

    running: int
    waiting: int
    old: int
    zones: tuple[tuple[str, int], ...]

    @property
    def shape(self) -> tuple[int, int, int, tuple[int, ...]]:
        """Without the names of zones."""
        return self.running, self.waiting, self.old, tuple(sorted(count for _, count in self.zones))


@dataclass(slots=True)
class Agreement:
    workloads: int = 0
    told: int = 0
    """Of all of them, certain or not: the numbers are those that the plan told."""
    uncertain: int = 0
    """Of which the plan itself says that it may come out otherwise; these are not among the following."""
    within: int = 0
    """Of the uncertain ones, as many run as the plan says are possible."""
    counts: int = 0
    """The same number with a node, waiting, and left over."""
    shapes: int = 0
    """The same, and as many in the zones, whichever they are."""
    zones: int = 0
    """The same, and in the same zones."""
    refusals: int = 0
    refusals_same: int = 0
    """Objects: refused, or not, as planned."""
    differences: list[str] = field(default_factory=list)

    @property
    def certain(self) -> int:
        return self.workloads - self.uncertain

    def add(self, name: str, workload: WorkloadPlan, real: Fate) -> None:
        self.workloads += 1
        zones = tuple(sorted(dict(workload.zones).items()))
        planned = Fate(workload.running, workload.waiting, workload.old, zones)
        self.told += planned.shape[:3] == real.shape[:3]
        if not workload.is_certain:
            self.uncertain += 1
            is_within = workload.running_least <= real.running <= workload.running_most
            self.within += is_within
            if not is_within:
                between = f"{workload.running_least} to {workload.running_most}"
                self.differences.append(f"{name}: planned {between} running, became {real}")
            return
        self.counts += planned.shape[:3] == real.shape[:3]
        self.shapes += planned.shape == real.shape
        self.zones += planned == real
        if planned.shape != real.shape:
            self.differences.append(f"{name}: planned {planned}, became {real}")

    def __str__(self) -> str:
        return (
            f"{self.workloads} workloads, {self.told} as told; {self.certain} certain: counts {self.counts}, "
            f"spread {self.shapes}, zones {self.zones}; "
            f"{self.uncertain} not certain: {self.within} within what was said; "
            f"{self.refusals} objects: {self.refusals_same} refused or not as planned"
        )


async def compared(sim: Simulation, agreement: Agreement) -> None:
    """One cluster: plan something, do it, and compare."""
    dice = random.Random(sim.seed)
    async with whole_cluster(sim, nodes=some_nodes(dice)) as cluster:
        await tasks.sleep(timedelta(seconds=10))
        for obj in some_workloads(dice, "old", dice.randint(0, 3)):
            await apply(cluster.client, obj)
        await tasks.sleep(SETTLES)
        wanted = [*some_changes(dice, await deployments(cluster)), *some_workloads(dice, "new", dice.randint(1, 2))]
        plan = await plan_of(cluster, wanted)
        for obj, said in zip(wanted, plan.objects, strict=True):
            agreement.refusals += 1
            agreement.refusals_same += await apply(cluster.client, obj) is (said.action != "refused")
        await tasks.sleep(COMES_TRUE_WITHIN)
        for workload in plan.workloads:
            name = f"seed {sim.seed} {workload.kind}/{workload.name}"
            agreement.add(name, workload, await fate(cluster, workload))


async def plan_of(cluster: Cluster, objects: list[Object], namespace: str = "default") -> PlanAnswer:
    """What the command `mainstay plan` would say, asking the server of a simulated cluster."""
    kinds = await list_kinds(cluster.journal)
    opened = OpenJournal(journal=cluster.journal, kinds=kinds, namespace=namespace, client=cluster.client)
    return await build_plan(opened, [Manifest("test", obj) for obj in objects], PlanOptions())


async def apply(client: Client, obj: Object) -> bool:
    """Whether it was taken."""
    kind = Kinds([_known(kind) for kind in BUILTIN]).find_for(obj["apiVersion"], obj["kind"])
    assert kind is not None
    placed = {**obj, "metadata": {"namespace": "default", **obj["metadata"]}} if kind.name.namespaced else obj
    try:
        await client.apply(kind.name, placed, manager="mainstay")
    except ApiError:
        return False
    return True


def _known(kind: Kind) -> KnownKind:
    return KnownKind(kind.reference, kind.singular, kind.short_names, kind.categories, kind.verbs)


async def deployments(cluster: Cluster) -> list[Object]:
    return await (await Moment.now(cluster.journal)).all(DEPLOYMENTS)


async def fate(cluster: Cluster, workload: WorkloadPlan) -> Fate:
    """What became of it."""
    now = await Moment.now(cluster.journal)
    zones = {node["metadata"]["name"]: pod_state.get_zone(node) for node in await now.all(NODES)}
    sets = {each["metadata"]["uid"]: each for each in await now.all(REPLICASETS)}
    new = ""
    if workload.kind == "Deployment":
        deployment = await now.get(DEPLOYMENTS, workload.name, workload.namespace)
        assert deployment is not None
        own = [
            each for each in sets.values() if (find_controller(each) or {}).get("uid") == deployment["metadata"]["uid"]
        ]
        found = revisions.new_set(deployment, own)
        new = "" if found is None else found["metadata"]["uid"]
    current, old = [], 0
    for pod in await now.all(PODS):
        owner = find_controller(pod) or {}
        above = find_controller(sets[owner["uid"]]) if owner.get("uid") in sets else None
        is_own = (owner.get("kind"), owner.get("name")) == (workload.kind, workload.name)
        is_own |= above is not None and (above["kind"], above["name"]) == (workload.kind, workload.name)
        is_own |= workload.kind == "Pod" and pod["metadata"]["name"] == workload.name
        if not is_own or not pod_state.is_active(pod):
            continue
        if new and owner.get("uid") != new:
            old += 1
        else:
            current.append(pod)
    running = [pod for pod in current if pod_state.get_node_name(pod)]
    counts: dict[str, int] = {}
    for pod in running:
        if zone := zones.get(pod_state.get_node_name(pod), ""):
            counts[zone] = counts.get(zone, 0) + 1
    return Fate(len(running), len(current) - len(running), old, tuple(sorted(counts.items())))


# Clusters and wishes.


def some_nodes(dice: random.Random) -> dict[str, NodeOptions]:
    zones = "abc"[: dice.randint(1, 3)]
    return {
        f"node-{number}": NodeOptions(
            zone=zones[number % len(zones)],
            capacity={"cpu": dice.choice(("2", "3", "4")), "memory": dice.choice(("4Gi", "8Gi")), "pods": "20"},
            labels={"disk": dice.choice(("ssd", "hdd"))},
            taints=(TaintSetting("gpu", "yes", "NoSchedule"),) if dice.random() < 0.15 else (),
        )
        for number in range(dice.randint(2, 5))
    }


def some_workloads(dice: random.Random, name: str, count: int) -> list[Object]:
    return [_workload(dice, f"{name}-{number}") for number in range(count)]


def _workload(dice: random.Random, name: str) -> Object:
    kind = dice.choice(("Deployment", "Deployment", "Deployment", "ReplicaSet", "Job", "Pod"))
    template = {"metadata": {"labels": {"app": name}}, "spec": _pod_spec(dice, name)}
    metadata = {"name": name}
    match kind:
        case "Deployment" | "ReplicaSet":
            spec: Object = {
                "replicas": dice.randint(1, 6),
                "selector": {"matchLabels": {"app": name}},
                "template": template,
            }
            return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
        case "Job":
            template["spec"]["restartPolicy"] = "Never"

            spec = {"parallelism": dice.randint(1, 3), "completions": dice.randint(3, 5), "template": template}
            return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}
        case _:
            return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": template["spec"]}


def _pod_spec(dice: random.Random, name: str) -> Object:
    requests = {"cpu": dice.choice(("250m", "500m", "1", "1500m")), "memory": dice.choice(("128Mi", "1Gi"))}
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    spec: Object = {"containers": [container], "terminationGracePeriodSeconds": 5}
    if dice.random() < 0.2:
        spec["nodeSelector"] = {"disk": "ssd"}
    if dice.random() < 0.2:
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    if dice.random() < 0.2:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": ZONE,
                "maxSkew": 1,
                "whenUnsatisfiable": dice.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": name}},
            }
        ]
    return spec


def some_changes(dice: random.Random, there: list[Object]) -> list[Object]:
    found: list[Object] = []
    if dice.random() < 0.3:
        hard = {"pods": str(dice.randint(3, 9))}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard}}
        found.append(quota)
    if dice.random() < 0.2:
        spec = {"zone": "a", "hard": {"cpu": dice.choice(("1", "2"))}}
        found.append({"apiVersion": "mainstay.dev/v1", "kind": "ZoneQuota", "metadata": {"name": "a"}, "spec": spec})
    for deployment in there:
        if dice.random() < 0.6:
            found.append(_changed(dice, deployment))
    return found


def _changed(dice: random.Random, deployment: Object) -> Object:
    name, spec = deployment["metadata"]["name"], deployment["spec"]
    old = spec["template"]["spec"]
    kept = ("nodeSelector", "tolerations", "topologySpreadConstraints", "terminationGracePeriodSeconds")
    requests = dict(old["containers"][0]["resources"]["requests"])
    image, replicas = "pause", spec["replicas"]
    if dice.random() < 0.6:
        image = "pause:2"
        if dice.random() < 0.3:
            requests["cpu"] = dice.choice(("250m", "2"))
    else:
        replicas = dice.randint(0, 8)
    container = {"name": "main", "image": image, "resources": {"requests": requests}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [container], **{field: old[field] for field in kept if field in old}},
    }
    new = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": new}


def agreement_of(seeds: range) -> Agreement:
    agreement = Agreement()
    for seed in seeds:
        compare(seed, agreement)
    return agreement


def compare(seed: int, agreement: Agreement) -> None:
    with Simulation(seed) as sim:
        sim.run(compared(sim, agreement), limit=timedelta(days=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    agreement = Agreement()
    for seed in range(given.first, given.first + given.runs):
        compare(seed, agreement)
        sys.stdout.write(f"{seed}: {agreement}\n")
        sys.stdout.flush()
    sys.stdout.write("\n".join(["differences:", *agreement.differences]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

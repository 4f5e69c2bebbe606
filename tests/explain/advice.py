"""Does advice help? In simulated clusters where pods wait, one of the cures that are suggested is done, as it is said.

    python -m tests.explain.advice --runs 100

Each seed is a small cluster that is almost full, and a Deployment that does not fit. The cure that is tried is another
one for each seed. It has helped if within six minutes more pods of the Deployment have a node than before; or, where a
quota kept them out, are there.
"""

import argparse
import json
import random
import shlex
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS, REPLICASETS, RESERVATIONS, RESOURCE_QUOTAS, ZONE_QUOTAS
from mainstay.client.call import PatchType
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.explain.plan.values import PlanAnswer
from mainstay.sim.cluster.cluster import whole_cluster
from mainstay.sim.simulation import Simulation
from tests.explain.plan_agreement import apply, fate, plan_of, some_nodes

Object = dict[str, Any]
HELPS_WITHIN: Final = timedelta(minutes=6)
"""Longer than who was refused by a quota waits before it tries again."""
KINDS: Final[dict[str, KindName]] = {
    "deployment": DEPLOYMENTS,
    "replicaset": REPLICASETS,
    "node": NODES,
    "pod": PODS,
    "reservation": RESERVATIONS,
    "resourcequota": RESOURCE_QUOTAS,
    "zonequota": ZONE_QUOTAS,
}


@dataclass(slots=True)
class Advice:
    given: int = 0
    helped: int = 0
    by_change: dict[str, list[int]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {good}/{of}" for name, (of, good) in sorted(self.by_change.items()))
        return f"{self.given} cures done as they were said, {self.helped} helped: {kinds}"


async def tried(sim: Simulation, advice: Advice) -> None:
    dice = random.Random(sim.seed)
    async with whole_cluster(sim, nodes=some_nodes(dice)) as cluster:
        await tasks.sleep(timedelta(seconds=10))
        await apply(cluster.client, _filling(dice))
        await _trouble(dice, cluster.client)
        await tasks.sleep(timedelta(seconds=30))
        wanted = _wanting(dice)
        plan = await plan_of(cluster, [wanted])
        await apply(cluster.client, wanted)
        await tasks.sleep(timedelta(seconds=30))
        before = await fate(cluster, plan.workloads[0])
        cures = _cures(plan)
        if not cures or before.running >= plan.workloads[0].wanted:
            return
        changes, sentence, command = cures[dice.randrange(len(cures))]
        await done(cluster.client, command)
        await tasks.sleep(HELPS_WITHIN)
        after = await fate(cluster, plan.workloads[0])
        advice.given += 1
        made = after.running + after.waiting > before.running + before.waiting
        helped = made if changes == "RaiseQuota" else after.running > before.running
        advice.helped += helped
        count = advice.by_change.setdefault(changes, [0, 0])
        count[0] += 1
        count[1] += helped
        if not helped:
            advice.failures.append(f"seed {sim.seed}: {sentence} | {command} | {before} then {after}")


def _cures(plan: PlanAnswer) -> list[tuple[str, str, str]]:
    workload = plan.workloads[0]
    found = [cure for wait in workload.waits for cure in wait.cures] + [
        cure for refused in workload.refused for cure in refused.cures
    ]
    return [
        ("+".join(cure.changes), cure.sentence, cure.command)
        for cure in found
        if cure.command and not cure.is_wait and "mainstay" not in cure.command
    ]


async def done(client: Client, command: str) -> None:
    """What kubectl would do."""
    for part in command.split(" && "):
        await _do(client, shlex.split(part))


async def _do(client: Client, words: list[str]) -> None:
    assert words[0] == "kubectl"
    verb, rest = words[1], words[2:]
    options = {"-n": "", "-p": "", "-c": ""}
    plain = []
    while rest:
        word = rest.pop(0)
        if word in options:
            options[word] = rest.pop(0)
        else:
            plain.append(word)
    namespace = options["-n"]
    flags = dict(each.removeprefix("--").partition("=")[::2] for each in plain if each.startswith("--"))
    plain = [each for each in plain if not each.startswith("--")]
    match verb, plain:
        case "uncordon", [name]:
            await client.patch(NODES, name, "", {"spec": {"unschedulable": None}})
        case "taint", ["node", name, *taints]:
            node = await client.get(NODES, name)
            gone = {each.removesuffix("-") for each in taints}
            kept = [each for each in node["spec"].get("taints") or () if _taint(each) not in gone]
            await client.patch(NODES, name, "", {"spec": {"taints": kept or None}})
        case "label", ["node", name, *labels]:
            new = {each.removesuffix("-").partition("=")[0]: _value(each) for each in labels}
            await client.patch(NODES, name, "", {"metadata": {"labels": new}})
        case "patch", [kind, name]:
            how = PatchType.MERGE if flags.get("type") == "merge" else PatchType.STRATEGIC
            await client.patch(KINDS[kind], name, namespace, json.loads(options["-p"]), type=how)
        case "set", ["resources", target]:
            kind, _, name = target.partition("/")
            requests = dict(each.split("=") for each in flags["requests"].split(","))
            container = {"name": options["-c"], "resources": {"requests": requests}}
            body = {"spec": {"template": {"spec": {"containers": [container]}}}}
            await client.patch(KINDS[kind], name, namespace, body, type=PatchType.STRATEGIC)
        case "scale", [target]:
            kind, _, name = target.partition("/")
            await client.patch(KINDS[kind], name, namespace, {"spec": {"replicas": int(flags["replicas"])}})
        case "delete", [kind, *names]:
            for name in names:
                await client.delete(KINDS[kind], name, namespace)
        case _:
            raise AssertionError(f"unknown advice: {words}")


def _taint(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _value(label: str) -> str | None:
    return None if label.endswith("-") else label.partition("=")[2]


# Clusters.


def _deployment(name: str, replicas: int, cpu: str, **spec: Any) -> Object:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": wanted}


def _filling(dice: random.Random) -> Object:
    everywhere = [{"operator": "Exists"}]
    return _deployment("filler", dice.randint(1, 8), dice.choice(("500m", "1", "1500m")), tolerations=everywhere)


def _wanting(dice: random.Random) -> Object:
    spec: Object = {}
    if dice.random() < 0.3:
        spec["nodeSelector"] = {"disk": dice.choice(("ssd", "nvme"))}
    if dice.random() < 0.3:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": "topology.kubernetes.io/zone",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
    return _deployment("web", dice.randint(2, 5), dice.choice(("1", "2", "2500m")), **spec)


async def _trouble(dice: random.Random, client: Client) -> None:
    page = await client.list(NODES)
    for node in page.items:
        name = node["metadata"]["name"]
        if dice.random() < 0.2:
            await client.patch(NODES, name, "", {"spec": {"unschedulable": True}})
        elif dice.random() < 0.2:
            taints = [{"key": "team", "value": "other", "effect": "NoSchedule"}]
            await client.patch(NODES, name, "", {"spec": {"taints": taints}})
    if dice.random() < 0.3:
        spec = {"zone": "a", "hard": {"cpu": "2"}}
        quota = {"apiVersion": "mainstay.dev/v1", "kind": "ZoneQuota", "metadata": {"name": "a"}, "spec": spec}
        await apply(client, quota)
    if dice.random() < 0.2:
        hard = {"hard": {"requests.cpu": dice.choice(("4", "8"))}}
        await apply(client, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": hard})


def advice_of(seeds: range) -> Advice:
    advice = Advice()
    for seed in seeds:
        try_one(seed, advice)
    return advice


def try_one(seed: int, advice: Advice) -> None:
    with Simulation(seed) as sim:
        sim.run(tried(sim, advice), limit=timedelta(days=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    advice = Advice()
    for seed in range(given.first, given.first + given.runs):
        try_one(seed, advice)
        sys.stdout.write(f"{seed}: {advice}\n")
        sys.stdout.flush()
    sys.stdout.write("\n".join(["did not help:", *advice.failures]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

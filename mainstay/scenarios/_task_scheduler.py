"""A controller that puts tasks on nodes: a small scheduler, and what a user does with both.

A task is a ConfigMap; its data says on which node it is. A task whose node is gone is put on another one. Nodes and
tasks are two caches, of which either may be ahead of the other.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, NODES
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.entry import Change
from mainstay.client.errors import AlreadyExists
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.decision import Decision, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from mainstay.scenarios._stages import NAMESPACE
from mainstay.sim.checkers.placed import PlacedChecker

TASKS: Final = CONFIG_MAPS
TASK_NAMES: Final = tuple(f"task-{number}" for number in range(10))


def all_tasks(change: Change) -> Iterable[ObjectKey]:
    """A node that comes or goes may concern each of them. There are few."""
    return [ObjectKey(NAMESPACE, name) for name in TASK_NAMES]


def loads(nodes: Iterable[str], tasks: Iterable[Object]) -> Mapping[str, int]:
    """How many tasks there are on each node. Tasks may name nodes that are not known: not any more, or not yet."""
    counts = dict.fromkeys(nodes, 0)
    for task in tasks:
        node = find_node(task)
        if node in counts:
            counts[node] += 1
    return counts


def find_node(task: Object) -> str:
    return str((task.get("data") or {}).get("node", ""))


class TaskScheduler(Controller):
    name = "placing"
    kind = TASKS
    reads = (Reads(NODES, wakes=all_tasks),)

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        task = view.get(TASKS, key)
        if task is None:
            return Decision()
        nodes = {
            node["metadata"]["name"]: node["metadata"]["uid"]
            for node in view.all(NODES)
            if not (node.get("spec") or {}).get("unschedulable")
        }
        known = {node["metadata"]["name"]: node["metadata"]["uid"] for node in view.all(NODES)}
        node = find_node(task)
        if node in known and known[node] == task["data"]["uid"]:
            return Decision()
        counts = loads(nodes, view.all(TASKS))
        if not counts:
            return Decision()  # The first node that comes will wake it.
        chosen = min(counts, key=lambda name: (counts[name], name))
        data = {"node": chosen, "uid": nodes.get(chosen, "")}
        return Decision(
            actions=(Patch(TASKS, key, task["metadata"]["uid"], {"data": data}, freshness=Freshness.MAY_BE_STALE),)
        )


def placed() -> PlacedChecker:
    return PlacedChecker("core/nodes/", f"core/configmaps/{NAMESPACE}/")


async def add_node(client: Client, name: str) -> None:
    await client.create(NODES, {"metadata": {"name": name}})


async def add_task(client: Client, name: str) -> None:
    await client.create(TASKS, {"metadata": {"name": name, "namespace": NAMESPACE}})


async def add_or_remove_task(client: Client, name: str) -> None:
    try:
        await add_task(client, name)
    except AlreadyExists:
        await client.delete(TASKS, name, NAMESPACE)

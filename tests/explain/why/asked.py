"""A whole simulated cluster to ask about, and the question."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.env import tasks
from mainstay.explain.moment import Moment
from mainstay.explain.why.answer import WhyAnswer
from mainstay.explain.why.dispatch import why
from mainstay.registry import REGISTRY
from mainstay.sim.cluster.cluster import Cluster, NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation

TWO: Final[Mapping[str, Any]] = {"node-a": NodeOptions(zone="a"), "node-b": NodeOptions(zone="b")}


@asynccontextmanager
async def a_cluster(sim: Simulation, nodes: Mapping[str, Any] = TWO, **wishes: Any) -> AsyncIterator[Cluster]:
    async with whole_cluster(sim, nodes=nodes, **wishes) as cluster:
        await rest(8)
        yield cluster


async def rest(seconds: float) -> None:
    await tasks.sleep(timedelta(seconds=seconds))


async def asked(
    cluster: Cluster,
    kind: KindName,
    name: str,
    namespace: str = "default",
    *,
    generation: int | None = None,
    at: int = 0,
) -> WhyAnswer:
    """Ask, as of now or of a revision."""
    journal = cluster.journal
    moment = await Moment.at_revision(journal, at) if at else await Moment.now(journal)
    return await why(moment, REGISTRY, kind, name, namespace if kind.namespaced else "", generation)


def a_pod(name: str, cpu: str = "100m", **spec: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": _spec(cpu, spec)}


def a_deployment(
    name: str, replicas: int = 2, cpu: str = "100m", *, pod: Mapping[str, Any] | None = None, **spec: Any
) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": _spec(cpu, pod or {})}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": wanted}


def a_job(name: str, cpu: str = "100m", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": {**_spec(cpu, {}), "restartPolicy": "Never"}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": template, **spec}}


def _spec(cpu: str, more: Mapping[str, Any]) -> dict[str, Any]:
    container = {"name": "main", "image": "x:1", "command": ["work"], "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], "terminationGracePeriodSeconds": 2, **more}


def steps(answer: WhyAnswer) -> list[str]:
    return [link.step for link in answer.chain]

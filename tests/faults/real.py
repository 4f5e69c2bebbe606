"""Ten of the faults on real processes: a cluster under `mainstay up`, planted with kubectl and signals, asked with
`mainstay why`.

Each is planted in a namespace of its own, asked about, and undone; so one cluster does for all. What has to be named is
the same as in virtual time.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mainstay.cli.exits import Exit
from tests.chaos.cluster import Cluster, CommandFailed, is_true
from tests.faults.fault import Fault
from tests.faults.judging import Result, judged

NODES: Final = 2
WITHIN_S: Final = 60
ASKED_AFTER_S: Final = 3.0
"""Until then what was decided has reached the journal; components ship it several times a second."""
SILENT_FOR_S: Final = 50
"""Longer than the leases of the control plane."""
COMMAND: Final = ("sleep", "3600")

Planting = Callable[["Site"], Iterator[str]]
"""Plants, makes sure, yields what is asked, and undoes what the namespace does not take with it."""


class Site:
    """A namespace in a real cluster."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl("-n", self.namespace, *words)

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, *objects: Mapping[str, Any]) -> None:
        whole = [{**each, "metadata": {"namespace": self.namespace, **each["metadata"]}} for each in objects]
        self.cluster.apply(*whole)

    def pods(self) -> list[Any]:
        return list(self.get("pods")["items"])

    def until(self, is_so: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        self.cluster.until(is_so, within_s)

    def until_ready(self, count: int) -> None:
        self.until(lambda: sum(is_true(pod, "Ready") for pod in self.pods()) == count)

    def why(self, asked: str) -> Any:
        every = tuple(each for each in Exit if each is not Exit.ERROR)
        said = self.cluster.mainstay("why", asked, "-n", self.namespace, "-o", "json", codes=every)
        return json.loads(said)


def a_deployment(replicas: int = 1, *, container: Mapping[str, Any] | None = None, **pod: Any) -> Any:
    labels = {"app": "web"}
    main = {
        "name": "main",
        "image": "none",
        "command": list(COMMAND),
        "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}},
        **(container or {}),
    }
    spec = {"containers": [main], "terminationGracePeriodSeconds": 1, **pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def a_pod() -> Any:
    template = a_deployment()["spec"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": template["spec"]}


def _taint(site: Site) -> Iterator[str]:
    site.cluster.kubectl("taint", "nodes", "--all", "dedicated=batch:NoSchedule")
    try:
        site.apply(a_pod())
        site.until(lambda: _is_refused(site))
        yield "pod/web"
    finally:
        site.cluster.kubectl("taint", "nodes", "--all", "dedicated-")


def _no_scheduler(site: Site) -> Iterator[str]:
    with _stopped(site.cluster, "scheduler"):
        time.sleep(SILENT_FOR_S)
        site.apply(a_pod())
        time.sleep(10)
        site.until(lambda: not site.pods()[0]["spec"].get("nodeName"))
        yield "pod/web"


def _resource_quota(site: Site) -> Iterator[str]:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team-limit"},
        "spec": {"hard": {"requests.cpu": "15m"}},
    }
    site.apply(quota)
    time.sleep(2)
    site.apply(a_deployment(3))
    site.until_ready(1)
    time.sleep(5)
    site.until(lambda: len(site.pods()) == 1)
    yield "deploy/web"


def _missing_priority_class(site: Site) -> Iterator[str]:
    site.apply(a_deployment(2, priorityClassName="urgent"))
    time.sleep(5)
    site.until(lambda: not site.pods() and len(site.get("replicasets")["items"]) == 1)
    yield "deploy/web"


def _no_leader(site: Site) -> Iterator[str]:
    with _stopped(site.cluster, "controllers"):
        time.sleep(SILENT_FOR_S)
        site.apply(a_deployment(2))
        time.sleep(10)
        site.until(lambda: not site.get("replicasets")["items"])
        yield "deploy/web"


def _held_rollout(site: Site) -> Iterator[str]:
    site.apply(a_deployment(2))
    site.until_ready(2)
    expires = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    spec = {
        "what": "Rollout",
        "target": {"name": "web", "namespace": site.namespace},
        "owner": "dana",
        "reason": "INC-7: checkout is slow",
        "expiresAt": expires,
    }
    hold = {"apiVersion": "mainstay.dev/v1", "kind": "Hold", "metadata": {"name": "incident-7"}, "spec": spec}
    site.cluster.apply(hold)
    try:
        time.sleep(2)
        site.apply(a_deployment(2, container={"image": "other"}))
        time.sleep(8)
        site.until(lambda: {_image_of(pod) for pod in site.pods()} == {"none"})
        yield "deploy/web"
    finally:
        site.cluster.kubectl("delete", "holds.mainstay.dev", "incident-7")


def _crash_loop(site: Site) -> Iterator[str]:
    site.apply(a_deployment(container={"command": ["sh", "-c", "exit 3"]}))
    site.until(lambda: _waits_because(site) == "CrashLoopBackOff")
    yield "deploy/web"


def _readiness(site: Site) -> Iterator[str]:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}
    site.apply(a_deployment(container={"readinessProbe": probe}))
    site.until(lambda: [pod["status"]["phase"] for pod in site.pods()] == ["Running"])
    time.sleep(8)
    site.until(lambda: not is_true(site.pods()[0], "Ready"))
    yield "deploy/web"


def _missing_config_map(site: Site) -> Iterator[str]:
    site.apply(a_deployment(container={"envFrom": [{"configMapRef": {"name": "settings"}}]}))
    site.until(lambda: _waits_because(site) == "CreateContainerConfigError")
    yield "deploy/web"


def _budget(site: Site) -> Iterator[str]:
    site.apply(a_deployment(2))
    site.until_ready(2)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web-budget"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    site.apply(budget)
    time.sleep(3)
    pod = site.pods()[0]["metadata"]["name"]
    node = site.pods()[0]["spec"]["nodeName"]
    try:
        site.cluster.kubectl("drain", node, "--pod-selector=app=web", "--timeout=8s")
    except CommandFailed as error:
        if "disruption budget" not in str(error):
            raise
    else:
        raise AssertionError("the node was drained")
    finally:
        site.cluster.kubectl("uncordon", node)
    site.until(lambda: pod in {each["metadata"]["name"] for each in site.pods()})
    yield f"pod/{pod}"


REAL: Final[Mapping[str, Planting]] = {
    "taint": _taint,
    "resource-quota": _resource_quota,
    "missing-priority-class": _missing_priority_class,
    "held-rollout": _held_rollout,
    "crash-loop": _crash_loop,
    "readiness": _readiness,
    "missing-config-map": _missing_config_map,
    "budget": _budget,
    "no-scheduler": _no_scheduler,
    "no-leader": _no_leader,
}


def tried_for_real(faults: Sequence[Fault]) -> Iterator[Result]:
    """One after the other, in one cluster."""
    with Cluster(nodes=NODES) as cluster:
        cluster.until(lambda: len(cluster.ready_nodes()) == NODES)
        for fault in faults:
            yield _tried(cluster, fault)


def _tried(cluster: Cluster, fault: Fault) -> Result:
    cluster.kubectl("create", "namespace", fault.name)
    site = Site(cluster, fault.name)
    planting = contextmanager(REAL[fault.name])
    try:
        with planting(site) as asked:
            time.sleep(ASKED_AFTER_S)
            return _judged(site, fault, asked)
    except AssertionError as error:
        return Result(fault=fault, not_planted=str(error))
    finally:
        cluster.kubectl("delete", "namespace", fault.name, "--wait=false")


def _judged(site: Site, fault: Fault, asked: str) -> Result:
    began = time.perf_counter()
    try:
        said = site.why(asked)
    except CommandFailed as error:
        return Result(fault=fault, asked=asked, error=str(error)[:2000])
    result = judged(fault, asked, said["cause"], said["sentence"], said["verdict"])
    took_ms = (time.perf_counter() - began) * 1000
    return replace(result, took_ms=took_ms)


@contextmanager
def _stopped(cluster: Cluster, component: str) -> Iterator[None]:
    """A process that is there and does nothing: its supervisor sees nothing wrong."""
    pid = cluster.components()[component]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _is_refused(site: Site) -> bool:
    conditions = site.pods()[0]["status"].get("conditions") or ()
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def _waits_because(site: Site) -> str:
    for pod in site.pods():
        for each in pod["status"].get("containerStatuses") or ():
            if reason := (each["state"].get("waiting") or {}).get("reason"):
                return str(reason)
    return ""


def _image_of(pod: Any) -> str:
    return str(pod["spec"]["containers"][0]["image"])

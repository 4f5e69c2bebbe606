"""Every decision of a real cluster made again: people at work, processes killed, then all of its journal replayed.

    python -m tests.chaos.replay --minutes 10 --seed 7

A cluster of real processes (`mainstay up`) runs workloads that come, change and go at random, while its server, its
scheduler, its controllers and its agents are killed now and then. Then `mainstay replay` asks the server for its
journal, and makes every decision of that time again. It prints how many came out the same, by component, and what could
not be made again, by reason. One that comes out otherwise is a bug: the bundle with it stays.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mainstay.cli.exits import Exit
from tests.chaos.cluster import Cluster, CommandFailed

NAMES = ("web", "api", "db", "cache")
SPACES = ("default", "team-a")
VICTIMS = ("server", "scheduler", "controllers", "node-1", "node-2", "node-3")
SETTLE_S = 10
BETWEEN_S = (0.3, 1.5)
KILL_ONE_IN = 25
LIMIT_S = 1200


class Work:
    """What people do, one thing after the other."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.cluster = cluster
        self.chance = chance
        self.done = 0
        self.refused = 0
        self.kills: list[str] = []
        self._numbers = 0

    def step(self) -> None:
        things = (
            *(self._deploy,) * 5,
            *(self._job,) * 2,
            self._pod,
            self._service,
            self._budget,
            *(self._remove,) * 2,
            self._namespace,
            self._cordon,
        )
        try:
            self.chance.choice(things)()
            self.done += 1
        except CommandFailed:
            self.refused += 1
        if self.chance.randrange(KILL_ONE_IN) == 0:
            self._kill()

    def _place(self) -> tuple[str, str]:
        return self.chance.choice(NAMES), self.chance.choice(SPACES)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _apply(self, api: str, kind: str, name: str, namespace: str, **fields: Any) -> None:
        metadata: dict[str, Any] = {"name": name}
        if namespace:
            metadata["namespace"] = namespace
        self.cluster.apply({"apiVersion": api, "kind": kind, "metadata": metadata, **fields})

    def _template(self, name: str, seconds: float = 1000, **spec: Any) -> dict[str, Any]:
        container = {
            "name": "main",
            "image": "none",
            "command": ["sleep", str(seconds)],
            "env": [{"name": "VERSION", "value": str(self._number())}],
            "resources": {"requests": {"cpu": self.chance.choice(("10m", "50m", "200m", "900")), "memory": "10Mi"}},
        }
        pod = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
        return {"metadata": {"labels": {"app": name}}, "spec": pod}

    def _deploy(self) -> None:
        name, namespace = self._place()
        spec = {
            "replicas": self.chance.randrange(0, 6),
            "selector": {"matchLabels": {"app": name}},
            "template": self._template(name),
        }
        self._apply("apps/v1", "Deployment", name, namespace, spec=spec)

    def _job(self) -> None:
        name, namespace = self._place()
        template = self._template(name, self.chance.choice((0, 0.5, 2)), restartPolicy="Never")
        spec = {"completions": self.chance.randrange(1, 5), "parallelism": 2, "backoffLimit": 1, "template": template}
        self._apply("batch/v1", "Job", f"{name}-{self._number()}", namespace, spec=spec)

    def _pod(self) -> None:
        name, namespace = self._place()
        template = self._template(name)
        self._apply("v1", "Pod", f"{name}-alone-{self._number()}", namespace, spec=template["spec"])

    def _service(self) -> None:
        name, namespace = self._place()
        self._apply("v1", "Service", name, namespace, spec={"selector": {"app": name}, "ports": [{"port": 80}]})

    def _budget(self) -> None:
        name, namespace = self._place()
        spec = {"minAvailable": self.chance.randrange(1, 3), "selector": {"matchLabels": {"app": name}}}
        self._apply("policy/v1", "PodDisruptionBudget", name, namespace, spec=spec)

    def _remove(self) -> None:
        kind = self.chance.choice(("pods", "deployments", "jobs", "services"))
        found = [each["metadata"] for each in self.cluster.get(kind, "-A")["items"]]
        if found:
            chosen = self.chance.choice(found)
            self.cluster.kubectl("delete", kind, chosen["name"], "-n", chosen["namespace"], "--wait=false")

    def _namespace(self) -> None:
        name = f"passing-{self.chance.randrange(2)}"
        there = [each["metadata"]["name"] for each in self.cluster.get("namespaces")["items"]]
        if name in there:
            self.cluster.kubectl("delete", "namespace", name, "--wait=false")
        else:
            self._apply("v1", "Namespace", name, "")
            self._apply("v1", "ConfigMap", "something", name, data={"a": "b"})

    def _cordon(self) -> None:
        node = self.chance.choice([each["metadata"]["name"] for each in self.cluster.get("nodes")["items"]])
        self.cluster.kubectl(self.chance.choice(("cordon", "uncordon", "uncordon")), node)

    def _kill(self) -> None:
        running = self.cluster.recorded()
        victims = [name for name in running if name != "supervisor"]
        if not victims:
            return
        victim = self.chance.choice(sorted(victims))
        try:
            os.kill(running[victim], signal.SIGKILL)
        except ProcessLookupError:
            return
        self.kills.append(victim)


def mainstay(cluster: Cluster, *arguments: str) -> bytes:
    """What a command answers that may take its time."""
    command = [sys.executable, "-m", "mainstay.cli.main", *arguments]
    done = subprocess.run(command, env=cluster.environment, capture_output=True, timeout=LIMIT_S)
    if done.returncode not in (Exit.SATISFIED, Exit.BLOCKED, Exit.INCOMPLETE):
        raise CommandFailed(f"{command} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def replayed(cluster: Cluster, minutes: float, bundle: Path) -> Any:
    """What `mainstay replay` says about all of that time: what the server's journal has of it, put into a bundle."""
    began = time.monotonic()
    bundle.write_bytes(mainstay(cluster, "record", f"--since={int(minutes * 60) + 120}s"))
    recorded = time.monotonic()
    answer = json.loads(mainstay(cluster, "replay", str(bundle), "-o", "json"))
    size = bundle.stat().st_size / 1e6
    print(f"recorded in {recorded - began:.0f} s, {size:.1f} MB; replayed in {time.monotonic() - recorded:.0f} s")
    return answer


def show(answer: Any) -> int:
    """Print it by component. Returns how many differ."""
    counts: dict[str, dict[str, int]] = {}
    differences = []
    for each in answer["decisions"]:
        what = each["answer"] if each["answer"] != "cannot" else f"cannot: {each['why']}"
        counts.setdefault(each["component"], {}).setdefault(what, 0)
        counts[each["component"]][what] += 1
        if each["answer"] == "differs":
            differences.append(each)
    print(f"{'component':<24}{'same':>8}{'differs':>9}   cannot be made again")
    for component, by in sorted(counts.items()):
        cannot = ", ".join(f"{what[8:]} {count}" for what, count in sorted(by.items()) if what.startswith("cannot"))
        print(f"{component:<24}{by.get('same', 0):>8}{by.get('differs', 0):>9}   {cannot}")
    print(f"{answer['replayed']} decisions made again, {100 * answer['agreement']:.3f} % the same")
    for each in differences[:10]:
        print(f"\n{each['id']} about {each['subject']}: {each['field']}")
        print(f"  recorded: {each['recorded'][:1000]}\n  now:      {each['now'][:1000]}")
    return len(differences)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.replay", description="Replay a real cluster.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with Cluster(nodes=3) as cluster:
        cluster.until(lambda: len(cluster.ready_nodes()) == 3)
        cluster.kubectl("create", "namespace", SPACES[1])
        chance = random.Random(options.seed)
        work = Work(cluster, chance)
        until = time.monotonic() + options.minutes * 60
        while time.monotonic() < until:
            work.step()
            time.sleep(chance.uniform(*BETWEEN_S))
        time.sleep(SETTLE_S)
        cluster.up()
        print(f"{work.done} things done, {work.refused} refused, {len(work.kills)} kills: {', '.join(work.kills)}")
        bundle = cluster.directory / "incident.bundle"
        try:
            differ = show(replayed(cluster, options.minutes, bundle))
        except BaseException:
            cluster.keep()
            print(f"the cluster is left in {cluster.directory}")
            raise
        if differ:
            cluster.keep()
            print(f"{differ} differ: mainstay replay {bundle} -o wide")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

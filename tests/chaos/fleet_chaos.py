"""Half an hour in the life of a fleet that is hurt all the time: kills, cut cables, frozen processes, an etcd member
that is lost for good and replaced, an upgrade in the middle.

    python -m tests.chaos.fleet_chaos --minutes 30 --seed 7

Meanwhile clients write through the load balancer, and pods run that must never run twice. In the end everything has to
be well again by itself; nothing acknowledged may be lost, nothing may have run twice. It prints how long no write was
acknowledged, at the longest. If a promise is broken, a bundle is left for `mainstay replay`.
"""

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.client.client import Client
from mainstay.client.config import from_kubeconfig_file
from mainstay.client.errors import ApiError, NotFound
from mainstay.env import Chance, Env, SystemClock, SystemDisk
from tests.chaos.cluster import mount_shared, script_command
from tests.chaos.fleet import CONTROLLERS, ETCD, NODES, SCHEDULERS, SPARE, Fleet, mainstay
from tests.chaos.kills import Ledger
from tests.chaos.store_writer import NAMES, is_there
from tests.processes import wait_until

ONLY = tuple(f"only-{number}" for number in range(4))
WEB_REPLICAS = 6
HURT_S = (1.0, 10.0)
PAUSE_S = (1.0, 5.0)
CALM_WITHIN_S = 300


class Load:
    """Clients that write one step after another, and look what became of a step that was not answered."""

    def __init__(self, fleet: Fleet, ledger: Ledger) -> None:
        self.ledger = ledger
        self.longest_gap_s = 0.0
        self.unanswered = 0
        self._fleet = fleet
        self._last = time.monotonic()
        self._env = Env(SystemClock(), Chance.fresh(), SystemDisk(fleet.directory / "load"))

    async def run(self) -> None:
        config = from_kubeconfig_file(self._fleet.kubeconfig)
        async with Client(config, self._env, user_agent="load") as client:
            self._last = time.monotonic()
            await asyncio.gather(*(self._write(client, name) for name in NAMES))

    async def _write(self, client: Client, name: str) -> None:
        while True:
            try:
                step = self.ledger.steps[name] + 1
                await _take(client, name, step)
                self._acknowledged(name, step)
            except (ApiError, OSError, TimeoutError):
                self.unanswered += 1
                await self._look(client, name)
            await asyncio.sleep(0.05)

    def _acknowledged(self, name: str, step: int) -> None:
        now = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last)
        self._last = now
        self.ledger.acknowledge(name, step)

    async def _look(self, client: Client, name: str) -> None:
        """What is there now: the last acknowledged step, or the one that was not answered."""
        while True:
            await asyncio.sleep(0.3)
            with contextlib.suppress(ApiError, OSError, TimeoutError):
                found = await _find_step(client, name)
                done = self.ledger.steps[name]
                possible = [step for step in (done, done + 1) if found == (step if is_there(step) else None)]
                if not possible:
                    self.ledger.wrong.append(f"{name} was acknowledged at step {done}, and is at {found}")
                    possible = [done if found is None else found]
                self.ledger.steps[name] = possible[0]
                return


async def _take(client: Client, name: str, step: int) -> None:
    data = {"data": {"step": str(step)}}
    if not is_there(step):
        await client.delete(CONFIG_MAPS, name, "default")
    elif is_there(step - 1):
        await client.patch(CONFIG_MAPS, name, "default", data)
    else:
        await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}, **data})


async def _find_step(client: Client, name: str) -> int | None:
    try:
        return int((await client.get(CONFIG_MAPS, name, "default"))["data"]["step"])
    except NotFound:
        return None


class Chaos:
    """What is done to a fleet, one thing after another; two at a time now and then."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet = fleet
        self.history: list[str] = []
        self._chance = random.Random(seed)

    async def run(self, minutes: float) -> None:
        began, length = time.monotonic(), minutes * 60
        extras = [(0.33, self._lose_member), (0.66, self._upgrade)]
        while (passed := time.monotonic() - began) < length:
            if extras and passed > extras[0][0] * length:
                await extras.pop(0)[1]()
            await self._hurt()
            await asyncio.sleep(self._chance.uniform(*PAUSE_S))

    async def _hurt(self) -> None:
        name = self._chance.choice(sorted(self.fleet.processes))
        process, how_long = self.fleet.processes[name], self._chance.uniform(*HURT_S)
        match self._chance.choice(("kill", "kill", "freeze", "cut")):
            case "kill":
                self._note(f"kill {name} for {how_long:.1f} s")
                process.kill()
                await asyncio.sleep(how_long)
                process.start()
            case "freeze":
                self._note(f"freeze {name} for {how_long:.1f} s")
                process.freeze()
                await asyncio.sleep(how_long)
                process.thaw()
            case _:
                self._note(f"cut {name} for {how_long:.1f} s")
                self.fleet.lan.cut(process.machine)
                await asyncio.sleep(how_long)
                self.fleet.lan.heal(process.machine)
        if name in (*ETCD, SPARE):  # Two members out of three have to be there: wait for this one.
            await asyncio.to_thread(wait_until, lambda: self.fleet.is_healthy(name), 60.0)

    async def _lose_member(self) -> None:
        lost = self._chance.choice(ETCD)
        self._note(f"lose {lost} for good, {SPARE} takes its place")
        await asyncio.to_thread(self.fleet.replace_member, lost)

    async def _upgrade(self) -> None:
        for name in (*SCHEDULERS, *CONTROLLERS):
            self._note(f"upgrade {name}")
            await asyncio.to_thread(self.fleet.upgrade, name)
            await asyncio.sleep(3)

    def _note(self, what: str) -> None:
        self.history.append(f"{time.strftime('%H:%M:%S')} {what}")
        print(self.history[-1], flush=True)


def deploy(fleet: Fleet) -> None:
    web = {"name": "web", "image": "none", "command": ["sleep", "100000"]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [web]}}
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": WEB_REPLICAS, "selector": selector, "template": template}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    ]
    for name in ONLY:
        command = [*script_command("exclusive.py"), str(fleet.shared), name]
        container = {"name": "only", "image": "none", "command": command}
        pod = mount_shared({"terminationGracePeriodSeconds": 2, "containers": [container]}, fleet.shared)
        labels = {"app": name}
        annotations = {"mainstay.dev/at-most-one": "true"}
        template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod}
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": template,
            "strategy": {"type": "Recreate"},
        }
        objects.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
    fleet.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def is_well(fleet: Fleet) -> bool:
    """Every node is ready, and every replica available."""
    try:
        nodes = json.loads(fleet.kubectl("get", "nodes", "-o", "json"))["items"]
        found = json.loads(fleet.kubectl("get", "deployments", "-o", "json"))["items"]
    except (AssertionError, subprocess.TimeoutExpired):
        return False
    ready = [
        node
        for node in nodes
        for each in node["status"]["conditions"]
        if (each["type"], each["status"]) == ("Ready", "True")
    ]
    available = all(each["status"].get("availableReplicas") == each["spec"]["replicas"] for each in found)
    return len(ready) == len(NODES) and len(found) == len(ONLY) + 1 and available


async def run(fleet: Fleet, minutes: float, seed: int) -> tuple[Load, Chaos, list[str]]:
    """Hurt a fleet. Returns what was wrong besides."""
    deploy(fleet)
    assert await asyncio.to_thread(wait_until, lambda: is_well(fleet), CALM_WITHIN_S), "the fleet does not start"
    ledger = Ledger()
    load, chaos = Load(fleet, ledger), Chaos(fleet, seed)
    writing = asyncio.create_task(load.run())
    await chaos.run(minutes)
    wrong = []
    began = time.monotonic()
    if not await asyncio.to_thread(wait_until, lambda: is_well(fleet), CALM_WITHIN_S, every_s=1.0):
        wrong.append(f"the fleet is not well {CALM_WITHIN_S} s after the last fault")
    print(f"well again {time.monotonic() - began:.0f} s after the last fault", flush=True)
    writing.cancel()
    await asyncio.wait([writing])
    if writing.cancelled() is False and writing.exception() is not None:
        wrong.append(f"the load has ended: {writing.exception()!r}")
    violations = fleet.shared / "violations"
    if violations.exists():
        wrong.append(violations.read_text())
    return load, chaos, wrong


def leave_bundle(fleet: Fleet, seed: int) -> str:
    path = Path("chaos-failures").absolute() / f"fleet-seed-{seed}.bundle"
    path.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        mainstay("record", "--since=24h"), env=fleet.environment, capture_output=True, timeout=300, check=False
    )
    path.write_bytes(done.stdout)
    return f"mainstay replay {path}" if done.stdout else f"no bundle: {done.stderr.decode(errors='replace')}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.fleet_chaos", description="Hurt a fleet.")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--release", default="", help="Schedulers and controllers are of this release, then upgraded")
    options = parser.parse_args(arguments)
    with Fleet(release=options.release) as fleet:
        load, chaos, wrong = asyncio.run(run(fleet, options.minutes, options.seed))
        wrong += load.ledger.wrong
        print(
            f"{len(chaos.history)} faults, {load.ledger.writes:,} acknowledged writes, {load.unanswered} unanswered,"
            f" longest time without an acknowledged write {load.longest_gap_s:.1f} s, {len(wrong)} wrong"
        )
        if wrong:
            fleet.keep()
            print("\n".join(wrong[:20]), f"\nthe fleet's files are left in {fleet.directory}")
            print(leave_bundle(fleet, options.seed))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the demo sees of its cluster, live: it follows objects, says what changes, and asks the Service all the time.

The client goes by the EndpointSlices of the Service alone, as a proxy does: it asks those that are ready, in turn.
"""

import asyncio
import itertools
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, ENDPOINT_SLICES, NODES, PODS
from mainstay.api.progress import read_progress
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.env import tasks

HEALTH = "mainstay.dev/health"
ASK_EVERY_S = 0.01
FAILURES_SHOWN = 3

Obj = dict[str, Any]


class View:
    """The cluster as it was last heard of."""

    def __init__(self) -> None:
        self.objects: dict[KindName, dict[str, Obj]] = {
            kind: {} for kind in (PODS, NODES, DEPLOYMENTS, ENDPOINT_SLICES)
        }
        self.answers = 0
        self.failures: list[str] = []
        self._said: dict[str, str] = {}
        self._began = time.monotonic()

    @asynccontextmanager
    async def following(self, client: Client) -> AsyncIterator[None]:
        running = [tasks.spawn(self._follow(client, kind), name=f"follow {kind}") for kind in self.objects]
        running.append(tasks.spawn(self._ask(), name="ask"))
        try:
            yield
        finally:
            for task in running:
                await tasks.stop(task)

    # What there is.

    def pods(self) -> dict[str, Obj]:
        """Those that are there to stay."""
        found = self.objects[PODS].items()
        return {name: pod for name, pod in sorted(found) if not pod["metadata"].get("deletionTimestamp")}

    def ready(self) -> dict[str, Obj]:
        return {name: pod for name, pod in self.pods().items() if is_ready(pod)}

    def leaving(self) -> list[str]:
        return [name for name in self.objects[PODS] if name not in self.pods()]

    def nodes_of_ready(self) -> list[str]:
        return [pod["spec"]["nodeName"] for pod in self.ready().values()]

    def health(self, node: str) -> str:
        """What the controllers make of a node; empty: it is healthy."""
        return str(health_of(self.objects[NODES].get(node, {})).get("state", ""))

    def verdict(self, name: str) -> str:
        """What is made of a Deployment as it is now; empty: nothing yet."""
        deployment = self.objects[DEPLOYMENTS].get(name)
        progress = None if deployment is None else read_progress(deployment)
        if deployment is None or progress is None:
            return ""
        is_old = progress.observed_generation < deployment["metadata"]["generation"]
        return "" if is_old else str(progress.verdict)

    # What happens.

    async def _follow(self, client: Client, kind: KindName) -> None:
        objects = self.objects[kind]
        namespace = "default" if kind.namespaced else ""
        while True:
            # A watch ends with its server. Then another one begins.
            with suppress(ApiError):
                async with client.watch(kind, namespace, initial_events=True, resource_version="0") as changes:
                    async for change in changes:
                        if change.type == "BOOKMARK":
                            continue
                        obj = msgspec.json.decode(change.object)
                        name = obj["metadata"]["name"]
                        if change.type == "DELETED":
                            objects.pop(name, None)
                        else:
                            objects[name] = obj
                            self._tell(kind, name, obj)
            await asyncio.sleep(0.2)

    def _tell(self, kind: KindName, name: str, obj: Obj) -> None:
        text = node_text(obj) if kind is NODES else progress_text(obj) if kind is DEPLOYMENTS else ""
        before = self._said.get(name)
        if text and text != before and not (before is None and kind is NODES and text == "healthy"):
            say(f"  {time.monotonic() - self._began:5.1f} s  {name:<9} {text}")
        if text:
            self._said[name] = text

    def begin(self) -> None:
        """Times are counted from here."""
        self._began = time.monotonic()

    # Asking.

    def endpoints(self) -> list[str]:
        return sorted(
            f"{address}:{port['port']}"
            for piece in self.objects[ENDPOINT_SLICES].values()
            if (piece["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != "kubernetes"
            for endpoint in piece.get("endpoints") or ()
            if (endpoint.get("conditions") or {}).get("ready") is not False
            for address in endpoint["addresses"]
            for port in piece.get("ports") or ()
        )

    async def _ask(self) -> None:
        for number in itertools.count():
            if found := self.endpoints():
                host = found[number % len(found)]
                try:
                    await get(f"http://{host}/")
                    self.answers += 1
                except OSError as error:
                    self.failures.append(f"{host}: {error}")
            await asyncio.sleep(ASK_EVERY_S)

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        """Says how many requests there were meanwhile, and how many have failed."""
        answers, failures = self.answers, len(self.failures)
        yield
        failed = self.failures[failures:]
        say(f"{self.answers - answers} requests to risk-api meanwhile: {len(failed)} failed")
        for each in failed[:FAILURES_SHOWN]:
            say(f"    {each}")


def is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def health_of(node: Obj) -> Obj:
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(HEALTH)
    found: Obj = msgspec.json.decode(text) if text else {}
    return found


_MEANS = {
    "Suspect": "nothing new is placed there",
    "Unknown": "no traffic to its pods, which keep all they have",
    "Released": "its pods are replaced",
}


def node_text(node: Obj) -> str:
    health = health_of(node)
    if not health:
        return "healthy"
    evidence = "; ".join(each for each in health.get("evidence", ()) if "silent" not in each)
    return f"{health['state']}: {_MEANS.get(health['state'], '')}  ({evidence})"


def progress_text(deployment: Obj) -> str:
    progress = read_progress(deployment)
    if progress is None:
        return ""
    text = f"{progress.desired} wanted, {progress.bound} bound, {progress.ready} ready, {progress.serving} serving"
    if (limit := progress.limited_by) is not None:
        text += f"; {limit.count} wait to be {limit.stage} ({limit.component}: {limit.reason})"
    return f"{text} → {progress.verdict}"


async def get(url: str) -> str:
    return await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=5).read().decode())


async def until(what: str, is_so: Callable[[], bool], patience_s: float) -> None:
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > patience_s:
            raise Unexpected(f"not so after {patience_s:.0f} s: {what}")
        await asyncio.sleep(0.02)
    say(f"{what}, after {time.monotonic() - began:.1f} s")


class Unexpected(Exception):
    """The demo does not show what it should."""


def title(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}", flush=True)


def say(*words: object) -> None:
    print("  ", *words, flush=True)

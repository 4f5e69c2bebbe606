"""Draining a node: cordon it, evict its pods as budgets allow, wait until they are gone.

Which pods are evicted, and which stop the drain, is a pure function (`sort_pods`), with the rules of `kubectl drain`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS
from mainstay.cli.cluster_access import MANAGER, Screen
from mainstay.cli.exits import Exit

if TYPE_CHECKING:
    from mainstay.client.client import Client

LOOKED_AT_EVERY: Final = timedelta(seconds=1)
ASKED_AGAIN_EVERY: Final = timedelta(seconds=5)
"""After a budget has refused an eviction."""
_FINISHED: Final = ("Succeeded", "Failed")
_MIRROR: Final = "kubernetes.io/config.mirror"
_NAMES_SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class DrainOptions:
    timeout: timedelta
    grace_s: int = -1
    """-1: what each pod says."""
    ignores_daemon_sets: bool = False
    deletes_local_data: bool = False
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class SortedPods:
    evicted: tuple[Object, ...]
    left: tuple[str, ...]
    """Pods that stay, in words."""
    problems: tuple[str, ...]
    """Why nothing is evicted at all. Empty: there is no reason."""


def sort_pods(pods: Sequence[Object], options: DrainOptions) -> SortedPods:
    """What to do about each pod of a node."""
    evicted: list[Object] = []
    left, daemons, lonely, local = list[str](), list[str](), list[str](), list[str]()
    for pod in sorted(pods, key=_show):
        metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
        owners = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
        if _MIRROR in (metadata.get("annotations") or {}):
            continue
        if owners and owners[0].get("kind") == "DaemonSet" and phase not in _FINISHED:
            (left if options.ignores_daemon_sets else daemons).append(_show(pod))
            continue
        if not owners and phase not in _FINISHED and not options.is_forced:
            lonely.append(_show(pod))
        if _has_local_data(pod) and phase not in _FINISHED and not options.deletes_local_data:
            local.append(_show(pod))
        evicted.append(pod)
    problems = [
        *_explain("pods of DaemonSets", daemons, "use --ignore-daemonsets to leave them"),
        *_explain("pods that no controller recreates", lonely, "use --force to lose them"),
        *_explain("pods with data in emptyDir volumes", local, "use --delete-emptydir-data to lose it"),
    ]
    return SortedPods(tuple(evicted), tuple(left), tuple(problems))


def _explain(what: str, names: Sequence[str], advice: str) -> list[str]:
    if not names:
        return []
    shown = ", ".join(names[:_NAMES_SHOWN_MAX]) + (", …" if len(names) > _NAMES_SHOWN_MAX else "")
    return [f"{what} ({shown}): {advice}"]


def _has_local_data(pod: Mapping[str, Any]) -> bool:
    return any(volume.get("emptyDir") is not None for volume in (pod.get("spec") or {}).get("volumes") or ())


def _show(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


async def drain_node(client: "Client", screen: Screen, node: str, options: DrainOptions) -> int:
    """Do what `mainstay node drain` does. Raises `ApiError`, `click.ClickException`."""
    await cordon(client, screen, node)
    pods = (await client.list(PODS, fields=f"spec.nodeName={node}")).items
    found = sort_pods(pods, options)
    if found.problems:
        raise click.ClickException(f"cannot drain node {node}, which is cordoned: " + "; ".join(found.problems))
    for name in found.left:
        screen.note(f"ignoring pod {name} of a DaemonSet")
    return await _Evictions(client, screen, options, found.evicted).run(node)


async def cordon(client: "Client", screen: Screen, node: str) -> None:
    """Raises `ApiError`."""
    from mainstay.client.call import WriteOptions

    there = await client.get(NODES, node)
    if not (there.get("spec") or {}).get("unschedulable"):
        await client.patch(
            NODES, node, "", {"spec": {"unschedulable": True}}, write=WriteOptions(field_manager=MANAGER)
        )
        screen.note(f"node {node} cordoned")


class _Evictions:
    def __init__(self, client: "Client", screen: Screen, options: DrainOptions, pods: Sequence[Object]) -> None:
        from mainstay.env import SystemClock

        self._client = client
        self._screen = screen
        self._options = options
        self._clock = SystemClock()
        self._left = {_show(pod): pod for pod in pods}
        self._asked: dict[str, None] = {}
        self._blocked: dict[str, str] = {}
        """Pods whose eviction was refused, and why."""

    async def run(self, node: str) -> int:
        from mainstay.env import tasks

        count, began_ns = len(self._left), self._clock.monotonic_ns()
        asked_again_ns = began_ns
        while self._left:
            now_ns = self._clock.monotonic_ns()
            if now_ns - began_ns > self._options.timeout.total_seconds() * 1e9:
                return self._give_up(node)
            if now_ns >= asked_again_ns:
                asked_again_ns = now_ns + int(ASKED_AGAIN_EVERY.total_seconds() * 1e9)
                await self._ask()
            await self._look()
            if self._left:
                await tasks.sleep(LOOKED_AT_EVERY)
        self._screen.say(f"node {node} drained: {count} {'pod' if count == 1 else 'pods'} evicted")
        return Exit.SATISFIED

    async def _ask(self) -> None:
        """Evict what was not evicted yet."""
        from mainstay.client.errors import Conflict, NotFound, Throttled

        for name, pod in self._left.items():
            if name in self._asked:
                continue
            metadata = pod["metadata"]
            delete: dict[str, Any] = {"preconditions": {"uid": metadata["uid"]}}
            if self._options.grace_s >= 0:
                delete["gracePeriodSeconds"] = self._options.grace_s
            given = {"name": metadata["name"], "namespace": metadata["namespace"]}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": given, "deleteOptions": delete}
            path = f"{PODS.path(metadata['namespace'], metadata['name'])}/eviction"
            try:
                await self._client.request("POST", path, body=body)
            except Throttled as error:
                self._block(name, error)
                continue
            except (NotFound, Conflict):
                pass  # It is gone, or another one has its name: `_look` finds out.
            self._blocked.pop(name, None)
            self._asked[name] = None
            self._screen.note(f"evicting pod {name}")

    def _block(self, name: str, error: Exception) -> None:
        causes = "; ".join(str(each.message) for each in getattr(error, "causes", ()))
        why = causes or str(error)
        if self._blocked.get(name) != why:
            self._blocked[name] = why
            self._screen.note(f"waiting to evict pod {name}: {why}")

    async def _look(self) -> None:
        from mainstay.client.errors import NotFound

        for name, pod in list(self._left.items()):
            if name not in self._asked:
                continue
            metadata = pod["metadata"]
            try:
                found = await self._client.get(PODS, metadata["name"], metadata["namespace"])
            except NotFound:
                found = None
            if found is None or found["metadata"]["uid"] != metadata["uid"]:
                del self._left[name]

    def _give_up(self, node: str) -> int:
        for name in sorted(self._left):
            why = self._blocked.get(name) or "it was evicted and has not ended yet"
            self._screen.note(f"mainstay: pod {name}: {why}")
        self._screen.note(f"mainstay: node {node} is cordoned but not drained: {len(self._left)} pods are left")
        return Exit.TIMEOUT

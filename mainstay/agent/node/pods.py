"""All pods of one node: a worker for each, their order, and what is left of those that are gone.

A pod has a worker of its own from when it is seen until nothing of it is left (agent/pod/worker.py). Before a worker
begins with a pod of which nothing is here yet, it waits for two things: that nothing is left of another pod of its
name, and that nothing is left of *strays*, which the runner has and the server has not. Under which name those ran is
not known. Then the pod is admitted, or refused for good: what runs here never needs more than the node has.

Whether a stray is one is only judged when the cache has all that the store had after it was filled: a list that is old
lacks pods that are new. A server still charges a node for a pod that was deleted by force. The agent
confirms when nothing of it is left here.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.agent.node.addresses import PodAddresses
from mainstay.agent.node.node import NodeAgent
from mainstay.agent.pod.admit import admit
from mainstay.agent.pod.events import PodEvents
from mainstay.agent.pod.preparation import Preparing
from mainstay.agent.pod.record import AgentRecording
from mainstay.agent.pod.status_report import RETRY, Turns
from mainstay.agent.pod.worker import Home, PodWorker
from mainstay.agent.runner import Exited, Runner
from mainstay.agent.settings import AgentSettings
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_resources import is_over
from mainstay.client.cache import Cache
from mainstay.client.client import Client
from mainstay.client.entry import CachedObject, Change
from mainstay.client.errors import ApiError
from mainstay.client.indexes import NODE
from mainstay.env import Env, tasks
from mainstay.env.invariants import broken
from mainstay.loop.record import Recorder

STRAY_GRACE: Final = timedelta(seconds=10)
"""What a pod is given to end of which nothing is known any more."""
CONFIRM_EVERY: Final = timedelta(minutes=1)
"""In case that a pod came and went unseen, so that no change triggers it."""
_CONFIRM_AFTER: Final = timedelta(milliseconds=500)
_ADDRESS_AFTER: Final = timedelta(seconds=1)

_logger = logging.getLogger(__name__)


class Pods:
    """The pods of one node."""

    def __init__(
        self,
        client: Client,
        turns: Turns,
        env: Env,
        runner: Runner,
        node: NodeAgent,
        settings: AgentSettings,
        cache: Cache,
        recorder: Recorder | None = None,
    ) -> None:
        """The cache has an index `NODE`, and may have pods of other nodes too."""
        self._client = client
        self._runner = runner
        self._node = node
        self._settings = settings
        self._cache = cache
        self._jitter = env.chance.stream("pods", settings.name)
        self._events = PodEvents(client, env.clock, settings.name, is_on=not settings.is_pretend)
        self._addresses = PodAddresses(settings.pod_cidr)
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._by_key: dict[ObjectKey, list[str]] = {}
        """The uids of all workers for pods of this name, in the order in which they came."""
        self._strays: dict[str, None] = {}
        self._strays_gone = asyncio.Event()
        self._changed = asyncio.Event()
        """A worker has ended, or a stray."""
        self._confirm_wanted = asyncio.Event()
        self._home = Home(
            client,
            turns,
            env.clock,
            self._jitter,
            runner,
            node,
            settings,
            cache,
            self._addresses,
            Preparing(client, env.clock, runner, node, settings),
            self._events,
            AgentRecording(recorder, env.chance, settings.name, settings.build),
        )

    async def run(self) -> None:
        """Look after them, until cancelled. The cache has been filled, and the node is registered."""
        self._runner.subscribe(self._runner_changed)
        self._node.lease_came = self._lease_came
        try:
            self._find_strays()
            known: list[CachedObject] = []
            new: list[CachedObject] = []
            for entry in self._entries():
                (known if self._remember(entry) else new).append(entry)
            for entry in (*known, *new):  # Who was taken on before keeps its room, even if nothing of it runs yet.
                self.seen(entry)
            self._confirm_wanted.set()
            await tasks.together(
                [self._end_strays(), self._confirm_ended(), self._events.run()], name=f"pods of {self._settings.name}"
            )
        finally:
            for task in list(self._tasks.values()):
                task.cancel()
            for worker in list(self._workers.values()):
                worker.close()

    def changed(self, change: Change) -> None:
        """A pod of this node has changed in the cache."""
        if change.new is not None:
            self.seen(change.new)
        elif change.old is not None:
            worker = self._workers.get(change.old.uid)
            if worker is not None:
                worker.wake()

    def seen(self, entry: CachedObject) -> None:
        worker = self._workers.get(entry.uid)
        if worker is not None:
            worker.cached(entry)
            return
        if entry.uid in self._tasks:
            raise broken("a pod has one worker", f"pod {entry.key} (uid {entry.uid})", task=self._tasks[entry.uid])
        worker = self._workers[entry.uid] = PodWorker(entry, self._home)
        # What runs here was taken on before. It counts at once, or a new one would be given its room.
        worker.is_admitted = bool(self._runner.instances(entry.uid))
        before = self._by_key.setdefault(entry.key, [])
        predecessors = [self._tasks[uid] for uid in before if uid in self._tasks]
        before.append(entry.uid)
        task = tasks.spawn(self._look_after(worker, predecessors), name=f"{self._settings.name}: pod {entry.key}")
        self._tasks[entry.uid] = task
        task.add_done_callback(lambda _: self._over(worker))

    def find(self, namespace: str, name: str) -> Object | None:
        """The pod of this name that is bound here, if there is one."""
        entry = self._cache.entry(ObjectKey(namespace, name))
        if entry is None or self._settings.name not in (entry.values[0] if entry.values else ()):
            return None
        return entry.object()

    # Taking turns.

    def _remember(self, entry: CachedObject) -> bool:
        """Keep the address that a pod has. Returns whether an earlier incarnation has admitted it."""
        pod = entry.object()
        self._runner.recover(pod)
        address = (pod.get("status") or {}).get("podIP")
        if address and not is_over(pod) and not (pod.get("spec") or {}).get("hostNetwork"):
            self._addresses.keep(entry.uid, address)
        return bool(address)

    async def _look_after(self, worker: PodWorker, predecessors: "list[asyncio.Task[None]]") -> None:
        if not worker.is_admitted and not is_over(worker.pod):
            for task in predecessors:
                while not task.done():
                    await asyncio.wait([task])
            await self._strays_gone.wait()
            await self._admit(worker)
        worker.is_admitted = worker.refused is None
        while worker.is_admitted and not is_over(worker.pod) and not worker.take_address():
            await tasks.sleep(_ADDRESS_AFTER)  # More pods end here than there are addresses, all at once.
        await worker.run()

    async def _admit(self, worker: PodWorker) -> None:
        """Admit a pod, or reject it. The Node may have changed, so it is read again before a rejection."""
        for attempt in (1, 2):
            others = [each.pod for each in self._workers.values() if each.is_admitted and not is_over(each.pod)]
            worker.refused = admit(
                worker.pod, others, self._node.object or {}, has_pod_network=self._settings.has_pod_network
            )
            if worker.refused is None:
                worker.is_admitted = True
                return
            if attempt == 1:
                try:
                    await self._node.look_again()
                except ApiError as error:
                    _logger.debug("%s: failed to read its Node: %s", self._settings.name, error)

    def _over(self, worker: PodWorker) -> None:
        if self._workers.pop(worker.uid, None) is not worker:
            raise broken("a pod has one worker", f"pod {worker.key} (uid {worker.uid})", workers=list(self._workers))
        self._tasks.pop(worker.uid, None)
        uids = self._by_key.get(worker.key, [])
        if worker.uid in uids:
            uids.remove(worker.uid)
        if not uids:
            self._by_key.pop(worker.key, None)
        if not worker.is_removed:
            self._confirm_wanted.set()

    def _runner_changed(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()
        elif uid in self._strays:
            self._changed.set()

    def _lease_came(self) -> None:
        for worker in self._workers.values():
            worker.wake()

    # Strays.

    def _find_strays(self) -> None:
        here = {entry.uid: None for entry in self._entries()}
        self._strays = {uid: None for uid in self._runner.pods() if uid not in here}
        if not self._strays:
            self._strays_gone.set()

    def _entries(self) -> list[CachedObject]:
        found = [self._cache.entry(key) for key in self._cache.by(NODE.name, self._settings.name)]
        return [entry for entry in found if entry is not None]

    async def _end_strays(self) -> None:
        if self._strays:
            await self._cache_is_current()
            # What the cache has by now was new, and is looked after.
            for uid in [uid for uid in self._strays if uid in self._workers]:
                del self._strays[uid]
            for uid in self._strays:
                _logger.warning("%s: terminating pod %s, which the API server does not have", self._settings.name, uid)
                for id_, state in self._runner.instances(uid).items():
                    if not isinstance(state, Exited):
                        await self._runner.end(id_, STRAY_GRACE)
            while self._strays:
                self._changed.clear()
                for uid in list(self._strays):
                    if all(isinstance(state, Exited) for state in self._runner.instances(uid).values()):
                        await self._runner.forget(uid)
                        del self._strays[uid]
                if self._strays and not self._changed.is_set():
                    await self._changed.wait()
            self._confirm_wanted.set()
        self._strays_gone.set()

    async def _cache_is_current(self) -> None:
        """Wait until the cache has everything that the store has now."""
        attempt = 0
        while True:
            try:
                listed = await self._client.list(PODS, fields=f"spec.nodeName={self._settings.name}", limit=1)
            except ApiError as error:
                attempt += 1
                _logger.debug("%s: failed to list its pods: %s", self._settings.name, error)
                await tasks.sleep(RETRY.delay(attempt, self._jitter.random()))
            else:
                await self._cache.wait_until(int(listed.revision))
                return

    # Pods deleted by force: the server charges the node for them until it confirms that they ended.

    async def _confirm_ended(self) -> None:
        failures = 0
        path = f"/api/v1/nodes/{self._settings.name}/ghosts"
        while True:
            try:
                async with tasks.timeout(CONFIRM_EVERY * (1 - 0.1 * self._jitter.random())):
                    await self._confirm_wanted.wait()
                await tasks.sleep(_CONFIRM_AFTER)  # Where one is, there are often several.
            except TimeoutError:
                pass
            self._confirm_wanted.clear()
            try:
                answer = await self._client.request("GET", path)
                gone = [each["uid"] for each in msgspec.json.decode(answer.body)["items"] if self._is_gone(each["uid"])]
                if gone:
                    await self._client.request("PUT", path, body={"gone": gone})
                failures = 0
            except ApiError as error:
                _logger.debug("%s: failed to confirm terminated pods: %s", self._settings.name, error)
                if error.status != 404:  # Without the Node there are no ghosts; or it is no server of ours.
                    failures += 1
                    await tasks.sleep(RETRY.delay(failures, self._jitter.random()))
                    self._confirm_wanted.set()

    def _is_gone(self, uid: str) -> bool:
        """Whether nothing of a pod runs here, nor will."""
        if uid in self._strays:
            return False
        worker = self._workers.get(uid)
        if worker is not None:
            return worker.has_ended
        return all(isinstance(state, Exited) for state in self._runner.instances(uid).values())

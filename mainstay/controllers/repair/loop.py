"""Repair at work: looks every few seconds, decides (decide.py), acts, and says what came of it.

The ledgers of nodes are recounted one after the other, one in each pass: that reads all pods. So are the quotas of
namespaces, of which each reads what it counts.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import COMPONENT_STATES, DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICASETS, RESERVATIONS
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.errors import AlreadyExists, ApiError, Conflict, Fenced, NotFound
from mainstay.client.indexes import NODE
from mainstay.client.informer import Informer
from mainstay.controllers.node_health.actions import Actions
from mainstay.controllers.node_health.observer import HeartbeatObserver
from mainstay.controllers.repair.decide import (
    OWNERS,
    ReleaseReservation,
    RemoveStranded,
    RepairFinding,
    RepairMemory,
    ReplaceStranded,
    ReportFinding,
    Step,
    decide,
    describe_workloads,
    summarize,
)
from mainstay.controllers.repair.snapshot import (
    DECIDER,
    LOOKED_AT,
    NAME,
    RepairPassInput,
    memory_from,
    record_from,
    snapshot_from,
    vanished,
)
from mainstay.loop.act import OwnWrite
from mainstay.loop.conditions import with_conditions
from mainstay.loop.freshness import Freshness
from mainstay.loop.kernel import LoopContext, LoopSpec
from mainstay.loop.periodic import PeriodicLoop, Writes
from mainstay.loop.record import Decided

MISCOUNTED_MAX: Final = 3
"""Namespaces that were wrong and are counted once more, in one look."""

_logger = logging.getLogger(__name__)
_decode = msgspec.json.Decoder().decode


_FRESHNESS: Final = MappingProxyType(
    {
        ReleaseReservation: Freshness.FRESH_READ,
        RemoveStranded: Freshness.FRESH_READ,
        ReplaceStranded: Freshness.FRESH_READ,
        ReportFinding: Freshness.MAY_BE_STALE,
    }
)


class RepairLoop(PeriodicLoop[Step]):
    """`run` until cancelled."""

    name = NAME
    every = timedelta(seconds=10)
    freshness = _FRESHNESS

    def __init__(self, context: LoopContext) -> None:
        self.findings: tuple[RepairFinding, ...] = ()
        self._client = context.client
        self._clock = context.env.clock
        self._caches = {kind: context.informers.get(kind, indexes=indexes) for kind, indexes in LOOKED_AT.items()}
        self._held = {kind: informer.cache for kind, informer in self._caches.items()}
        self._observer = HeartbeatObserver(context)
        self._actions = Actions(context.client, context.env.clock)
        self._memory = RepairMemory()
        self._drifted: dict[str, None] = {}
        self._counted = ""
        """The node that was counted last."""
        self._miscounted: dict[str, None] = {}
        self._counted_quotas_of = ""
        """The namespace that was counted last."""
        self._said: Any = None
        super().__init__(context, list(self._caches.values()))

    @property
    def waits_for(self) -> Sequence[Informer]:
        return (*self.informers, *self._observer.informers)

    def begin(self) -> None:
        self._observer.open()

    def end(self) -> None:
        self._observer.close()

    def ends_pass(self, error: ApiError, is_late: bool) -> bool:
        return not is_late  # What takes too long must not keep the rest from its turn.

    def describe(self, step: Step) -> Decided:
        return record_from(step)

    async def look(self) -> None:
        """Raises `ApiError`: what is left will be found again."""
        now, remembered = self._clock.wall(), self._known()
        plan = decide(snapshot_from(remembered, self._held, now), remembered.memory)
        looked = self.begin_pass(remembered, now)
        self._memory, self.findings = plan.memory, plan.findings
        said = describe_workloads(self._all(DEPLOYMENTS), self._all(REPLICASETS), plan.findings)
        if await self.carry_out(looked, plan.steps):
            await self._recount_next()
            await self._recount_next_quotas()
            await self._publish(said)

    # Looking.

    def _known(self) -> RepairPassInput:
        return memory_from(
            self._clock.monotonic_ns(),
            self._memory,
            {name: self._observer.get(name) for name in vanished(self._held)},
            tuple(sorted(self._drifted)),
            tuple(sorted(self._miscounted)),
        )

    def _all(self, kind: KindName) -> list[Object]:
        return [entry.object() for entry in self._caches[kind].cache.entries()]

    # Acting.

    async def act(self, step: Step, write: Writes) -> Sequence[OwnWrite] | None:
        match step:
            case ReleaseReservation():
                return () if await self._release(step, write) else None
            case RemoveStranded(node=node, pod=pod):
                if not await self._is_gone(NODES, ObjectKey("", node), ""):
                    return None
                await self._actions.remove(pod, write)
            case ReplaceStranded(step=replacing):
                if not await self._is_gone(NODES, ObjectKey("", replacing.node), ""):
                    return None
                await self._actions.replace(replacing, write)
            case ReportFinding(finding=finding):
                _logger.warning("%s: %s %s: %s", NAME, finding.kind, finding.key, finding.message)
                about = {"metadata": {"name": finding.key.name, "namespace": finding.key.namespace, "uid": finding.uid}}
                await self.kernel.warn(finding.kind, about, str(finding.fault), finding.message, write())
        return ()

    async def _release(self, step: ReleaseReservation, write: Writes) -> bool:
        kind, key, uid = step.owner
        if not await self._is_gone(OWNERS[kind], key, uid):
            return False
        body = {"metadata": {"uid": step.uid, "resourceVersion": step.version}, "status": {"phase": "Released"}}
        try:
            await self._client.patch(
                RESERVATIONS, step.key.name, step.key.namespace, body, subresource="status", write=write()
            )
        except (Conflict, NotFound) as error:
            if isinstance(error, Fenced):
                raise
        return True

    async def _is_gone(self, kind: KindName, key: ObjectKey, uid: str) -> bool:
        """By a fresh look at the store. With a uid: that very one."""
        try:
            there = await self._client.get(kind, key.name, key.namespace)
        except NotFound:
            return True
        return bool(uid) and there["metadata"]["uid"] != uid

    async def _recount_next(self) -> None:
        """The next node in turn; and each one that was wrong, until it is right."""
        pods, nodes = self._caches[PODS].cache, self._caches[NODES].cache
        names = sorted({key.name for key in nodes.keys()} | set(pods.values(NODE.name)) | set(self._drifted))  # noqa: SIM118
        following = [name for name in names if name > self._counted] or names
        for name in dict.fromkeys([*following[:1], *sorted(self._drifted)]):
            await self._recount(name)
        self._counted = following[0] if following else ""

    async def _recount(self, name: str) -> None:
        await self._ask_to_recount(NODES, name, self._drifted)

    async def _recount_next_quotas(self) -> None:
        """Of the next namespace in turn; and of some of those that were wrong, until they are right."""
        names = sorted({key.name for key in self._caches[NAMESPACES].cache.keys()} | set(self._miscounted))  # noqa: SIM118
        following = ([name for name in names if name > self._counted_quotas_of] or names)[:1]
        self._counted_quotas_of = following[0] if following else ""
        for name in dict.fromkeys([*following, *list(self._miscounted)[:MISCOUNTED_MAX]]):
            await self._ask_to_recount(NAMESPACES, name, self._miscounted)

    async def _ask_to_recount(self, kind: KindName, name: str, wrong: dict[str, None]) -> None:
        path = f"{kind.path('', quote(name, safe=''))}/recount"
        answer = _decode((await self._client.request("POST", path, body={})).body)
        if answer.get("wasWrong"):
            _logger.warning("%s: corrected the count of %s %s: %s", NAME, kind.kind, name, answer)
        wrong.pop(name, None)
        if not answer.get("isRight"):
            wrong[name] = None  # Behind the others: of many, each has its turn.

    def _write(self) -> WriteOptions:
        return self.kernel.write(self.kernel.next_decision())

    # Saying what came of it.

    async def _publish(self, workloads: dict[str, Object]) -> None:
        condition = summarize(self.findings)
        faults: dict[str, int] = {}
        for finding in self.findings:
            faults[str(finding.fault)] = faults.get(str(finding.fault), 0) + 1
        said = (condition, workloads, faults)
        if said == self._said:
            return
        workloads, faults = dict(workloads), dict(faults)
        there = await self._own_state()
        status: dict[str, Any] = {**(there.get("status") or {}), "workloads": workloads, "findings": faults}
        generation = there["metadata"].get("generation", 1)
        status = with_conditions(status, (condition,), generation, self._clock.wall())
        # A merge patch keeps what it does not name: workloads that are gone have to be named.
        for name in (there.get("status") or {}).get("workloads") or ():
            status["workloads"].setdefault(name, None)
        for name in (there.get("status") or {}).get("findings") or ():
            status["findings"].setdefault(name, None)
        body = {"metadata": {"uid": there["metadata"]["uid"]}, "status": status}
        await self._client.patch(COMPONENT_STATES, NAME, "", body, subresource="status", write=self._write())
        self._said = said

    async def _own_state(self) -> Object:
        try:
            return await self._client.get(COMPONENT_STATES, NAME)
        except NotFound:
            made = {"metadata": {"name": NAME}, "spec": {"component": NAME}}
            try:
                return await self._client.create(COMPONENT_STATES, made, write=self._write())
            except AlreadyExists:
                return await self._client.get(COMPONENT_STATES, NAME)


LOOP: Final = LoopSpec(NAME, RepairLoop, DECIDER)

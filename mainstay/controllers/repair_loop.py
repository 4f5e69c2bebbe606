"""Repair at work: looks every few seconds, decides (repair.py), acts, and says what came of it.

The ledgers of nodes are counted anew one after the other, one in each look: that reads all pods. So are the quotas of
namespaces, of which each reads what it counts.
"""

import logging
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.errors import AlreadyExists, ApiError, Conflict, Fenced, NotFound
from mainstay.client.indexes import NODE, Index
from mainstay.controllers.kinds import DEPLOYMENTS, JOBS, NAMESPACES, NODES, PODS, REPLICASETS, RESERVATIONS
from mainstay.controllers.node_actions import Actions
from mainstay.controllers.node_loop import Ears
from mainstay.controllers.own_loop import Around, OwnLoop
from mainstay.controllers.repair import (
    OWNERS,
    Finding,
    Memory,
    ReleaseReservation,
    RemoveStranded,
    ReplaceStranded,
    Sight,
    Step,
    Tell,
    condition_of,
    decide,
    owners_of,
    said_of_workloads,
)
from mainstay.controllers.telling import tell
from mainstay.env import tasks
from mainstay.runtime.component_state import COMPONENT_STATES
from mainstay.runtime.conditions import with_conditions
from mainstay.runtime.terms import Deposed

NAME: Final = "repair"
LOOK_EVERY: Final = timedelta(seconds=10)
STEP_WITHIN: Final = timedelta(seconds=10)
MISCOUNTED_MAX: Final = 3
"""Namespaces that were wrong and are counted once more, in one look."""

LEAVING: Final = Index("leaving", ("metadata", "deletionTimestamp"), lambda at: ("true",) if at else ())
"""Objects that are to go."""
_WATCHED: Final = (PODS, NAMESPACES, NODES, DEPLOYMENTS, REPLICASETS, JOBS)
"""Those whose finalizers are looked at: what the other controllers have in their caches anyway."""

_logger = logging.getLogger(__name__)
_decode = msgspec.json.Decoder().decode


class Repair:
    """`run` until cancelled."""

    def __init__(self, around: Around) -> None:
        self.findings: tuple[Finding, ...] = ()
        self._around = around
        self._client = around.client
        self._clock = around.env.clock
        self._term = around.term
        self._chance = around.env.chance.child(NAME, around.term.text if around.term is not None else "")
        self._caches = {
            kind: around.informers.get(kind, indexes=(LEAVING, NODE) if kind == PODS else (LEAVING,))
            for kind in (*_WATCHED, RESERVATIONS)
        }
        self._ears = Ears(around)
        self._actions = Actions(around.client, around.env.clock)
        self._memory = Memory()
        self._drifted: dict[str, None] = {}
        self._counted = ""
        """The node that was counted last."""
        self._miscounted: dict[str, None] = {}
        self._counted_quotas_of = ""
        """The namespace that was counted last."""
        self._said: Any = None
        self._writes = 0

    async def run(self) -> None:
        for informer in (*self._caches.values(), *self._ears.informers):
            await informer.synced()
            if self._term is not None:
                await informer.cache.wait_until(self._term.revision)
        self._ears.open()
        try:
            while True:
                try:
                    await self.look()
                except Fenced as error:
                    if self._term is not None:
                        self._term.lost()
                    raise Deposed(str(error)) from error
                except ApiError as error:
                    _logger.warning("%s: not everything could be done: %s", NAME, error)
                await tasks.sleep(LOOK_EVERY)
        finally:
            self._ears.close()

    async def look(self) -> None:
        """Raises `ApiError`: what is left will be found again."""
        if self._term is not None:
            self._term.require()
        plan = decide(self._sight(), self._memory)
        self._memory, self.findings = plan.memory, plan.findings
        said = said_of_workloads(self._all(DEPLOYMENTS), self._all(REPLICASETS), plan.findings)
        for step in plan.steps:
            if self._term is not None:
                self._term.require()
            try:
                async with tasks.timeout(STEP_WITHIN):
                    await self._carry_out(step)
            except TimeoutError:
                _logger.warning("%s: %s took too long", NAME, type(step).__name__)
        await self._recount_next()
        await self._recount_next_quotas()
        await self._publish(said)

    # Looking.

    def _sight(self) -> Sight:
        reservations = [each for each in self._all(RESERVATIONS) if isinstance(each.get("spec"), dict)]
        owners = {}
        for reservation in reservations:
            for kind, key, _ in owners_of(reservation):
                entry = self._caches[OWNERS[kind]].cache.entry(key)
                if entry is not None:
                    owners[(kind, key)] = entry.uid
        pods, nodes = self._caches[PODS].cache, self._caches[NODES].cache
        vanished = [name for name in pods.values(NODE.name) if ObjectKey("", name) not in nodes]
        stranded = {
            name: tuple(pod for key in pods.by(NODE.name, name) if (pod := pods.get(key)) is not None)
            for name in vanished
        }
        return Sight(
            self._clock.monotonic_ns(),
            reservations,
            owners,
            stranded=stranded,
            heard={name: self._ears.of(name) for name in vanished},
            leaving=tuple(self._leaving()),
            drifted=tuple(sorted(self._drifted)),
            miscounted=tuple(sorted(self._miscounted)),
        )

    def _leaving(self) -> list[tuple[KindName, Object]]:
        found = []
        for kind in _WATCHED:
            cache = self._caches[kind].cache
            for key in cache.by(LEAVING.name, "true"):
                obj = cache.get(key)
                if obj is not None and (obj["metadata"].get("finalizers") or (obj.get("spec") or {}).get("finalizers")):
                    found.append((kind, obj))
        return found

    def _all(self, kind: KindName) -> list[Object]:
        return [entry.object() for entry in self._caches[kind].cache.entries()]

    # Acting.

    async def _carry_out(self, step: Step) -> None:
        match step:
            case ReleaseReservation():
                await self._release(step)
            case RemoveStranded(node=node, pod=pod):
                if await self._is_gone(NODES, ObjectKey("", node), ""):
                    await self._actions.remove(pod, self._write)
            case ReplaceStranded(step=replacing):
                if await self._is_gone(NODES, ObjectKey("", replacing.node), ""):
                    await self._actions.replace(replacing, self._write)
            case Tell(finding=finding):
                _logger.warning("%s: %s %s: %s", NAME, finding.kind, finding.key, finding.message)
                about = {"metadata": {"name": finding.key.name, "namespace": finding.key.namespace, "uid": finding.uid}}
                client, clock = self._client, self._clock
                reason, write = str(finding.fault), self._write()
                await tell(client, clock, finding.kind, about, reason, finding.message, who=NAME, write=write)

    async def _release(self, step: ReleaseReservation) -> None:
        kind, key, uid = step.owner
        if not await self._is_gone(OWNERS[kind], key, uid):
            return
        body = {"metadata": {"uid": step.uid, "resourceVersion": step.version}, "status": {"phase": "Released"}}
        try:
            await self._client.patch(
                RESERVATIONS, step.key.name, step.key.namespace, body, subresource="status", write=self._write()
            )
        except (Conflict, NotFound) as error:
            if isinstance(error, Fenced):
                raise

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
            _logger.warning("%s: what is counted for %s %s was wrong: %s", NAME, kind.kind, name, answer)
        wrong.pop(name, None)
        if not answer.get("isRight"):
            wrong[name] = None  # Behind the others: of many, each has its turn.

    def _write(self) -> WriteOptions:
        self._writes += 1
        name = f"{NAME}-{self._chance.uid('write', self._writes)}"
        term = self._term.text if self._term is not None else ""
        return WriteOptions(operation=name, decision=name, term=term, field_manager=NAME)

    # Saying what came of it.

    async def _publish(self, workloads: dict[str, Object]) -> None:
        condition = condition_of(self.findings)
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


LOOP: Final = OwnLoop(NAME, Repair)

"""Repair at work: looks every few seconds, decides (decide.py), acts, and says what came of it.

The ledgers of nodes are counted anew one after the other, one in each look: that reads all pods. So are the quotas of
namespaces, of which each reads what it counts.
"""

import logging
from datetime import timedelta
from itertools import count
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import COMPONENT_STATES, DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICASETS, RESERVATIONS
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.errors import AlreadyExists, ApiError, Conflict, Fenced, NotFound, Unavailable
from mainstay.client.indexes import NODE
from mainstay.controllers.node_health.actions import Actions, Writes
from mainstay.controllers.node_health.loop import Ears
from mainstay.controllers.repair.decide import (
    OWNERS,
    Finding,
    Memory,
    ReleaseReservation,
    RemoveStranded,
    ReplaceStranded,
    Step,
    Tell,
    condition_of,
    decide,
    said_of_workloads,
)
from mainstay.controllers.repair.snapshot import LOOKED_AT, NAME, Known, known_of, said_of, sight_of, vanished
from mainstay.env import tasks
from mainstay.loop.conditions import with_conditions
from mainstay.loop.holds import gate_of, known
from mainstay.loop.notices import tell
from mainstay.loop.pass_record import Look, Steps, seen_by
from mainstay.loop.periodic import Around, OwnLoop
from mainstay.loop.term import Deposed

LOOK_EVERY: Final = timedelta(seconds=10)
STEP_WITHIN: Final = timedelta(seconds=10)
MISCOUNTED_MAX: Final = 3
"""Namespaces that were wrong and are counted once more, in one look."""

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
        self._caches = {kind: around.informers.get(kind, indexes=indexes) for kind, indexes in LOOKED_AT.items()}
        self._held = {kind: informer.cache for kind, informer in self._caches.items()}
        self._gate = gate_of(around.holding, NAME, around.term)
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
        self._steps = Steps(NAME, around)
        self._looks = 0
        self._writes = 0

    async def run(self) -> None:
        for informer in (*self._caches.values(), *self._ears.informers):
            await informer.synced()
            if self._term is not None:
                await informer.cache.wait_until(self._term.revision)
        await known(self._around.holding, self._term)
        self._ears.open()
        try:
            with self._gate:
                await self._look_on()
        finally:
            self._ears.close()

    async def _look_on(self) -> None:
        while True:
            try:
                if self._gate.held is None:
                    await self.look()
            except Fenced as error:
                if self._term is not None:
                    self._term.lost()
                raise Deposed(str(error)) from error
            except ApiError as error:
                _logger.warning("%s: not everything could be done: %s", NAME, error)
            await tasks.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Raises `ApiError`: what is left will be found again."""
        if self._term is not None:
            self._term.require()
        now, remembered = self._clock.wall(), self._known()
        plan = decide(sight_of(remembered, self._held, now), remembered.memory)
        self._looks += 1
        name = f"{NAME}-{self._chance.uid('look', self._looks)}"
        look = Look(name, seen_by(self._caches.values()), now, remembered)
        self._memory, self.findings = plan.memory, plan.findings
        said = said_of_workloads(self._all(DEPLOYMENTS), self._all(REPLICASETS), plan.findings)
        for number, step in enumerate(plan.steps):
            if self._term is not None:
                self._term.require()
            if self._gate.held is not None:
                return
            try:
                async with tasks.timeout(STEP_WITHIN):
                    if await self._carry_out(step, self._step_writes(look.step(number))):
                        self._steps.record(look, number, said_of(step))
            except TimeoutError:
                _logger.warning("%s: %s took too long", NAME, type(step).__name__)
                self._steps.record(look, number, said_of(step), Unavailable(f"no answer within {STEP_WITHIN}"))
            except ApiError as error:
                self._steps.record(look, number, said_of(step), error)
                raise
        await self._recount_next()
        await self._recount_next_quotas()
        await self._publish(said)

    # Looking.

    def _known(self) -> Known:
        return known_of(
            self._clock.monotonic_ns(),
            self._memory,
            {name: self._ears.of(name) for name in vanished(self._held)},
            tuple(sorted(self._drifted)),
            tuple(sorted(self._miscounted)),
        )

    def _all(self, kind: KindName) -> list[Object]:
        return [entry.object() for entry in self._caches[kind].cache.entries()]

    # Acting.

    async def _carry_out(self, step: Step, write: Writes) -> bool:
        """False: by a fresh look nothing has to be done."""
        match step:
            case ReleaseReservation():
                return await self._release(step, write)
            case RemoveStranded(node=node, pod=pod):
                if not await self._is_gone(NODES, ObjectKey("", node), ""):
                    return False
                await self._actions.remove(pod, write)
            case ReplaceStranded(step=replacing):
                if not await self._is_gone(NODES, ObjectKey("", replacing.node), ""):
                    return False
                await self._actions.replace(replacing, write)
            case Tell(finding=finding):
                _logger.warning("%s: %s %s: %s", NAME, finding.kind, finding.key, finding.message)
                about = {"metadata": {"name": finding.key.name, "namespace": finding.key.namespace, "uid": finding.uid}}
                client, clock, reason = self._client, self._clock, str(finding.fault)
                await tell(client, clock, finding.kind, about, reason, finding.message, who=NAME, write=write())
        return True

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
            _logger.warning("%s: what is counted for %s %s was wrong: %s", NAME, kind.kind, name, answer)
        wrong.pop(name, None)
        if not answer.get("isRight"):
            wrong[name] = None  # Behind the others: of many, each has its turn.

    def _step_writes(self, decision: str) -> Writes:
        """What the writes of one step say."""
        numbers = count(1)
        term = self._term.text if self._term is not None else ""
        return lambda: WriteOptions(
            operation=f"{decision}.{next(numbers)}", decision=decision, term=term, field_manager=NAME
        )

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

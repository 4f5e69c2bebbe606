"""Looking after one pod of this node: observe, decide (lifecycle.py), act, and again whenever something has changed.

What is known of a pod comes from the cache, or from the answer to a write of ours if that is newer. What is to be done
is decided there; here is what takes time and can fail. Three rules keep containers from being started that must not be:

- Nothing of a pod is started before the *server itself* has said, to this incarnation of the agent, that the pod is
  there: with its uid, and after the node last got its Lease if the pod is an at-most-one. What the cache shows may be
  old, after a restart above all. The write that reports the pod as starting asks that by the way. It also stores the
  pod's address, so that another incarnation knows what its containers were told.
- A pod whose name another one had waits until nothing of the other is left here.
- What the runner knows counts: an attempt that was begun is not begun again, whichever incarnation began it.

A pod that has gone (deleted by force, or another one has its name) is ended, and then forgotten.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Final, assert_never

from mainstay.agent.node.addresses import PodAddresses
from mainstay.agent.node.node import NodeAgent
from mainstay.agent.pod.container_status import find_waiting_reasons
from mainstay.agent.pod.events import PodEvents
from mainstay.agent.pod.facts import ContainerWaiting, HookRunning, HookState, PodFacts, PodRefused, ProbeVerdicts
from mainstay.agent.pod.handlers import HandlerTarget
from mainstay.agent.pod.hooks import after_start, before_end
from mainstay.agent.pod.lifecycle import decide
from mainstay.agent.pod.plan import End, EndReason, MakeVolumes, PodPlan, Prune, RemovePod, RunHook, StartContainer
from mainstay.agent.pod.preparation import TRY_AGAIN_AFTER, Preparing
from mainstay.agent.pod.prober import ProbeTask, has_probes
from mainstay.agent.pod.pulls import ImagePulls
from mainstay.agent.pod.record import AgentRecording, PodDecisionSummary, gone, summarize_plan, write_for
from mainstay.agent.pod.status_report import RETRY, StatusReport, Turns
from mainstay.agent.runner import CannotRun, ContainerId, Exited, PodPlace, Runner, Running, State
from mainstay.agent.settings import AgentSettings
from mainstay.api import times
from mainstay.api.annotations import is_at_most_one
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.pod_resources import is_over
from mainstay.client.cache import Cache
from mainstay.client.client import Client
from mainstay.client.entry import CachedObject
from mainstay.client.errors import ApiError, NotFound
from mainstay.env import Clock, tasks
from mainstay.env.invariants import broken

REFRESH_EVERY: Final = timedelta(minutes=1)
"""How often the content of volumes is read again."""
DEFAULT_GRACE: Final = timedelta(seconds=30)
_ENDS_POD: Final = (EndReason.POD_DELETED, EndReason.POD_OVER, EndReason.DEADLINE)
_MICROSECOND: Final = timedelta(microseconds=1)
_SOONER: Final = timedelta(milliseconds=500)  # By so much an end must come sooner to count as another request.

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Home:
    """What all pods of a node share."""

    client: Client
    turns: Turns
    clock: Clock
    jitter: Random
    runner: Runner
    node: NodeAgent
    settings: AgentSettings
    cache: Cache
    addresses: PodAddresses
    preparing: Preparing
    events: PodEvents
    recording: AgentRecording


class PodWorker:
    """One pod, told by its uid."""

    def __init__(self, entry: CachedObject, home: Home) -> None:
        self.key = entry.key
        self.uid = entry.uid
        self.refused: PodRefused | None = None
        self.is_admitted = False
        self.is_removed = False
        """By us, in the end. Others remove by force, and the server may not know whether it has ended."""
        self._home = home
        self._wake = asyncio.Event()
        self._pod = entry.object()
        self._revision = entry.revision
        self._is_at_most_one = is_at_most_one(self._pod)
        self._is_gone = False
        """The server has said so; the cache may not know it yet."""
        self._confirmed: int | None = None
        """The epoch of the Lease at which the server last showed that the pod is there."""
        self._is_starting = False
        self._failures = 0
        self._told: PodDecisionSummary | None = None
        self._decision = ""
        """The last decision that changed something."""
        self._steps = 0
        """How many the last plan had."""
        self._address = ""
        self._accepted_at: datetime | None = None
        self._ending_since: datetime | None = None
        self._place: PodPlace | None = None
        self._place_at_ns = 0
        self._refresh_at_ns = 0
        self._waiting: dict[str, ContainerWaiting] = {}
        self._pulls = ImagePulls(home.runner, home.clock, home.events, self._spawn, self._pulled)
        self._hooks: dict[ContainerId, HookState] = {}
        self._probing: dict[ContainerId, ProbeTask] = {}
        self._verdicts: dict[ContainerId, ProbeVerdicts] = {}
        self._ends_at_ns: dict[ContainerId, int] = {}
        self._begun: dict[ContainerId, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._report = StatusReport(
            home.client, home.turns, home.clock, home.jitter, self.key, self.uid, self._saw, self._doubts, self.wake
        )

    def wake(self) -> None:
        """Something has changed: look again."""
        self._wake.set()

    def cached(self, entry: CachedObject) -> None:
        """The cache has it like this. What we know already, from our own write for instance, is no news."""
        if entry.revision > self._revision:
            self._wake.set()

    @property
    def pod(self) -> Object:
        """As it was last seen."""
        return self._pod

    @property
    def _is_deleted(self) -> bool:
        return "deletionTimestamp" in self._pod["metadata"]

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs here, nor will again."""
        return self._is_gone and not self._is_starting and not self._living()

    def close(self) -> None:
        """Let go of it, and leave its containers to themselves."""
        self._report.stop()
        for probing in self._probing.values():
            probing.stop()
        for task in list(self._tasks):
            task.cancel()

    async def run(self) -> None:
        """Look after the pod until nothing of it is left, here or in the cache."""
        try:
            if self.is_admitted and self._look() and not is_over(self._pod) and not self._is_deleted:
                await self._make_place()  # Then the first report says so, and there need not be a second one.
            while self._look():
                self._wake.clear()
                wait = await self._pass()
                if not self._wake.is_set():
                    await self._wait(wait)
            await self._end_all()
            while self._is_cached():
                self._wake.clear()
                await self._wake.wait()
        finally:
            self.close()
            self._home.addresses.give_back(self.uid)
            self._home.preparing.forget(self.uid)

    # Observing.

    def _look(self) -> bool:
        """Take over what the cache has, if it is newer. False: the pod is gone."""
        cache = self._home.cache
        entry = cache.entry(self.key)
        if entry is not None and entry.uid == self.uid:
            if entry.revision > self._revision:
                self._pod, self._revision = entry.object(), entry.revision
        elif cache.revision >= self._revision:
            self._is_gone = True
        return not self._is_gone

    def _is_cached(self) -> bool:
        entry = self._home.cache.entry(self.key)
        return entry is not None and entry.uid == self.uid

    def _saw(self, pod: Object, epoch: int) -> None:
        """The server has shown the pod."""
        revision = int(pod["metadata"]["resourceVersion"])
        before = self._pod["metadata"]
        if revision > self._revision:
            self._pod, self._revision = pod, revision
        self._confirmed = epoch
        self._failures = 0
        is_as_expected = before.get("generation") == pod["metadata"].get("generation")
        is_more = self._steps or self._is_deleted or self._report.has_more
        if is_more or not is_as_expected or not self._home.settings.is_pretend:
            self.wake()
        # Otherwise nothing is left to do: of ten thousand pods that came to run, none is looked at again for that.

    def _doubts(self) -> None:
        """It seems that there is no such pod any more. To be looked at."""
        self._spawn(self._look_for(), "look for")

    async def _look_for(self) -> None:
        delay = await self._confirm()
        if delay != timedelta.max:
            await tasks.sleep(delay)
        self.wake()

    def _living(self) -> list[ContainerId]:
        instances = self._home.runner.instances(self.uid)
        return [id_ for id_, state in instances.items() if not isinstance(state, Exited)]

    def _facts(self, now: datetime) -> PodFacts:
        instances = self._home.runner.instances(self.uid)
        if self._probing or not self._home.settings.is_pretend:
            self._see_to_probes(instances)
        if self._ending_since is None and self._is_deleted:
            self._ending_since = now
        return PodFacts(
            address=self._address,
            host_address=self._home.settings.host_address,
            accepted_at=self._accepted(now),
            instances=instances,
            is_placed=self._place is not None,
            refused=self.refused,
            waiting=self._waiting,
            probes=_all_is_well(self._pod, instances) if self._home.settings.is_pretend else self._verdicts,
            hooks=self._hooks,
            ending_since=self._ending_since,
            is_lease_held=self._home.node.is_lease_held,
        )

    def _accepted(self, now: datetime) -> datetime:
        if self._accepted_at is None:
            self._accepted_at = now
        return self._accepted_at

    def take_address(self) -> bool:
        """Have the address that it has by its status, or another one. False: there is none left."""
        home, status = self._home, self._pod.get("status") or {}
        if (self._pod.get("spec") or {}).get("hostNetwork"):
            self._address = home.settings.host_address
        elif held := status.get("podIP"):
            self._address = str(held)
            home.addresses.keep(self.uid, self._address)
        else:
            self._address = home.addresses.take(self.uid) or ""
        return bool(self._address)

    # Deciding and acting.

    async def _pass(self) -> timedelta | None:
        """Do what there is to do now. Returns how long nothing else is to be done."""
        home = self._home
        now, now_ns = home.clock.wall(), home.clock.monotonic_ns()
        if is_over(self._pod):
            home.addresses.give_back(self.uid)  # It may stay for long, to be looked at.
        plan = decide(self._pod, self._facts(now), now)
        if self._ending_since is None and any(isinstance(each, End) and each.why in _ENDS_POD for each in plan.steps):
            self._ending_since = now
        if not home.settings.is_pretend:
            self._say_what_is_new(plan)
        self._steps = len(plan.steps)
        if home.recording.is_on:
            self._record(summarize_plan(plan, self.refused), now)
        write = write_for(self._decision, self._pod)
        again_at_ns = self._report.want(self._pod, plan.status, home.node.epoch, write)
        waits = [] if again_at_ns is None else [timedelta(microseconds=(again_at_ns - now_ns) // 1000 + 1)]
        for step in plan.steps:
            wait = await self._do(step)
            if wait is not None:
                waits.append(wait)
                break  # What comes after it depends on it.
        if plan.wake_at is not None:
            waits.append(max(plan.wake_at - home.clock.wall(), timedelta()))
        if self._place is not None and not is_over(self._pod) and home.preparing.has_content(self._pod):
            waits.append(await self._refresh())
        return min(waits) if waits else None

    async def _do(self, step: MakeVolumes | StartContainer | RunHook | End | Prune | RemovePod) -> timedelta | None:
        """Carry out a step. Returns a time if it could not be, and how long to wait with it at most."""
        match step:
            case MakeVolumes():
                return await self._make_place()
            case StartContainer():
                return await (self._start(step) if self._may_start else self._ask_first())
            case RunHook(id_, hook):
                if id_ not in self._hooks:
                    self._hooks[id_] = HookRunning()
                    self._spawn(self._after_start(id_, hook), "postStart of")
            case End():
                await self._end(step)
            case Prune(name, keep):
                await self._home.runner.prune(self.uid, name, keep)
            case RemovePod():
                return await self._remove()
            case _:
                assert_never(step)
        return None

    @property
    def _may_start(self) -> bool:
        is_told = (self._pod.get("status") or {}).get("podIP") == self._address
        return is_told and self._is_confirmed and not self._is_gone

    @property
    def _is_confirmed(self) -> bool:
        confirmed = self._confirmed
        return confirmed is not None and (not self._is_at_most_one or confirmed == self._home.node.epoch)

    async def _ask_first(self) -> timedelta | None:
        """Is the pod still there? Its report asks that too, if one is under way or about to be, and wakes us."""
        if self._report.is_under_way or self._is_confirmed:
            return timedelta.max
        return await self._confirm()

    async def _confirm(self) -> timedelta:
        """Ask the server itself. Wakes us if it has answered."""
        home, epoch = self._home, self._home.node.epoch
        try:
            pod = await home.client.get(PODS, self.key.name, self.key.namespace)
        except NotFound:
            self._gone()
        except ApiError as error:
            # A node may not read the pods of others: the name may have been given to one of them.
            if error.status != 403 or await self._is_listed():
                return self._failed("get", error)
            self._gone()
        else:
            if pod["metadata"]["uid"] == self.uid:
                self._saw(pod, epoch)
            else:
                self._gone()
        return timedelta.max

    async def _is_listed(self) -> bool:
        """Whether the server has a pod of this name on this node, as far as it says."""
        own = f"metadata.name={self.key.name},spec.nodeName={self._home.settings.name}"
        try:
            return bool((await self._home.client.list(PODS, self.key.namespace, fields=own, limit=1)).items)
        except ApiError:
            return True

    def _gone(self) -> None:
        self._is_gone = True
        self.wake()

    async def _make_place(self) -> timedelta | None:
        home, now_ns = self._home, self._home.clock.monotonic_ns()
        if now_ns < self._place_at_ns:
            return timedelta(microseconds=(self._place_at_ns - now_ns) // 1000 + 1)
        found = await home.preparing.place(self._pod, self._address)
        if isinstance(found, ContainerWaiting):
            self._place_at_ns = home.clock.monotonic_ns() + _nanoseconds(TRY_AGAIN_AFTER)
            for container in _containers(self._pod):
                self._waits(container["name"], found)
            return TRY_AGAIN_AFTER
        self._place = found
        for name, waiting in list(self._waiting.items()):
            if waiting.retry_at is not None:
                del self._waiting[name]
        self._refresh_at_ns = home.clock.monotonic_ns() + _nanoseconds(REFRESH_EVERY)
        self.wake()
        return None

    async def _start(self, step: StartContainer) -> timedelta | None:
        home = self._home
        container = _container(self._pod, step.name)
        if self._place is None or container is None:
            return None
        hold = self._pulls.ensure(self._pod, container)
        if hold is not None:
            self._waiting[step.name] = hold
            self.wake()
            return None
        spec = await home.preparing.container_spec(self._pod, container, step.attempt, self._place, self._address)
        if isinstance(spec, ContainerWaiting):
            self._waits(step.name, spec)
            return None
        if not self._may_start:
            self.wake()
            return (
                timedelta()
            )  # It is gone meanwhile; or the Lease was lost and got again, and who knows what happened.
        others = [id_ for id_ in self._living() if id_.name == step.name and id_ != spec.id]
        if others:
            raise broken(
                "one attempt of a container runs at a time",
                f"pod {self.key} (uid {self.uid})",
                starting=spec.id,
                running=others,
                decision=self._decision,
            )
        self._is_starting = True
        try:
            await home.runner.run(spec)
        except CannotRun as error:
            self._waits(step.name, ContainerWaiting(error.reason, str(error), home.clock.wall() + TRY_AGAIN_AFTER))
            return None
        finally:
            self._is_starting = False
        self._begun[spec.id] = None
        if self._waiting.pop(step.name, None) is not None:
            self.wake()
        return None

    def _pulled(self, name: str, waiting: ContainerWaiting | None) -> None:
        """A pull has ended: the container can be begun, or has to wait."""
        if waiting is None:
            self._waiting.pop(name, None)
        else:
            self._waiting[name] = waiting
        self.wake()

    def _waits(self, name: str, why: ContainerWaiting) -> None:
        before = self._waiting.get(name)
        self._waiting[name] = why
        if before is None or (before.reason, before.message) != (why.reason, why.message):
            reason = why.reason if why.reason.startswith("Failed") else "Failed"
            self._home.events.warning(self._pod, reason, f"{why.reason}: {why.message}", name)
        self.wake()

    async def _refresh(self) -> timedelta:
        home, now_ns = self._home, self._home.clock.monotonic_ns()
        if now_ns >= self._refresh_at_ns:
            self._refresh_at_ns = now_ns + _nanoseconds(REFRESH_EVERY)
            found = await home.preparing.place(self._pod, self._address)
            if isinstance(found, ContainerWaiting):
                home.events.warning(self._pod, "FailedMount", f"failed to update volumes: {found.message}")
        return timedelta(microseconds=(self._refresh_at_ns - now_ns) // 1000 + 1)

    async def _after_start(self, id_: ContainerId, hook: Object) -> None:
        home = self._home
        self._hooks[id_] = await after_start(hook, self._asked(id_), self._pod, home.runner, home.events)
        self.wake()

    async def _end(self, step: End) -> None:
        home, id_ = self._home, step.id
        ends_at_ns = home.clock.monotonic_ns() + _nanoseconds(step.grace)
        before_ns = self._ends_at_ns.get(id_)
        if before_ns is not None and ends_at_ns > before_ns - _nanoseconds(_SOONER):
            return
        self._ends_at_ns[id_] = ends_at_ns
        if before_ns is None:
            home.events.normal(self._pod, "Killing", f"Stopping container {id_.name} ({step.why})", id_.name)
            if step.hook and isinstance(home.runner.instances(self.uid).get(id_), Running):
                until = partial(self._ends_at_ns.__getitem__, id_)
                hook = before_end(step.hook, self._asked(id_), self._pod, home.runner, home.events, home.clock, until)
                self._spawn(hook, "preStop of")
                return
        await home.runner.end(id_, step.grace)

    async def _remove(self) -> timedelta | None:
        if self._report.is_under_way:
            return timedelta.max
        try:
            left = await self._home.client.delete(
                PODS,
                self.key.name,
                self.key.namespace,
                uid=self.uid,
                grace_s=0,
                write=write_for(self._decision, self._pod),
            )
        except ApiError as error:
            if error.status in (404, 409):
                return await self._confirm()
            return self._failed("delete", error)
        if left.get("kind") == "Pod" and left["metadata"].get("finalizers"):
            return timedelta.max  # A finalizer holds it. It changes when that is removed.
        self.is_removed = True
        self._gone()
        return timedelta.max

    async def _end_all(self) -> None:
        """The pod is gone: end what is left of it, and forget it."""
        home = self._home
        for probing in self._probing.values():
            probing.stop()
        asked: dict[ContainerId, None] = {}
        grace = _find_grace(self._pod)
        if home.recording.is_on and self._living():
            self._record(gone(), home.clock.wall())
        while living := self._living():
            self._wake.clear()
            for id_ in living:
                if id_ not in asked:
                    asked[id_] = None
                    await home.runner.end(id_, grace)
            if not self._wake.is_set():
                await self._wake.wait()
        await home.runner.forget(self.uid)

    def _record(self, told: PodDecisionSummary | None, now: datetime) -> None:
        """Put a decision down, if it changes anything."""
        if told is not None and told != self._told:
            self._told = told
            self._decision = self._home.recording.record(self._pod, told, self._home.cache.revision, now)

    # Beside it.

    def _see_to_probes(self, instances: Mapping[ContainerId, State]) -> None:
        """Probe what runs, and nothing else. What was found stays known until the next attempt."""
        for id_, state in instances.items():
            if isinstance(state, Running) and id_ not in self._probing:
                container = _container(self._pod, id_.name)
                if container is not None and has_probes(container) and id_ not in self._verdicts:
                    self._probing[id_] = ProbeTask(
                        self._pod,
                        HandlerTarget(id_, container, self._address),
                        state.started_at,
                        self._home.runner,
                        self._home.clock,
                        self._home.events,
                        self.wake,
                    )
        for id_, probing in list(self._probing.items()):
            self._verdicts[id_] = probing.verdicts
            if not isinstance(instances.get(id_), Running):
                probing.stop()
                del self._probing[id_]
        for id_ in [each for each in self._verdicts if each not in instances]:
            del self._verdicts[id_]

    def _say_what_is_new(self, plan: PodPlan) -> None:
        """In Events."""
        events, instances = self._home.events, self._home.runner.instances(self.uid)
        for id_ in list(self._begun):
            if not isinstance(instances.get(id_), Running):
                continue
            del self._begun[id_]
            events.normal(self._pod, "Started", f"Container started: {id_.name}", id_.name)
        before = find_waiting_reasons(self._pod.get("status") or {})
        for name, (reason, message) in find_waiting_reasons(plan.status).items():
            if reason == "CrashLoopBackOff" and before.get(name, ("", ""))[0] != reason:
                events.warning(self._pod, "BackOff", message, name)

    def _asked(self, id_: ContainerId) -> HandlerTarget:
        return HandlerTarget(id_, _container(self._pod, id_.name) or {}, self._address)

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = tasks.spawn(work, name=f"{what} pod {self.key}")
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _failed(self, what: str, error: ApiError) -> timedelta:
        self._failures += 1
        _logger.debug("failed to %s pod %s: %s", what, self.key, error)
        return RETRY.delay(self._failures, self._home.jitter.random())

    async def _wait(self, limit: timedelta | None) -> None:
        if limit is None or limit == timedelta.max:
            await self._wake.wait()
            return
        try:
            async with tasks.timeout(limit):
                await self._wake.wait()
        except TimeoutError:
            return


def _containers(pod: Object) -> list[Object]:
    spec = pod.get("spec") or {}
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _container(pod: Object, name: str) -> Object | None:
    return next((each for each in _containers(pod) if each["name"] == name), None)


def _find_grace(pod: Object) -> timedelta:
    """Of a pod that has gone without a word, or with one."""
    seconds = pod["metadata"].get("deletionGracePeriodSeconds")
    if seconds is None:
        seconds = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if seconds is None else times.to_duration(seconds)


def _all_is_well(pod: Object, instances: Mapping[ContainerId, State]) -> Mapping[ContainerId, ProbeVerdicts]:
    """What the probes of a pod say that is only pretended."""
    if not any(map(has_probes, _containers(pod))):
        return {}
    return {id_: ProbeVerdicts(is_started=True, is_ready=True) for id_ in instances}


def _nanoseconds(duration: timedelta) -> int:
    return duration // _MICROSECOND * 1000

"""Bugs that an agent could have."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainstay.agent.node.node import NodeAgent
from mainstay.agent.node.pods import Pods
from mainstay.agent.pod import lifecycle
from mainstay.agent.pod.facts import PodFacts
from mainstay.agent.pod.plan import End
from mainstay.agent.pod.tokens import PodTokens, TokenNeed
from mainstay.agent.pod.worker import PodWorker
from mainstay.agent.runner import ContainerId, Exited, Running, State
from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_names import LEASES

# What is started


def starts_what_its_cache_shows(patch: pytest.MonkeyPatch) -> None:
    """Without asking the server whether the pod is still there."""
    patch.setattr(PodWorker, "_is_confirmed", True)


def begins_what_it_has_not_begun_itself(patch: pytest.MonkeyPatch) -> None:
    """Does not look at what its last incarnation left."""
    honest, honest_living = PodWorker._facts, PodWorker._living

    def facts(self: PodWorker, now: datetime) -> PodFacts:
        found = honest(self, now)
        return replace(found, instances={id_: each for id_, each in found.instances.items() if id_ in self._begun})

    def living(self: PodWorker) -> list[ContainerId]:
        return [id_ for id_ in honest_living(self) if id_ in self._begun]

    patch.setattr(PodWorker, "_facts", facts)
    patch.setattr(PodWorker, "_living", living)


def does_not_wait_for_a_predecessor(patch: pytest.MonkeyPatch) -> None:
    honest = Pods._look_after

    async def look_after(self: Pods, worker: PodWorker, predecessors: Any) -> None:
        await honest(self, worker, [])

    patch.setattr(Pods, "_look_after", look_after)


def believes_that_all_goes_on_after_a_reboot(patch: pytest.MonkeyPatch) -> None:
    honest = PodWorker._facts

    def runs(state: State) -> State:
        is_lost = isinstance(state, Exited) and state.reason == "ContainerStatusUnknown"
        return Running(state.started_at) if isinstance(state, Exited) and is_lost else state

    def facts(self: PodWorker, now: datetime) -> PodFacts:
        found = honest(self, now)
        instances: Mapping[Any, State] = {id_: runs(state) for id_, state in found.instances.items()}
        return replace(found, instances=instances)

    patch.setattr(PodWorker, "_facts", facts)


# What is ended


def removes_a_pod_before_it_has_ended(patch: pytest.MonkeyPatch) -> None:
    honest = PodWorker._end

    async def end(self: PodWorker, step: End) -> None:
        await honest(self, step)
        await self._remove()

    patch.setattr(PodWorker, "_end", end)


def leaves_strays_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pods, "_find_strays", lambda self: self._strays_gone.set())


def ends_what_an_old_list_does_not_have(patch: pytest.MonkeyPatch) -> None:
    async def at_once(self: Pods) -> None:
        pass

    patch.setattr(Pods, "_cache_is_current", at_once)


def counts_deadlines_from_its_own_start(patch: pytest.MonkeyPatch) -> None:
    """Each agent that takes a pod on gives it its whole time."""
    honest = lifecycle._deadline

    def deadline(pod: Object, facts: PodFacts) -> datetime | None:
        status = {name: value for name, value in (pod.get("status") or {}).items() if name != "startTime"}
        return honest({**pod, "status": status}, facts)

    patch.setattr(lifecycle, "_deadline", deadline)


# Pods deleted by force


def never_confirms_ended_pods(patch: pytest.MonkeyPatch) -> None:
    async def confirm_ended(self: Pods) -> None:
        await asyncio.Event().wait()

    patch.setattr(Pods, "_confirm_ended", confirm_ended)


def confirms_ended_pods_too_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pods, "_is_gone", lambda self, uid: True)


# The lease


def counts_from_the_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    honest = NodeAgent._renewed

    async def renewed(self: NodeAgent, sent_ns: int) -> None:
        await honest(self, self._clock.monotonic_ns())

    patch.setattr(NodeAgent, "_renewed", renewed)


def holds_for_longer_than_it_may(patch: pytest.MonkeyPatch) -> None:
    honest = NodeAgent._renewed

    async def renewed(self: NodeAgent, sent_ns: int) -> None:
        await honest(self, sent_ns + timedelta(minutes=1) // timedelta(microseconds=1) * 1000)

    patch.setattr(NodeAgent, "_renewed", renewed)


def starts_again_what_it_had(patch: pytest.MonkeyPatch) -> None:
    """After it has lost its lease and got it again, it does not ask what became of its pods."""
    patch.setattr(PodWorker, "_is_confirmed", property(lambda self: self._confirmed is not None))


def takes_its_lease_back(patch: pytest.MonkeyPatch) -> None:
    """Regardless of who has it now."""
    honest = NodeAgent._renew

    async def renew(self: NodeAgent, lease: Object | None) -> Object | None:
        if lease is None:
            lease = await self._client.get(LEASES, self.name, "kube-node-lease")
        now = times.format_micro_time(self._clock.wall())
        return await self._client.replace(
            LEASES, {**lease, "spec": {**lease["spec"], **self._lease_spec(), "renewTime": now}}
        )

    async def first(self: NodeAgent, lease: Object | None) -> Object | None:
        return await (honest if self.epoch == 0 else renew)(self, lease)

    patch.setattr(NodeAgent, "_renew", first)


# Tokens


def keeps_a_token_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Requests the token of a pod once, as if it had no end."""
    honest = PodTokens._request

    async def request(self: PodTokens, pod: Object, need: TokenNeed, now_ns: int) -> Any:
        return replace(await honest(self, pod, need, now_ns), rotate_at_ns=2**63)

    patch.setattr(PodTokens, "_request", request)
